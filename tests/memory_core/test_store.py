"""The store: what is written is what the rules say, in one transaction, and nothing that cannot be read is lost."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import agent_memory, agents, memory_origins, owners
from memory_core.database.transaction import Cancellation, Unit, transaction
from memory_core.document import Snapshot, render
from memory_core.errors import (
    MemoryUnavailable,
    OperationRefused,
    OwnerGone,
    RefusalCode,
    StorageFailed,
    TransactionCancelled,
    UnavailableReason,
)
from memory_core.ids import new_id
from memory_core.owner import Actor, LearningMode, MemoryMode
from memory_core.store import (
    MemoryView,
    change_entry,
    commit_batches,
    forget_everything,
    load_memory,
    read_snapshot,
    set_modes,
)
from tests.database import OrganizationForTests, rows, tables_holding
from tests.memory_core.building import MEMORY, USER, add, remove, replace
from tests.memory_core.database.waiting import killed_before_statement
from tests.memory_core.keeping import Keeper, receipts

SENTINEL = "zebra-quartz-3306"
UNREADABLE = [
    pytest.param({"schema_version": 2}, UnavailableReason.NEWER_SCHEMA, id="a newer release wrote it"),
    pytest.param({}, UnavailableReason.UNREADABLE, id="it cannot be parsed"),
]


class TestReading:
    """Reading makes nothing up and makes nobody."""

    def test_no_rows_are_two_empty_documents(self, keeper: Keeper) -> None:
        """Somebody who is stored, with nothing remembered."""
        assert keeper.snapshot == Snapshot()

    def test_an_unknown_person_has_empty_memory_and_is_not_stored_by_looking(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """A page may be opened without leaving a trace."""
        view = transaction(engine, lambda unit: load_memory(unit.connection, organization.owner("nobody")))
        assert view == MemoryView(None, Snapshot(), MemoryMode.AUTO, LearningMode.AUTO, None, organization.digest_key)
        assert rows(engine, sa.select(owners.c.id)) == []

    def test_an_unknown_organization_has_no_memory(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Nothing is read across organizations, and nothing fails."""
        stranger = OrganizationForTests(new_id("org"), organization.agent_id, b"").owner()
        assert transaction(engine, lambda unit: load_memory(unit.connection, stranger)).snapshot == Snapshot()

    def test_a_view_holds_documents_modes_and_the_last_change(self, keeper: Keeper) -> None:
        """All of it from one statement, so of one moment."""
        keeper.saved(add("Uses Go"), add("Repo uses tabs", MEMORY))
        keeper.do(lambda unit: set_modes(unit, memory_mode=MemoryMode.OFF))
        view = keeper.do(lambda unit: load_memory(unit.connection, keeper.owner))
        assert view.snapshot == Snapshot(("Uses Go",), ("Repo uses tabs",))
        assert (view.owner_id, view.status, view.unavailable) == (keeper.id, "available", None)
        assert (view.memory_mode, view.learning_mode) == (MemoryMode.OFF, LearningMode.AUTO)
        assert view.updated_at is not None
        assert "Uses Go" not in repr(view)

    @pytest.mark.parametrize("stored, reason", UNREADABLE)
    def test_memory_that_cannot_be_read_is_unavailable_as_a_whole(
        self, keeper: Keeper, stored: dict[str, Any], reason: UnavailableReason
    ) -> None:
        """One document beyond reading makes both unavailable; it is never shown as empty."""
        keeper.make_unreadable(**stored)
        view = keeper.do(lambda unit: load_memory(unit.connection, keeper.owner))
        assert (view.snapshot, view.status, view.unavailable) == (None, "unavailable", reason)
        with pytest.raises(MemoryUnavailable) as unavailable:
            keeper.do(lambda unit: read_snapshot(unit.connection, keeper.id))
        assert unavailable.value.reason is reason

    @pytest.mark.invariant("I19")
    @pytest.mark.parametrize("stored, reason", UNREADABLE)
    def test_no_write_touches_what_cannot_be_read(
        self, keeper: Keeper, stored: dict[str, Any], reason: UnavailableReason
    ) -> None:
        """The agent's, the panel's, an edit and an undo are all refused, and the stored bytes stay."""
        receipt = keeper.saved(add("Uses Go")).receipt_id
        keeper.make_unreadable(**stored)
        before, version = keeper.stored_bytes(), keeper.row.version
        writes: list[Callable[[], object]] = [
            lambda: keeper.commit(add("new"), actor=Actor.AGENT),
            lambda: keeper.commit(add("new")),
            lambda: keeper.do(lambda unit: change_entry(unit, USER, keeper.digest("Uses Go"), None, undo_hours=24)),
            lambda: keeper.undo(receipt),
        ]
        for write in writes:
            with pytest.raises(MemoryUnavailable):
                write()
        assert (keeper.stored_bytes(), keeper.row.version) == (before, version)

    @pytest.mark.invariant("I25")
    def test_nobody_reads_the_memory_of_a_namesake_in_other_letters(self, keeper: Keeper) -> None:
        """A subject that differs in case is somebody else, with memory of their own."""
        keeper.saved(add("Uses Go"))
        other = Keeper(keeper.engine, keeper.organization, "ADA")
        assert other.snapshot == Snapshot()
        other.saved(add("Uses Rust"))
        assert keeper.snapshot.user == ("Uses Go",)
        assert other.snapshot.user == ("Uses Rust",)


