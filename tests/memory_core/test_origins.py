"""Where an entry came from: who wrote it, in which conversation and when, and who edited it last."""

import sqlalchemy as sa

from memory_core.database.tables import memory_origins
from memory_core.document import Target
from memory_core.origins import Origin, origin_of, origins_of
from memory_core.owner import Actor
from tests.database import rows
from tests.memory_core.building import MEMORY, USER, add, remove, replace
from tests.memory_core.keeping import Keeper


def origin(keeper: Keeper, text: str, target: Target = USER) -> Origin | None:
    with keeper.engine.connect() as connection:
        return origin_of(connection, keeper.id, keeper.digest(text, target))


def story(keeper: Keeper, text: str, target: Target = USER) -> tuple[str, str | None, str | None, str | None]:
    """Written by and in, edited by and in; the last two None without an edit."""
    found = origin(keeper, text, target)
    assert found is not None
    edited = (str(found.edited.actor), found.edited.conversation_id) if found.edited else (None, None)
    return (str(found.written.actor), found.written.conversation_id, *edited)


def test_an_entry_knows_who_wrote_it_where_and_when(keeper: Keeper) -> None:
    """By the agent, in a conversation and a turn; no edit."""
    done = keeper.saved(add("Uses Go"), actor=Actor.AGENT, conversation_id="cht_1", turn_id="trn_1")
    found, receipt = origin(keeper, "Uses Go"), keeper.receipt(done.receipt_id)
    assert found is not None
    assert receipt is not None
    assert (found.written.actor, found.written.conversation_id, found.written.turn_id) == (
        Actor.AGENT,
        "cht_1",
        "trn_1",
    )
    assert found.written.at == receipt.created_at
    assert found.edited is None


def test_an_edited_entry_knows_its_writer_and_its_last_editor(keeper: Keeper) -> None:
    """Through any number of edits the first writer stays."""
    keeper.saved(add("one"), actor=Actor.AGENT, conversation_id="cht_1")
    keeper.saved(replace("one", "two"), actor=Actor.AGENT, conversation_id="cht_2")
    keeper.saved(replace("two", "three"))
    assert story(keeper, "three") == ("agent", "cht_1", "person", None)


def test_an_entry_edited_back_to_its_old_words_was_still_edited(keeper: Keeper) -> None:
    """The chain passes through the same words twice and does not lose its way."""
    keeper.saved(add("one"), actor=Actor.AGENT, conversation_id="cht_1")
    keeper.saved(replace("one", "two"))
    keeper.saved(replace("two", "one"), actor=Actor.AGENT, conversation_id="cht_3")
    assert story(keeper, "one") == ("agent", "cht_1", "agent", "cht_3")


def test_entries_that_only_swapped_their_places_keep_their_origins(keeper: Keeper) -> None:
    """Where an entry stands is no change of it."""
    keeper.saved(add("left"), actor=Actor.AGENT, conversation_id="cht_left")
    keeper.saved(add("right"), actor=Actor.AGENT, conversation_id="cht_right")
    assert keeper.commit(replace("left", "x"), replace("right", "left"), replace("x", "right")) is None
    assert story(keeper, "left") == ("agent", "cht_left", None, None)
    assert story(keeper, "right") == ("agent", "cht_right", None, None)


def test_undoing_brings_an_entry_back_with_the_origin_it_had(keeper: Keeper) -> None:
    """A removed entry, and the old text of an edit: restored is not written anew."""
    keeper.saved(add("Uses Go"), actor=Actor.AGENT, conversation_id="cht_1")
    keeper.undo(keeper.saved(remove("Uses Go")).receipt_id)
    assert story(keeper, "Uses Go") == ("agent", "cht_1", None, None)
    keeper.undo(keeper.saved(replace("Uses Go", "Uses Rust")).receipt_id)
    assert story(keeper, "Uses Go") == ("agent", "cht_1", None, None)


def test_an_entry_said_again_after_its_removal_is_written_anew(keeper: Keeper) -> None:
    """Its earlier life is over."""
    keeper.saved(add("Uses Go"), actor=Actor.AGENT, conversation_id="cht_1")
    keeper.saved(remove("Uses Go"))
    keeper.saved(add("Uses Go"), actor=Actor.PERSON)
    assert story(keeper, "Uses Go") == ("person", None, None, None)


def test_the_same_words_in_the_other_document_have_an_origin_of_their_own(keeper: Keeper) -> None:
    """Digests tell the documents apart."""
    keeper.saved(add("Uses Go"), actor=Actor.AGENT)
    keeper.saved(add("Uses Go", MEMORY), actor=Actor.OPERATOR)
    assert story(keeper, "Uses Go")[0] == "agent"
    assert story(keeper, "Uses Go", MEMORY)[0] == "operator"


def test_what_is_not_on_record_is_left_out(keeper: Keeper) -> None:
    """Another person's entries, words nobody stored, and no question at all."""
    keeper.saved(add("Uses Go"))
    other = Keeper(keeper.engine, keeper.organization, "grace")
    assert origin(other, "Uses Go") is None
    assert origin(keeper, "never stored") is None
    with keeper.engine.connect() as connection:
        digests = [keeper.digest("Uses Go"), keeper.digest("never stored"), keeper.digest("Uses Go")]
        assert origins_of(connection, keeper.id, digests).keys() == {keeper.digest("Uses Go")}
        assert origins_of(connection, keeper.id, []) == {}


def test_origins_hold_digests_and_no_words(keeper: Keeper) -> None:
    """32 bytes each."""
    keeper.saved(add("Uses Go"))
    keeper.saved(replace("Uses Go", "Uses Rust"))
    stored = rows(keeper.engine, sa.select(memory_origins).order_by(memory_origins.c.id))
    assert [bytes(row["digest"]) for row in stored] == [keeper.digest("Uses Go"), keeper.digest("Uses Rust")]
    assert [row["previous_digest"] and bytes(row["previous_digest"]) for row in stored] == [
        None,
        keeper.digest("Uses Go"),
    ]
