"""Cancelling a transaction: at every point it is obeyed or too late, in time, and it never meets anybody else."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import agents
from memory_core.database.transaction import Cancellation, Limits, Unit, transaction
from memory_core.errors import StorageFailed, TransactionCancelled
from memory_core.ids import new_id
from tests.database import OrganizationForTests, engine_on, rows
from tests.fakes.database_proxy import DatabaseProxy
from tests.memory_core.database.waiting import WAIT_SECONDS, backend_pid, until_locked, until_sleeping

#: A cancelled wait ends within milliseconds. Test machines are busy; the timeouts it is set against are longer still.
AT_ONCE_SECONDS = 2.0
LONG = Limits(lock_seconds=60, statement_seconds=60)


def names(engine: Engine) -> list[str]:
    return sorted(row["name"] for row in rows(engine, sa.select(agents.c.name)))


def add_agent(unit: Unit, organization: OrganizationForTests, name: str = "second") -> None:
    unit.connection.execute(sa.insert(agents).values(id=new_id("agt"), organization_id=organization.id, name=name))


def sleep(unit: Unit, seconds: float = 60) -> None:
    unit.connection.execute(sa.select(sa.func.pg_sleep(seconds)))


#: Where in the life of a pooled connection a cancel is set; None: by the clock.
MOMENTS = ("begin", "before_cursor_execute", "after_cursor_execute", "commit", "rollback", "checkin", None)


@contextmanager
def cancelling(engine: Engine, cancel: Cancellation, moment: str | None) -> Iterator[None]:
    """Set the cancel at this moment of whatever the engine does, inside the block."""

    def strike(*_: object) -> None:
        cancel.set()

    if moment is None:
        yield
        return
    sa.event.listen(engine, moment, strike)
    yield
    sa.event.remove(engine, moment, strike)


def spin(turns: int) -> None:
    """Let some time pass."""
    for _ in range(turns):
        pass


def ending(running: Future[Any]) -> str:
    try:
        running.result(WAIT_SECONDS)
    except TransactionCancelled:
        return "cancelled"
    return "committed"


@contextmanager
def thread() -> Iterator[Callable[..., Future[Any]]]:
    with ThreadPoolExecutor(1) as executor:
        yield executor.submit


@pytest.mark.invariant("I18")
class TestPoints:
    """The event is read before the query, before persistence and before commit."""

    def test_a_cancel_before_the_query_takes_no_connection(self, database_url: str) -> None:
        """Set before it begins: the work does not run, and nothing was asked of the database."""
        cancel = Cancellation()
        cancel.set()
        with engine_on(database_url) as engine:
            with pytest.raises(TransactionCancelled):
                transaction(engine, lambda unit: pytest.fail("ran"), cancel=cancel)
            assert "Connections in pool: 0" in engine.pool.status()

    def test_a_cancel_before_persistence_persists_nothing(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Set while the work computes: its checkpoint raises."""
        cancel = Cancellation()
        reached: list[str] = []

        def work(unit: Unit) -> None:
            cancel.set()
            reached.append("computed")
            unit.checkpoint()
            reached.append("persisted")
            add_agent(unit, organization)

        with pytest.raises(TransactionCancelled):
            transaction(engine, work, cancel=cancel)
        assert reached == ["computed"]
        assert names(engine) == ["Remembrancer"]

    def test_a_cancel_before_commit_takes_everything_back(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Set as the last act of the work: COMMIT is not sent."""
        cancel = Cancellation()

        def work(unit: Unit) -> None:
            add_agent(unit, organization)
            cancel.set()

        with pytest.raises(TransactionCancelled):
            transaction(engine, work, cancel=cancel)
        assert names(engine) == ["Remembrancer"]

    def test_a_cancel_after_the_last_look_comes_too_late(
        self, engine: Engine, organization: OrganizationForTests
    ) -> None:
        """Set while COMMIT is under way: the outcome is a commit, and the caller hears of it."""
        cancel = Cancellation()
        sa.event.listen(engine, "commit", lambda connection: cancel.set())
        assert transaction(engine, lambda unit: add_agent(unit, organization), cancel=cancel) is None
        assert cancel.is_set()
        assert names(engine) == ["Remembrancer", "second"]

    def test_a_cancel_ends_the_pause_before_another_try(self, engine: Engine) -> None:
        """Between two tries there is nothing to wait for."""
        cancel = Cancellation()
        tries: list[int] = []

        def work(unit: Unit) -> None:
            tries.append(unit.tries)
            unit.cancellation.set()
            unit.connection.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")

        with pytest.raises(TransactionCancelled):
            transaction(engine, work, cancel=cancel)
        assert tries == [1]


@pytest.mark.invariant("I18")
@pytest.mark.invariant("I37")
class TestWaiting:
    """A statement that waits ends when it is cancelled, not when its timeout comes."""

    def test_a_wait_for_a_lock_ends_at_once(self, engine: Engine, organization: OrganizationForTests) -> None:
        """Somebody keeps the owner's row; the cancelled one is back long before the lock timeout."""
        owner = organization.owner()
        transaction(engine, lambda unit: None, owner=owner, create_owner=True)
        cancel = Cancellation()

        def hold(_: Unit) -> float:
            with thread() as start:
                waiting = start(
                    transaction, engine, lambda unit: pytest.fail("ran"), owner=owner, cancel=cancel, limits=LONG
                )
                until_locked(engine)
                cancelled_at = time.monotonic()
                cancel.set()
                with pytest.raises(TransactionCancelled):
                    waiting.result(WAIT_SECONDS)
                return time.monotonic() - cancelled_at

        assert transaction(engine, hold, owner=owner) < AT_ONCE_SECONDS

    def test_a_slow_statement_ends_at_once(self, engine: Engine) -> None:
        """So does a statement that works."""
        cancel = Cancellation()
        with thread() as start:
            running = start(transaction, engine, sleep, cancel=cancel, limits=LONG)
            until_sleeping(engine)
            cancelled_at = time.monotonic()
            cancel.set()
            with pytest.raises(TransactionCancelled):
                running.result(WAIT_SECONDS)
            assert time.monotonic() - cancelled_at < AT_ONCE_SECONDS

    def test_a_cancel_that_meets_the_server_between_two_statements_reaches_the_next(self, engine: Engine) -> None:
        """PostgreSQL drops a cancel when no statement runs; ours is sent again until the work lets go."""
        cancel = Cancellation()

        def work(unit: Unit) -> None:
            cancel.set()
            sleep(unit)

        started = time.monotonic()
        with pytest.raises(TransactionCancelled):
            transaction(engine, work, cancel=cancel, limits=LONG)
        assert time.monotonic() - started < AT_ONCE_SECONDS

    def test_setting_it_does_not_wait_for_the_server(self, database_url: str, tmp_path: Path) -> None:
        """The event loop may call `set`: it returns at once even if the cancel cannot be delivered."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url) as engine:
            cancel, is_inside = Cancellation(), threading.Event()

            def work(unit: Unit) -> None:
                is_inside.set()
                sleep(unit)

            with thread() as start:
                running = start(transaction, engine, work, cancel=cancel, limits=LONG)
                assert is_inside.wait(WAIT_SECONDS)
                proxy.freeze()
                started = time.monotonic()
                cancel.set()
                assert time.monotonic() - started < 0.5
                with pytest.raises(TransactionCancelled):
                    running.result(WAIT_SECONDS)


class TestOthers:
    """A cancel is for one transaction."""

    def test_it_never_meets_the_next_user_of_the_connection(self, database_url: str) -> None:
        """One pooled connection; cancels race with its return, then somebody else sleeps on it, undisturbed."""
        outcomes = Counter[str]()
        with engine_on(database_url, 1) as engine, thread() as start:
            for round_number in range(120):
                cancel = Cancellation()
                work = partial(sleep, seconds=0.002)
                with cancelling(engine, cancel, MOMENTS[round_number % len(MOMENTS)]):
                    running = start(transaction, engine, work, cancel=cancel, limits=LONG)
                    if MOMENTS[round_number % len(MOMENTS)] is None:
                        spin(round_number * 100)  # a little later every time
                        cancel.set()
                    outcomes[ending(running)] += 1
                transaction(engine, partial(sleep, seconds=0.001), limits=LONG)
        assert outcomes.keys() == {"committed", "cancelled"}, outcomes

    def test_a_connection_whose_cancel_may_still_arrive_is_not_used_again(
        self, database_url: str, engine: Engine, tmp_path: Path
    ) -> None:
        """The cancel was swallowed on its way; when it gets through at last, it finds nobody."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url, 1) as through_proxy:
            cancel, is_inside = Cancellation(), threading.Event()

            def work(unit: Unit) -> int:
                is_inside.set()
                sleep(unit)
                return 0

            with thread() as start:
                running = start(transaction, through_proxy, work, cancel=cancel, limits=LONG)
                until_sleeping(engine)
                proxy.freeze()
                cancel.set()
                with pytest.raises(TransactionCancelled):
                    running.result(WAIT_SECONDS)
            proxy.thaw()
            transaction(through_proxy, lambda unit: sleep(unit, 0.2), limits=LONG)

    def test_a_connection_that_survived_an_undelivered_cancel_is_thrown_away(
        self, database_url: str, tmp_path: Path
    ) -> None:
        """The statement ended by itself while its cancel was stuck: whoever comes next gets another session."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url, 1) as engine:
            cancel = Cancellation()

            def work(unit: Unit) -> None:
                sessions.append(backend_pid(unit.connection))
                if unit.cancellation is cancel:
                    proxy.freeze_newcomers()
                    cancel.set()

            sessions: list[int] = []
            transaction(engine, work)
            with pytest.raises(TransactionCancelled):
                transaction(engine, work, cancel=cancel)
            proxy.take_newcomers()
            transaction(engine, work)
            assert sessions[0] == sessions[1] != sessions[2]

    def test_a_connection_whose_cancel_was_delivered_is_used_again(self, database_url: str) -> None:
        """The ordinary case costs no session."""
        with engine_on(database_url, 1) as engine:
            cancel = Cancellation()

            def work(unit: Unit) -> None:
                sessions.append(backend_pid(unit.connection))
                if unit.cancellation is cancel:
                    cancel.set()
                    sleep(unit)

            sessions: list[int] = []
            with pytest.raises(TransactionCancelled):
                transaction(engine, work, cancel=cancel, limits=LONG)
            transaction(engine, work)
            assert sessions[0] == sessions[1]

    def test_one_cancellation_serves_one_transaction_at_a_time(self, engine: Engine) -> None:
        """Using it for two at once is a mistake of the program, and is said."""
        cancel = Cancellation()

        def work(unit: Unit) -> None:
            transaction(engine, lambda unit: None, cancel=cancel)

        with pytest.raises(RuntimeError):
            transaction(engine, work, cancel=cancel)

    def test_it_can_serve_the_next_one(self, engine: Engine) -> None:
        """One request may run several transactions in a row under one wish to end."""
        cancel = Cancellation()
        transaction(engine, lambda unit: None, cancel=cancel)
        transaction(engine, lambda unit: None, cancel=cancel)
        cancel.set()
        with pytest.raises(TransactionCancelled):
            transaction(engine, lambda unit: None, cancel=cancel)


@pytest.mark.invariant("I37")
class TestDeadDatabase:
    """A database that neither answers nor hangs up."""

    def test_a_cancelled_transaction_is_back_within_seconds(self, database_url: str, tmp_path: Path) -> None:
        """Nothing passes any more, no cancel, no answer: the line is cut from our side."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url) as engine:
            cancel = Cancellation()

            def work(unit: Unit) -> None:
                proxy.freeze()
                threading.Timer(0.05, cancel.set).start()
                sleep(unit)

            started = time.monotonic()
            with pytest.raises(TransactionCancelled):
                transaction(engine, work, cancel=cancel, limits=LONG)
            assert time.monotonic() - started < 6

    def test_an_answer_that_never_comes_is_given_up(self, database_url: str, tmp_path: Path) -> None:
        """Without any cancel the client's own limit ends the wait: a lost connection."""
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url) as engine:

            def work(unit: Unit) -> None:
                proxy.freeze()
                sleep(unit, 0)

            started = time.monotonic()
            with pytest.raises(StorageFailed):
                transaction(engine, work, limits=Limits(statement_seconds=0.2))
            assert time.monotonic() - started < 6

    def test_a_connection_that_is_never_accepted_is_given_up(self, database_url: str, tmp_path: Path) -> None:
        """Connecting has a limit of its own; an address may shorten it."""
        address = "&connect_timeout=2"
        with DatabaseProxy(database_url, tmp_path) as proxy, engine_on(proxy.url + address) as engine:
            proxy.freeze()
            started = time.monotonic()
            with pytest.raises(StorageFailed):
                transaction(engine, lambda unit: pytest.fail("ran"))
            assert time.monotonic() - started < 6