class TestCommitting:
    """A batch becomes rows."""

    def test_documents_are_stored_as_hermes_renders_them(self, keeper: Keeper) -> None:
        """Entries are joined by the separator; a document without entries has no row."""
        keeper.saved(add("Uses Go"), add("Drinks tea"))
        assert keeper.stored_bytes() == [("user", render(("Uses Go", "Drinks tea")), 1)]
        keeper.saved(remove("Uses Go"), remove("Drinks tea"))
        assert keeper.stored_bytes() == []

    @pytest.mark.invariant("I22")
    @pytest.mark.parametrize(
        "batch", [(), (add("Uses Go"),), (replace("Uses Go", " Uses Go\n"),), (add("x"), remove("x"))]
    )
    def test_a_batch_that_changes_nothing_writes_nothing(self, keeper: Keeper, batch: Any) -> None:
        """No receipt, no version, no tombstone: nothing was saved, and nobody may say so."""
        keeper.saved(add("Uses Go"))
        before = (keeper.stored_bytes(), keeper.row, keeper.tombstones, len(receipts(keeper)))
        assert keeper.commit(*batch) is None
        assert (keeper.stored_bytes(), keeper.row, keeper.tombstones, len(receipts(keeper))) == before

    @pytest.mark.invariant("I22")
    def test_a_batch_that_changes_something_says_exactly_what(self, keeper: Keeper) -> None:
        """The answer holds the net changes, both snapshots and the receipt; the row counts the same."""
        keeper.saved(add("Uses Go"), add("Drinks tea"))
        done = keeper.saved(
            replace("Uses Go", "Uses Rust"), remove("Drinks tea"), add("Tabs", MEMORY), add("Tabs", MEMORY)
        )
        assert (done.before, done.after) == (Snapshot(("Uses Go", "Drinks tea")), Snapshot(("Uses Rust",), ("Tabs",)))
        assert sorted(change.kind for change in done.changes) == ["added", "removed", "replaced"]
        assert keeper.snapshot == done.after
        row = receipts(keeper)[-1]
        assert (row["added"], row["replaced"], row["removed"], row["operation_count"]) == (1, 1, 1, 4)
        assert (row["user_before"], row["user_after"], row["memory_before"], row["memory_after"]) == (20, 9, 0, 4)
        assert keeper.row.version == 2

    def test_several_batches_are_applied_one_after_the_other(self, keeper: Keeper) -> None:
        """Each sees what the one before has made; together they are one change."""
        done = keeper.do(
            lambda unit: commit_batches(
                unit, [[add("Uses Go")], [replace("Go", "Uses Rust")]], actor=Actor.AGENT, undo_hours=24
            )
        )
        assert done is not None
        assert [change.kind for change in done.changes] == ["added"]
        assert keeper.snapshot.user == ("Uses Rust",)
        assert keeper.row.version == 1

    @pytest.mark.invariant("I07")
    def test_a_refused_batch_leaves_every_table_as_it_was(self, keeper: Keeper) -> None:
        """The second of two batches is refused, so the first is not stored either."""
        keeper.saved(add("Uses Go"))
        before = (keeper.stored_bytes(), keeper.row, receipts(keeper))
        with pytest.raises(OperationRefused):
            keeper.do(
                lambda unit: commit_batches(
                    unit, [[add("Drinks tea")], [remove("nowhere")]], actor=Actor.AGENT, undo_hours=24
                )
            )
        assert (keeper.stored_bytes(), keeper.row, receipts(keeper)) == before

    @pytest.mark.parametrize("actor", list(Actor))
    def test_who_was_here_counts_as_activity_unless_it_was_somebody_else(self, keeper: Keeper, actor: Actor) -> None:
        """What an operator, an import or a review writes is no activity of the person."""
        keeper.saved(add("Uses Go"), actor=actor)
        by_others = actor in (Actor.OPERATOR, Actor.IMPORT, Actor.REVIEW)
        assert (keeper.row.first_activity_at is None) == by_others

    def test_an_erased_owner_is_not_brought_back_by_a_commit(self, keeper: Keeper) -> None:
        """A turn that ends after the erasure finds nobody, and makes nobody."""
        keeper.saved(add("Uses Go"))
        with keeper.engine.begin() as connection:
            connection.execute(sa.delete(owners).where(owners.c.id == keeper.id))
        with pytest.raises(OwnerGone):
            keeper.commit(add("Drinks tea"), actor=Actor.AGENT)
        assert rows(keeper.engine, sa.select(agent_memory.c.user_id)) == []

    @pytest.mark.invariant("I18")
    def test_a_cancel_is_seen_before_anything_is_persisted(self, keeper: Keeper) -> None:
        """Reading and computing are over, the event is set: no statement that writes is sent."""
        cancel, sent = Cancellation(), list[str]()

        def watch(connection: object, cursor: object, statement: str, *rest: object) -> None:
            sent.append(statement.split()[0])
            if "agent_memory" in statement:
                cancel.set()

        sa.event.listen(keeper.engine, "before_cursor_execute", watch)
        with pytest.raises(TransactionCancelled):
            transaction(
                keeper.engine,
                lambda unit: commit_batches(unit, [[add("Uses Go")]], actor=Actor.AGENT, undo_hours=24),
                owner=keeper.owner,
                cancel=cancel,
            )
        assert not {"INSERT", "UPDATE", "DELETE"} & set(sent)
        sa.event.remove(keeper.engine, "before_cursor_execute", watch)
        assert keeper.snapshot == Snapshot()


