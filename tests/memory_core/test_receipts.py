"""Receipts and undo: what was saved can be taken back for a day, whole or not at all, once, and then its words go."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.changes import Committed
from memory_core.database.tables import memory_changes, owners
from memory_core.database.transaction import Unit
from memory_core.document import Snapshot
from memory_core.errors import MemoryCoreError, OperationRefused, OwnerGone, ReceiptGone, RefusalCode
from memory_core.operations import Change, Operation
from memory_core.owner import Actor
from memory_core.receipts import find_receipts, forget_receipt, mark_undone, sweep_expired_undo
from memory_core.store import undoable_changes
from tests.database import OrganizationForTests, rows, tables_holding
from tests.memory_core.building import MEMORY, USER, add, remove, replace
from tests.memory_core.database.waiting import WAIT_SECONDS
from tests.memory_core.keeping import Keeper

SENTINEL = "zebra-quartz-6604"
MEMORY_TABLES = {"agent_memory", "memory_changes", "memory_origins", "memory_tombstones"}


class TestReceipts:
    """What a receipt shows, and to whom."""

    def test_a_receipt_shows_the_exact_words_while_they_can_be_undone(self, keeper: Keeper) -> None:
        """Who, where, how much, which words, until when."""
        done = keeper.saved(add("Uses Go"), actor=Actor.AGENT, turn_id="trn_1", conversation_id="cht_1")
        receipt = keeper.receipt(done.receipt_id)
        assert receipt is not None
        assert receipt.changes == (Change(USER, None, "Uses Go"),)
        assert (receipt.actor, receipt.turn_id, receipt.conversation_id) == (Actor.AGENT, "trn_1", "cht_1")
        assert (receipt.added, receipt.user_before, receipt.user_after) == (1, 0, 7)
        assert receipt.can_be_undone
        assert receipt.undo_until == done.undo_until
        assert receipt.undo_until is not None
        assert round((receipt.undo_until - receipt.created_at).total_seconds()) == 24 * 3600
        assert "Uses Go" not in repr(receipt)
        assert "Uses Go" not in repr(done)

    def test_receipts_are_found_by_their_turns_and_conversations_too(self, keeper: Keeper) -> None:
        """Oldest first; asking for nothing finds nothing, not what belongs to no conversation."""
        first = keeper.saved(add("a"), turn_id="trn_1", conversation_id="cht_1").receipt_id
        second = keeper.saved(add("b"), turn_id="trn_2", conversation_id="cht_1").receipt_id
        third = keeper.saved(add("c")).receipt_id
        with keeper.engine.connect() as connection:

            def found(**wanted: Any) -> list[str]:
                return [receipt.id for receipt in find_receipts(connection, keeper.id, **wanted)]

            assert found(turn_ids=["trn_2", "trn_1"]) == [first, second]
            assert found(conversation_id="cht_1") == [first, second]
            assert found(conversation_id="cht_1", receipt_ids=[third]) == [first, second, third]
            assert found() == []

    @pytest.mark.invariant("I26")
    def test_another_persons_receipt_is_not_there(self, keeper: Keeper) -> None:
        """Neither to look at, nor to undo, nor to forget."""
        receipt_id = keeper.saved(add("Uses Go"), turn_id="trn_1").receipt_id
        other = Keeper(keeper.engine, keeper.organization, "grace")
        assert other.receipt(receipt_id) is None
        assert other.do(lambda unit: undoable_changes(unit, "trn_1")) is None
        for act in (other.undo, lambda receipt: other.do(lambda unit: forget_receipt(unit, receipt))):
            with pytest.raises(ReceiptGone):
                act(receipt_id)
        assert keeper.receipt(receipt_id) is not None

    def test_with_undo_switched_off_no_word_is_kept(self, engine: Engine, organization: OrganizationForTests) -> None:
        """0 hours: the receipt counts, and that is all."""
        keeper = Keeper(engine, organization, undo_hours=0)
        done = keeper.saved(add(SENTINEL))
        receipt = keeper.receipt(done.receipt_id)
        assert receipt is not None
        assert (receipt.changes, receipt.can_be_undone, receipt.undo_until, done.undo_until) == ((), False, None, None)
        assert "memory_changes" not in tables_holding(engine, SENTINEL)
        with pytest.raises(ReceiptGone):
            keeper.undo(done.receipt_id)


@pytest.mark.invariant("I40")
class TestUndo:
    """The inverse of what the commit really changed."""

    def test_everything_a_change_did_is_taken_back(self, keeper: Keeper) -> None:
        """The entries are those of before; what had been removed comes back last."""
        keeper.saved(add("keep"), add("edit"), add("remove"), add("note", MEMORY))
        done = keeper.saved(remove("remove"), replace("edit", "edited"), add("added"), remove("note", MEMORY))
        undone = keeper.undo(done.receipt_id)
        assert keeper.snapshot == Snapshot(("keep", "edit", "remove"), ("note",))
        assert undone.after == keeper.snapshot
        assert keeper.row.version == 3

    def test_a_swap_is_taken_back(self, keeper: Keeper) -> None:
        """Also where each text was once the other's place."""
        keeper.saved(add("left"), add("right"))
        done = keeper.saved(replace("left", "x"), replace("right", "left"), replace("x", "right"), add("third"))
        keeper.undo(done.receipt_id)
        assert sorted(keeper.snapshot.user) == ["left", "right"]

    def test_its_receipt_names_what_it_undid_and_cannot_be_undone(self, keeper: Keeper) -> None:
        """Undo is no see-saw."""
        done = keeper.saved(add("Uses Go"))
        undone = keeper.undo(done.receipt_id)
        first, second = keeper.receipt(done.receipt_id), keeper.receipt(undone.receipt_id)
        assert first is not None
        assert second is not None
        assert first.undone_at is not None
        assert not first.can_be_undone
        assert first.changes == (Change(USER, None, "Uses Go"),)
        assert (second.actor, second.undoes_id, second.undo_until, second.removed) == (
            Actor.UNDO,
            done.receipt_id,
            None,
            1,
        )
        with pytest.raises(ReceiptGone):
            keeper.undo(undone.receipt_id)

    @pytest.mark.parametrize("actor", [Actor.AGENT, Actor.OPERATOR, Actor.IMPORT, Actor.REVIEW, Actor.APPROVAL])
    def test_whoever_made_the_change_it_can_be_undone(self, keeper: Keeper, actor: Actor) -> None:
        """An approval's too; only an undo's cannot."""
        keeper.undo(keeper.saved(add("Uses Go"), actor=actor).receipt_id)
        assert keeper.snapshot == Snapshot()

    def test_it_is_refused_when_its_time_is_over_although_nothing_was_swept(self, keeper: Keeper) -> None:
        """The clock of the database decides at every read."""
        done = keeper.saved(add("Uses Go"), turn_id="trn_1")
        keeper.expire([done.receipt_id])
        receipt = keeper.receipt(done.receipt_id)
        assert receipt is not None
        assert (receipt.changes, receipt.can_be_undone) == ((), False)
        assert keeper.do(lambda unit: undoable_changes(unit, "trn_1")) is None
        with pytest.raises(ReceiptGone):
            keeper.undo(done.receipt_id)
        assert keeper.snapshot.user == ("Uses Go",)

    def test_a_receipt_that_does_not_exist_is_gone(self, keeper: Keeper) -> None:
        """An id from anywhere."""
        with pytest.raises(ReceiptGone):
            keeper.undo("rcp_nothing")

    @pytest.mark.parametrize(
        "later", [replace("added", "added, then edited"), remove("added"), replace("edited", "again"), add("removed")]
    )
    def test_it_is_refused_whole_if_anything_it_touches_has_changed_since(
        self, keeper: Keeper, later: Operation
    ) -> None:
        """One of three entries is no longer as the change left it: all three stay as they are."""
        keeper.saved(add("edit"), add("removed"))
        done = keeper.saved(remove("removed"), replace("edit", "edited"), add("added"))
        keeper.saved(later)
        before = keeper.snapshot
        with pytest.raises(OperationRefused) as refused:
            keeper.undo(done.receipt_id)
        assert refused.value.code is RefusalCode.CHANGED_SINCE
        assert keeper.snapshot == before
        assert len(rows(keeper.engine, sa.select(memory_changes.c.id))) == 3

    def test_it_is_judged_by_the_same_rules(self, keeper: Keeper) -> None:
        """What was removed no longer fits: refused as full, nothing half restored."""
        keeper.saved(add("x" * 700), add("short"))
        done = keeper.saved(remove("x" * 700), remove("short"))
        keeper.saved(add("y" * 1300))
        with pytest.raises(OperationRefused) as refused:
            keeper.undo(done.receipt_id)
        assert refused.value.code is RefusalCode.CAPACITY_EXCEEDED
        assert keeper.snapshot.user == ("y" * 1300,)

    def test_after_a_refusal_it_can_be_tried_again(self, keeper: Keeper) -> None:
        """Nothing was used up: when the way is free again, undo works."""
        done = keeper.saved(add("Uses Go"))
        later = keeper.saved(replace("Uses Go", "Uses Rust"))
        with pytest.raises(OperationRefused):
            keeper.undo(done.receipt_id)
        keeper.undo(later.receipt_id)
        keeper.undo(done.receipt_id)
        assert keeper.snapshot == Snapshot()

    def test_a_change_of_more_than_twenty_entries_is_undone_too(self, keeper: Keeper) -> None:
        """The limit of the tool's field does not bind an inverse."""
        before = keeper.saved(*(add(f"entry {number}") for number in range(30)))
        done = keeper.saved(*(remove(f"entry {number}") for number in reversed(range(30))))
        keeper.undo(done.receipt_id)
        assert set(keeper.snapshot.user) == set(before.after.user)

    def test_of_two_at_once_one_wins(self, keeper: Keeper) -> None:
        """A double click, or two tabs: one undoes, the other finds it done."""
        done = keeper.saved(add("Uses Go"))
        start = threading.Barrier(2)

        def undo(_: int) -> Committed | MemoryCoreError:
            start.wait(WAIT_SECONDS)
            try:
                return keeper.undo(done.receipt_id)
            except MemoryCoreError as error:
                return error

        with ThreadPoolExecutor(2) as executor:
            outcomes = list(executor.map(undo, range(2)))
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "ReceiptGone"]
        assert keeper.snapshot == Snapshot()
        assert len(rows(keeper.engine, sa.select(memory_changes.c.id))) == 2

    def test_an_undo_and_an_edit_at_once_have_one_winner(self, keeper: Keeper) -> None:
        """Whichever comes second finds that things have changed."""
        for _ in range(5):
            done = keeper.saved(add("Uses Go"))
            start = threading.Barrier(2)

            def at_once(change: Callable[[], object], start: threading.Barrier = start) -> None:
                start.wait(WAIT_SECONDS)
                change()

            undo, edit = partial(keeper.undo, done.receipt_id), partial(keeper.saved, replace("Uses Go", "Uses Rust"))
            with ThreadPoolExecutor(2) as executor:
                running = [executor.submit(at_once, change) for change in (undo, edit)]
                losers = [each.exception(WAIT_SECONDS) for each in running]
            stored = keeper.snapshot.user
            codes = [error.code for error in losers if isinstance(error, OperationRefused)]
            assert (stored, codes) in [
                ((), [RefusalCode.MATCH_NOT_FOUND]),
                (("Uses Rust",), [RefusalCode.CHANGED_SINCE]),
            ]
            keeper.commit(*(remove(text) for text in stored))

    def test_an_erased_person_is_not_brought_back_by_an_undo(self, keeper: Keeper) -> None:
        """The button was still on a page."""
        done = keeper.saved(add("Uses Go"))
        with keeper.engine.begin() as connection:
            connection.execute(sa.delete(owners).where(owners.c.id == keeper.id))
        with pytest.raises(OwnerGone):
            keeper.undo(done.receipt_id)
        assert rows(keeper.engine, sa.select(owners.c.id)) == []


