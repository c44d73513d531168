"""Workers: whoever waits for a database call learns how it ended, whatever cancels the wait."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import owners
from memory_core.database.transaction import Cancellation, Unit, transaction
from memory_core.database.worker import Outcome, WorkerLost, Workers
from memory_core.errors import TransactionCancelled
from tests.database import OrganizationForTests, rows
from tests.memory_core.database.waiting import WAIT_SECONDS, until_locked

Cancelling = Callable[[Callable[[], Coroutine[Any, Any, Any]], threading.Event], Coroutine[Any, Any, None]]


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers(4)
    yield made
    made.close()


async def native(wait: Callable[[], Coroutine[Any, Any, Any]], begun: threading.Event) -> None:
    """Cancel a task as asyncio does at shutdown, twice: the second one while it already waits to the end."""
    task = asyncio.create_task(wait())
    await until(begun)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait_for(asyncio.wait({task}), WAIT_SECONDS)
    assert task.done()
    if not task.cancelled():
        task.result()


async def scope(wait: Callable[[], Coroutine[Any, Any, Any]], begun: threading.Event) -> None:
    """Cancel a scope as Starlette does when a client goes away: it cancels every later await again."""
    with anyio.fail_after(WAIT_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await until(begun)
            group.cancel_scope.cancel()


async def until(event: threading.Event) -> None:
    """Wait for another thread's event without stopping the loop."""
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, WAIT_SECONDS)


both_kinds = pytest.mark.parametrize("cancel_it", [native, scope])


async def test_a_value_and_an_error_come_back(workers: Workers) -> None:
    """Without a cancel `run` is the work's own value or error, and `run_to_end` tells of either."""

    def fail() -> None:
        raise LookupError("no")

    assert await workers.run(lambda: 7) == 7
    with pytest.raises(LookupError):
        await workers.run(fail)
    assert await workers.run_to_end(lambda: 7) == Outcome(7, None)
    failed = await workers.run_to_end(fail)
    assert isinstance(failed.error, LookupError)
    with pytest.raises(LookupError):
        failed.unwrap()


@pytest.mark.invariant("I18")
@both_kinds
async def test_a_cancelled_wait_goes_on_until_the_work_is_over(workers: Workers, cancel_it: Cancelling) -> None:
    """The cancel reaches the work, the work finishes, and only then does the waiting end, with the outcome known."""
    cancel, begun, order = Cancellation(), threading.Event(), list[str]()

    def work() -> str:
        begun.set()
        assert cancel.wait(WAIT_SECONDS)
        order.append("work over")
        return "value"

    async def wait() -> None:
        outcome = await workers.run_to_end(work, cancel=cancel)
        order.append("outcome known")
        assert (outcome.unwrap(), outcome.cancelled) == ("value", True)
        outcome.raise_if_cancelled()

    await cancel_it(wait, begun)
    assert order == ["work over", "outcome known"]


@pytest.mark.invariant("I18")
@both_kinds
async def test_a_commit_that_succeeded_although_its_caller_was_cancelled_is_known(
    workers: Workers, engine: Engine, organization: OrganizationForTests, cancel_it: Cancelling
) -> None:
    """The cancel came while COMMIT was under way: the row is there, and the outcome says so."""
    cancel, begun = Cancellation(), threading.Event()
    known: list[Outcome[str]] = []

    def commit_slowly(_: object) -> None:
        begun.set()
        assert cancel.wait(WAIT_SECONDS)

    sa.event.listen(engine, "commit", commit_slowly)
    owner = organization.owner()

    def work() -> str:
        return transaction(engine, lambda unit: unit.locked_owner.id, owner=owner, create_owner=True, cancel=cancel)

    async def wait() -> None:
        known.append(await workers.run_to_end(work, cancel=cancel))
        known[0].raise_if_cancelled()

    await cancel_it(wait, begun)
    assert known[0].cancelled
    assert rows(engine, sa.select(owners.c.id)) == [{"id": known[0].unwrap()}]