@pytest.mark.invariant("I14")
def test_killed_before_any_statement_nothing_of_a_turn_is_stored(keeper: Keeper) -> None:
    """The session dies before the first, the second, … the last statement: answer, memory, receipt, all or none."""

    def answer_and_memory(unit: Unit) -> None:
        commit_batches(unit, [[add(SENTINEL)]], actor=Actor.AGENT, undo_hours=24)
        organization_id = keeper.organization.id
        unit.connection.execute(sa.insert(agents).values(id=SENTINEL, organization_id=organization_id, name="answer"))

    for number in itertools.count():
        with killed_before_statement(keeper.engine, number) as strikes:
            try:
                keeper.do(answer_and_memory)
            except StorageFailed:
                assert strikes == [number]
            else:
                break
        assert tables_holding(keeper.engine, SENTINEL) == set()
        assert (keeper.row.version, receipts(keeper)) == (0, [])
    assert number >= 8
    assert tables_holding(keeper.engine, SENTINEL) == {"agents", "agent_memory", "memory_changes"}
    assert (keeper.row.version, len(receipts(keeper))) == (1, 1)


class TestPanel:
    """Changes by hand name an entry by its digest."""

    def test_an_entry_is_edited_and_removed_wherever_it_stands(self, keeper: Keeper) -> None:
        """Its place may have changed; a text that contains it does not matter."""
        keeper.saved(add("Uses Go at work"), add("Uses Go"), add("Drinks tea"))
        keeper.saved(remove("Uses Go at work"))
        digest = keeper.digest("Uses Go")
        keeper.do(lambda unit: change_entry(unit, USER, digest, "Uses Rust", undo_hours=24))
        assert list(keeper.snapshot.user) == ["Uses Rust", "Drinks tea"]
        keeper.do(lambda unit: change_entry(unit, USER, keeper.digest("Drinks tea"), None, undo_hours=24))
        assert keeper.snapshot.user == ("Uses Rust",)
        assert [row["actor"] for row in receipts(keeper)[-2:]] == ["person", "person"]

    @pytest.mark.parametrize("content", ["Uses Rust", None])
    def test_an_entry_that_is_gone_or_changed_is_changed_since(self, keeper: Keeper, content: str | None) -> None:
        """In the other document, edited or never there: refused, and nothing is changed."""
        keeper.saved(add("Uses Go"), add("Drinks tea", MEMORY))
        before = keeper.stored_bytes()
        for digest in (keeper.digest("gone"), keeper.digest("Drinks tea"), b"", b"\0" * 32):
            with pytest.raises(OperationRefused) as refused:
                keeper.do(partial(change_entry, target=USER, digest=digest, content=content, undo_hours=24))
            assert refused.value.code is RefusalCode.CHANGED_SINCE
        assert keeper.stored_bytes() == before

    def test_an_edit_is_judged_like_any_other_change(self, keeper: Keeper) -> None:
        """What may not be stored may not be stored by hand either; the same text again is no change."""
        keeper.saved(add("Uses Go"), add("Drinks tea"))
        digest = keeper.digest("Uses Go")
        for content, code in (
            ("", "entry_empty"),
            ("Drinks tea", "entry_duplicate"),
            ("x" * 1400, "capacity_exceeded"),
        ):
            with pytest.raises(OperationRefused) as refused:
                keeper.do(partial(change_entry, target=USER, digest=digest, content=content, undo_hours=24))
            assert refused.value.code == code
        assert keeper.do(lambda unit: change_entry(unit, USER, digest, " Uses Go ", undo_hours=24)) is None