class TestAskingAgain:
    """A regenerated answer takes the earlier one's change back within its own commit."""

    def test_the_change_of_a_turn_is_found_while_it_can_be_undone(self, keeper: Keeper) -> None:
        """With the receipt it belongs to, and its words; not once it was undone."""
        done = keeper.saved(add("Uses Go"), turn_id="trn_1")
        assert keeper.do(lambda unit: undoable_changes(unit, "trn_1")) == (done.receipt_id, done.changes)
        keeper.undo(done.receipt_id)
        assert keeper.do(lambda unit: undoable_changes(unit, "trn_1")) is None

    def test_marking_it_undone_has_one_winner(self, keeper: Keeper) -> None:
        """A receipt somebody undid meanwhile refuses the memory of the new turn."""
        done = keeper.saved(add("Uses Go"), turn_id="trn_1")
        keeper.do(lambda unit: mark_undone(unit, done.receipt_id))
        for receipt_id in (done.receipt_id, "rcp_nothing"):
            with pytest.raises(OperationRefused) as refused:
                keeper.do(partial(mark_undone, receipt_id=receipt_id))
            assert refused.value.code is RefusalCode.CHANGED_SINCE
        with pytest.raises(ReceiptGone):
            keeper.undo(done.receipt_id)


@pytest.mark.invariant("I34")
class TestWords:
    """How the words of a receipt go."""

    def test_a_removed_entry_is_in_no_memory_table_once_its_time_is_over(self, keeper: Keeper) -> None:
        """Gone from the document at once; gone from every table with the sweep."""
        added = keeper.saved(add(SENTINEL), add(f"{SENTINEL} as well", MEMORY))
        edited = keeper.saved(replace(f"{SENTINEL} as well", "something else", MEMORY))
        removed = keeper.saved(remove(SENTINEL))
        assert SENTINEL not in str(keeper.snapshot)
        assert tables_holding(keeper.engine, SENTINEL) == {"memory_changes"}
        keeper.expire([added.receipt_id, edited.receipt_id, removed.receipt_id])
        assert sweep_expired_undo(keeper.engine) == 3
        assert tables_holding(keeper.engine, SENTINEL) == set()
        assert sweep_expired_undo(keeper.engine) == 0

    def test_a_sweep_leaves_what_can_still_be_undone(self, keeper: Keeper) -> None:
        """Nobody loses an undo early."""
        first, second = keeper.saved(add("a")), keeper.saved(add("b"))
        keeper.expire([first.receipt_id])
        assert sweep_expired_undo(keeper.engine) == 1
        keeper.undo(second.receipt_id)
        assert keeper.snapshot.user == ("a",)

    def test_a_sweep_waits_for_nobody(self, keeper: Keeper) -> None:
        """A receipt that is being changed is left for the next sweep."""
        done = keeper.saved(add("a"))
        keeper.expire([done.receipt_id])

        def hold(unit: Unit) -> int:
            unit.connection.execute(sa.update(memory_changes).values(operation_count=9))
            return sweep_expired_undo(keeper.engine)

        assert keeper.do(hold) == 0
        assert sweep_expired_undo(keeper.engine) == 1

    def test_forget_now_deletes_the_words_and_the_way_back_at_once(self, keeper: Keeper) -> None:
        """The receipt of a removal, and the one that had added it: neither holds the words any longer."""
        added = keeper.saved(add(SENTINEL), add("other"))
        removed = keeper.saved(remove(SENTINEL))
        keeper.do(lambda unit: forget_receipt(unit, removed.receipt_id))
        assert tables_holding(keeper.engine, SENTINEL) & MEMORY_TABLES == set()
        for done in (removed, added):
            with pytest.raises(ReceiptGone):
                keeper.undo(done.receipt_id)
        keeper.do(lambda unit: forget_receipt(unit, removed.receipt_id))

    def test_forget_now_leaves_other_undos_alone(self, keeper: Keeper) -> None:
        """What is still remembered, and what could still be undone, stays as it is."""
        first = keeper.saved(add("Uses Go"))
        second = keeper.saved(add("Drinks tea"))
        edited = keeper.saved(replace("Uses Go", "Uses Rust"))
        keeper.do(lambda unit: forget_receipt(unit, first.receipt_id))
        keeper.undo(edited.receipt_id)
        keeper.undo(second.receipt_id)
        assert keeper.snapshot.user == ("Uses Go",)

    def test_forget_now_works_on_memory_that_cannot_be_read(self, keeper: Keeper) -> None:
        """The words of a receipt go whatever became of the documents."""
        done = keeper.saved(add(SENTINEL))
        keeper.make_unreadable()
        keeper.do(lambda unit: forget_receipt(unit, done.receipt_id))
        assert tables_holding(keeper.engine, SENTINEL) == set()