@pytest.mark.invariant("I18")
@pytest.mark.invariant("I37")
@both_kinds
async def test_a_cancelled_wait_for_a_lock_ends_at_once_and_nothing_is_stored(
    workers: Workers, engine: Engine, organization: OrganizationForTests, cancel_it: Cancelling
) -> None:
    """Somebody else holds the owner; the cancelled request is back in no time, rolled back."""
    owner, cancel = organization.owner(), Cancellation()
    transaction(engine, lambda unit: None, owner=owner, create_owner=True)
    held, let_go, begun = threading.Event(), threading.Event(), threading.Event()

    def hold(_: Unit) -> None:
        held.set()
        assert let_go.wait(WAIT_SECONDS)

    def change(unit: Unit) -> None:
        unit.connection.execute(sa.update(owners).values(version=99))

    async def wait() -> None:
        await workers.run(lambda: transaction(engine, change, owner=owner, cancel=cancel), cancel=cancel)

    async def watch() -> None:
        await workers.run(lambda: until_locked(engine))
        begun.set()

    holder = asyncio.create_task(workers.run(lambda: transaction(engine, hold, owner=owner)))
    await until(held)
    watcher = asyncio.create_task(watch())
    started = time.monotonic()
    await cancel_it(wait, begun)
    assert time.monotonic() - started < WAIT_SECONDS / 2
    let_go.set()
    await asyncio.gather(holder, watcher)
    assert rows(engine, sa.select(owners.c.version)) == [{"version": 0}]


@both_kinds
async def test_work_that_has_not_begun_never_begins(cancel_it: Cancelling) -> None:
    """With every thread busy, a cancelled call leaves at once and its work is taken off the list."""
    workers = Workers(1)
    busy, free, ran = threading.Event(), threading.Event(), threading.Event()

    def occupy() -> None:
        busy.set()
        assert free.wait(WAIT_SECONDS)

    async def wait() -> None:
        outcome = await workers.run_to_end(ran.set)
        assert isinstance(outcome.error, TransactionCancelled)
        outcome.raise_if_cancelled()

    occupied = asyncio.create_task(workers.run(occupy))
    await until(busy)
    await cancel_it(wait, busy)
    free.set()
    await occupied
    await workers.run(lambda: None)
    assert not ran.is_set()
    workers.close()


async def test_run_raises_the_cancel_that_anyio_knows_as_its_own() -> None:
    """The scope swallows the cancel it sent, and the code after it goes on."""
    workers, cancel = Workers(1), Cancellation()
    with anyio.move_on_after(0.01) as moved:
        await workers.run(lambda: cancel.wait(WAIT_SECONDS), cancel=cancel)
    assert moved.cancelled_caught
    workers.close()


async def test_a_native_cancel_that_follows_an_anyio_one_is_not_lost() -> None:
    """The scope takes back its own cancel only: the task itself still ends as cancelled."""
    workers, cancel, begun, go = Workers(1), Cancellation(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go.wait(WAIT_SECONDS)

    inner = anyio.CancelScope()

    async def wait() -> None:
        with inner:
            await workers.run(work, cancel=cancel)

    task = asyncio.create_task(wait())
    await until(begun)
    inner.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert cancel.is_set()
    task.cancel()
    go.set()
    await asyncio.wait({task}, timeout=WAIT_SECONDS)
    assert task.cancelled()
    workers.close()


@pytest.mark.invariant("I37")
async def test_work_that_does_not_come_back_is_given_up_in_the_end() -> None:
    """The last resort: a thread that ignores its cancel holds nobody beyond the last wait; its outcome is unknown."""
    workers, begun, free = Workers(1, last_wait_seconds=0.05), threading.Event(), threading.Event()
    known: list[Outcome[bool]] = []

    def work() -> bool:
        begun.set()
        return free.wait(WAIT_SECONDS)

    async def wait() -> None:
        known.append(await workers.run_to_end(work))
        known[0].raise_if_cancelled()

    await native(wait, begun)
    assert isinstance(known[0].error, WorkerLost)
    free.set()
    workers.close()


async def test_closed_workers_finish_what_is_under_way_and_drop_what_waits() -> None:
    """At the end of a process nothing new begins."""
    workers = Workers(1)
    busy, free = threading.Event(), threading.Event()

    def occupy() -> str:
        busy.set()
        assert free.wait(WAIT_SECONDS)
        return "finished"

    under_way = asyncio.create_task(workers.run(occupy))
    await until(busy)
    waiting = asyncio.create_task(workers.run_to_end(lambda: "begun"))
    await asyncio.sleep(0)
    workers.close()
    free.set()
    assert await under_way == "finished"
    outcome = await waiting
    assert isinstance(outcome.error, TransactionCancelled)
    assert not outcome.cancelled