class TestModes:
    """The person's two switches."""

    def test_a_mode_is_set_alone_and_is_no_activity(self, keeper: Keeper) -> None:
        """What is not named stays; seeding stays possible."""
        keeper.do(lambda unit: set_modes(unit, memory_mode=MemoryMode.ASK))
        keeper.do(lambda unit: set_modes(unit, learning_mode=LearningMode.OFF))
        keeper.do(set_modes)
        assert (keeper.row.memory_mode, keeper.row.learning_mode) == (MemoryMode.ASK, LearningMode.OFF)
        assert keeper.row.first_activity_at is None


class TestForgettingEverything:
    """The person asked for all of it to go."""

    def test_no_word_is_left_in_any_table_of_memory(self, keeper: Keeper) -> None:
        """Documents, receipts and origins are empty; what stays are digests."""
        keeper.saved(add(SENTINEL), add(f"{SENTINEL} two", MEMORY))
        keeper.saved(replace(f"{SENTINEL} two", f"{SENTINEL} three", MEMORY))
        assert keeper.do(forget_everything) == 2
        assert tables_holding(keeper.engine, SENTINEL) == set()
        assert (keeper.snapshot, receipts(keeper)) == (Snapshot(), [])
        assert rows(keeper.engine, sa.select(memory_origins.c.id)) == []
        texts = {(SENTINEL, USER), (f"{SENTINEL} two", MEMORY), (f"{SENTINEL} three", MEMORY)}
        assert keeper.tombstones == {keeper.digest(text, target) for text, target in texts}

    def test_it_is_remembered_that_somebody_was_here(self, keeper: Keeper) -> None:
        """Seeding stays refused, and the review forgets what it has read."""
        keeper.saved(add("Uses Go"), actor=Actor.OPERATOR)
        keeper.do(forget_everything)
        assert keeper.row.first_activity_at is not None
        assert keeper.row.version == 2
        assert keeper.review_counter() == (0, True)

    def test_others_keep_theirs(self, keeper: Keeper) -> None:
        """One person's forgetting is that person's."""
        other = Keeper(keeper.engine, keeper.organization, "grace")
        other.saved(add("Uses Go"))
        keeper.saved(add("Uses Go"))
        keeper.do(forget_everything)
        assert (other.snapshot.user, len(receipts(other))) == (("Uses Go",), 1)

    @pytest.mark.parametrize("stored, reason", UNREADABLE)
    def test_memory_that_cannot_be_read_can_be_forgotten(
        self, keeper: Keeper, stored: dict[str, Any], reason: UnavailableReason
    ) -> None:
        """It is deleted as asked, not written over."""
        keeper.make_unreadable(**stored)
        keeper.do(forget_everything)
        assert keeper.stored_bytes() == []

    def test_a_cancel_leaves_everything(self, keeper: Keeper) -> None:
        """Its event is read before the first row goes."""
        keeper.saved(add("Uses Go"))
        cancel = Cancellation()

        def work(unit: Unit) -> int:
            cancel.set()
            return forget_everything(unit)

        with pytest.raises(TransactionCancelled):
            transaction(keeper.engine, work, owner=keeper.owner, cancel=cancel)
        assert keeper.snapshot.user == ("Uses Go",)
