"""The store with many writers at once: every change is kept, or clearly refused."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from memory_core.changes import Committed
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.document import Snapshot
from memory_core.errors import (
    OperationRefused,
    RefusalCode,
)
from memory_core.owner import Actor
from memory_core.store import (
    commit_batches,
    read_snapshot,
)
from tests.database import engine_on
from tests.memory_core.building import add, replace
from tests.memory_core.database.waiting import WAIT_SECONDS, until_locked
from tests.memory_core.keeping import Keeper, receipts


@pytest.mark.invariant("I16")
class TestConcurrentWriters:
    """Many write for one owner at once."""

    def test_a_second_writer_waits_and_applies_to_what_the_first_has_written(self, keeper: Keeper) -> None:
        """The first is stopped between reading and writing; the second is proven to wait; neither is lost."""
        is_inside, may_write = threading.Event(), threading.Event()

        def first(unit: Unit) -> Committed | None:
            assert read_snapshot(unit.connection, keeper.id) == Snapshot()
            is_inside.set()
            assert may_write.wait(WAIT_SECONDS)
            return commit_batches(unit, [[add("first")]], actor=Actor.AGENT, undo_hours=24)

        with ThreadPoolExecutor(2) as executor:
            one = executor.submit(keeper.do, first)
            assert is_inside.wait(WAIT_SECONDS)
            two = executor.submit(keeper.commit, add("second"))
            until_locked(keeper.engine)
            may_write.set()
            assert one.result(WAIT_SECONDS) is not None
            assert two.result(WAIT_SECONDS) is not None
        assert keeper.snapshot.user == ("first", "second")

    def test_of_two_who_edit_the_same_entry_one_is_refused(self, keeper: Keeper) -> None:
        """Both saw the same text; the second finds it gone and is told, and the first one's words stand."""
        keeper.saved(add("Uses Go"))
        start = threading.Barrier(2)

        def edit(content: str) -> str:
            start.wait(WAIT_SECONDS)
            try:
                keeper.saved(replace("Uses Go", content))
            except OperationRefused as refused:
                return refused.code
            return content

        with ThreadPoolExecutor(2) as executor:
            outcomes = set(executor.map(edit, ["Uses Rust", "Uses Zig"]))
        assert RefusalCode.MATCH_NOT_FOUND in outcomes
        assert keeper.snapshot.user == tuple(outcomes - {RefusalCode.MATCH_NOT_FOUND})

    @pytest.mark.parametrize("isolation_level", ["READ COMMITTED", "SERIALIZABLE"])
    def test_every_change_is_kept_or_clearly_refused(
        self, keeper: Keeper, database_url: str, isolation_level: str
    ) -> None:
        """Eight writers fill a document beyond its limit: what was saved is there, what was not was refused as full."""
        writers, each = 8, 12
        start = threading.Barrier(writers)
        limits = Limits(lock_seconds=30, tries=100, retry_seconds=60)
        refusals = set[RefusalCode]()
        with engine_on(database_url, writers, isolation_level=isolation_level) as engine:

            def write(writer: int) -> list[str]:
                start.wait(WAIT_SECONDS)
                return [text for number in range(each) if save(text := f"writer {writer} number {number}")]

            def save(text: str) -> bool:
                """Whether it was saved; if not, it was refused for want of room."""
                try:
                    transaction(engine, partial(commit_one, text=text), owner=keeper.owner, limits=limits)
                except OperationRefused as refused:
                    refusals.add(refused.code)
                    return False
                return True

            with ThreadPoolExecutor(writers) as executor:
                kept = [text for texts in executor.map(write, range(writers)) for text in texts]
        assert refusals == {RefusalCode.CAPACITY_EXCEEDED}
        assert sorted(kept) == sorted(keeper.snapshot.user)
        assert keeper.row.version == len(kept) == len(receipts(keeper))

    def test_different_people_do_not_wait_for_each_other(self, keeper: Keeper) -> None:
        """While one owner is locked, another one's change goes through."""
        other = Keeper(keeper.engine, keeper.organization, "grace")
        keeper.do(lambda unit: other.saved(add("Uses Go")))
        assert other.snapshot.user == ("Uses Go",)


def commit_one(unit: Unit, text: str) -> Committed | None:
    return commit_batches(unit, [[add(text)]], actor=Actor.AGENT, undo_hours=24)
