"""What was let go stays gone: no review brings it back, and the person's own word does."""

import pytest
import sqlalchemy as sa

from memory_core.database.tables import memory_tombstones, owners
from memory_core.document import Snapshot, Target
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Operation
from memory_core.owner import Actor
from tests.database import rows
from tests.memory_core.building import MEMORY, USER, add, remove, replace
from tests.memory_core.keeping import Keeper

pytestmark = pytest.mark.invariant("I34")


def test_a_removal_an_edit_and_an_undone_addition_each_leave_a_digest(keeper: Keeper) -> None:
    """Of the words that went, keyed; nothing of the words that stay."""
    added = keeper.saved(add("added"))
    keeper.saved(add("edit"), add("remove"))
    keeper.saved(replace("edit", "edited"), remove("remove"))
    keeper.undo(added.receipt_id)
    assert keeper.tombstones == {keeper.digest("edit"), keeper.digest("remove"), keeper.digest("added")}


def test_a_digest_can_not_be_made_without_the_key_of_the_organization(keeper: Keeper) -> None:
    """Two organizations leave different digests of the same words."""
    keeper.saved(add("Uses Go"))
    keeper.saved(remove("Uses Go"))
    assert keeper.tombstones == {keeper.digest("Uses Go")}
    assert all(len(digest) == 32 for digest in keeper.tombstones)


@pytest.mark.parametrize("actor", [Actor.AGENT, Actor.PERSON, Actor.APPROVAL, Actor.OPERATOR, Actor.IMPORT])
def test_saying_it_again_clears_the_digest(keeper: Keeper, actor: Actor) -> None:
    """An accepted addition by somebody's will, in whichever document, also as the new text of an edit."""
    keeper.saved(add("Uses Go"), add("Drinks tea"), add("other"))
    keeper.saved(remove("Uses Go"), remove("Drinks tea"))
    keeper.saved(add("Uses Go", MEMORY), actor=actor)
    keeper.saved(replace("other", "Drinks tea"), actor=actor)
    assert keeper.tombstones == {keeper.digest("other")}


def test_undoing_the_removal_clears_the_digest(keeper: Keeper) -> None:
    """And the digest of an edit's old text goes when the edit is undone, while its new text gets one."""
    keeper.saved(add("Uses Go"), add("Drinks tea"))
    keeper.undo(keeper.saved(remove("Uses Go")).receipt_id)
    assert keeper.tombstones == set()
    keeper.undo(keeper.saved(replace("Drinks tea", "Drinks coffee")).receipt_id)
    assert keeper.tombstones == {keeper.digest("Drinks coffee")}


def test_an_entry_that_moves_to_the_other_document_leaves_nothing(keeper: Keeper) -> None:
    """It is still remembered."""
    keeper.saved(add("Uses Go"))
    keeper.saved(remove("Uses Go"), add("Uses Go", MEMORY))
    assert keeper.tombstones == set()


@pytest.mark.parametrize("target", [USER, MEMORY])
def test_a_review_may_not_bring_back_what_was_let_go(keeper: Keeper, target: Target) -> None:
    """The same words, in any spelling and in either document: refused whole, and nothing is stored."""
    keeper.saved(add("Uses Go"), add("kept"))
    keeper.saved(remove("Uses Go"))
    before = keeper.snapshot
    with pytest.raises(OperationRefused) as refused:
        keeper.saved(add("new"), add("  Uses Go\r\n", target), actor=Actor.REVIEW)
    assert refused.value.code is RefusalCode.CHANGED_SINCE
    assert keeper.snapshot == before
    keeper.saved(add("new"), actor=Actor.REVIEW)


@pytest.mark.parametrize("removal", [remove("Uses Go"), replace("Uses Go", "Uses Rust")])
def test_a_removal_moves_the_watermark_and_empties_the_counter(keeper: Keeper, removal: Operation) -> None:
    """So no paraphrase of old talk brings it back either; an addition leaves both alone."""
    keeper.saved(add("Uses Go"))
    with keeper.engine.begin() as connection:
        connection.execute(sa.update(owners).values(turns_since_review=7))
    keeper.saved(add("Drinks tea"))
    assert keeper.review_counter() == (7, False)
    keeper.saved(removal)
    assert keeper.review_counter() == (0, True)


def test_each_removal_moves_the_watermark_on(keeper: Keeper) -> None:
    """Always to now, on the database's clock."""
    keeper.saved(add("a"), add("b"))
    watermark = sa.select(owners.c.review_watermark, sa.func.clock_timestamp().label("now"))
    keeper.saved(remove("a"))
    first = rows(keeper.engine, watermark)[0]
    keeper.saved(remove("b"))
    second = rows(keeper.engine, watermark)[0]
    assert first["review_watermark"] < first["now"] < second["review_watermark"]


def test_one_persons_digest_is_no_wall_for_another(keeper: Keeper) -> None:
    """What Ada let go, Grace's review may learn."""
    keeper.saved(add("Uses Go"))
    keeper.saved(remove("Uses Go"))
    other = Keeper(keeper.engine, keeper.organization, "grace")
    other.saved(add("Uses Go"), actor=Actor.REVIEW)
    assert other.snapshot == Snapshot(("Uses Go",))
    assert len(rows(keeper.engine, sa.select(memory_tombstones.c.digest))) == 1
