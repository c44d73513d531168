"""The desk: every end is recorded once, told once, and not lost in a queue."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from sqlalchemy.engine import Engine

from agent import telemetry
from agent.errors import (
    EndedBadly,
    ModelBusy,
    ModelFault,
    ModelRejected,
    ModelStreamBroken,
    ModelUnreachable,
)
from agent.outcome import Outcome, Reason
from agent.turn_desk import reason_of
from memory_core.errors import CommitUnknown, OwnerGone, StorageFailed
from tests.agent.database_steps import Cancellations, DatabaseSteps
from tests.agent.turning import (
    WAIT_SECONDS,
    House,
    adding,
    calls,
    in_thread,
    listen,
    open_house,
    removing,
    says,
    soon,
    stages,
    turn_row,
    turns_still_running,
)
from tests.database import OrganizationForTests
from tests.fakes.model_server import Gate, ModelServer, gate, text, tool


class Records:
    """What telemetry emits, in order."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.all.append({"event": event, **fields})

    error = info

    def of(self, event: str) -> list[dict[str, Any]]:
        return [record for record in self.all if record["event"] == event]


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Records:
    made = Records()
    monkeypatch.setattr(telemetry, "_log", made)
    return made


class Jam:
    """All threads of a house are busy until they are let go."""

    def __init__(self, house: House, threads: int) -> None:
        self._free = threading.Event()
        self._busy: list[Future[bool]] = [
            house.workers._executor.submit(self._free.wait, WAIT_SECONDS) for _ in range(threads)
        ]

    def clear(self) -> None:
        self._free.set()


@pytest.fixture
async def narrow(model: ModelServer, engine: Engine, organization: OrganizationForTests) -> AsyncIterator[House]:
    """A process with two threads."""
    async with open_house(engine, organization, model, threads=2) as house:
        yield house


@pytest.mark.invariant("I12")
@pytest.mark.invariant("I13")
@pytest.mark.parametrize("how", ["Task.cancel", "Task.cancel twice", "anyio"])
async def test_an_ending_that_waits_for_a_thread_is_not_lost(narrow: House, how: str) -> None:
    """All threads are busy when the reader is torn down: the end is recorded as soon as one is free."""
    narrow.model.play(text("Half of "), gate(Gate()))
    turn, scope, told = await narrow.begin(), anyio.CancelScope(), asyncio.Event()

    async def read() -> None:
        with scope:
            async with aclosing(narrow.run(turn)) as events:
                async for event in events:
                    if type(event).__name__ == "TextDelta":
                        told.set()

    task = asyncio.create_task(read())
    await soon(told.wait())
    jam = Jam(narrow, 2)
    for _ in range(2 if how == "Task.cancel twice" else 1):
        (scope.cancel if how == "anyio" else task.cancel)()
        await narrow.model.reached(aborted=1, within_seconds=2)
    jam.clear()
    await soon(asyncio.wait([task]))

    assert narrow.desk.unrecorded == {}
    assert turn_row(narrow.engine, turn.id)["outcome"] == Outcome.INTERRUPTED


@pytest.mark.invariant("I13")
async def test_a_begin_that_waits_for_a_thread_is_never_begun(narrow: House) -> None:
    """The client has gone before a thread was free: nothing is stored."""
    jam = Jam(narrow, 2)
    opening = asyncio.create_task(narrow.running.open(narrow.request()))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    jam.clear()

    assert opening.cancelled()
    await in_thread(lambda: None)
    assert turns_still_running(narrow.engine) == []
    assert narrow.running.now().others == ()


@pytest.mark.invariant("I12")
async def test_a_commit_that_waits_for_a_thread_can_be_stopped(narrow: House) -> None:
    """Stopped while it stood in line: it never begins, and the end is recorded when a thread is free."""
    held = Gate()
    narrow.model.play(*calls(adding("Likes tea.")))
    narrow.model.play(text("Noted."), gate(held), *says("")[1:])
    running = await narrow.running.open(narrow.request())
    await narrow.model.reached(requests=2)
    jam = Jam(narrow, 2)
    held.open()
    await narrow.model.reached(completed=2)
    running.interrupt(Outcome.STOPPED)
    jam.clear()

    told = await listen(running)

    assert told.ending.outcome is Outcome.STOPPED
    assert turn_row(narrow.engine, running.turn.id)["memory_outcome"] == "discarded"


class TestRecords:
    """One record a turn; one more where the model used its memory tool."""

    async def test_a_turn_is_told_once_with_all_its_fields(self, house: House, records: Records) -> None:
        """The fields of the contract, numbers and codes."""
        stages(house.model, adding("Likes tea."))

        told = await house.say()

        [record] = records.of("turn")
        assert record.keys() - {"event"} == {
            *("turn_id", "agent", "agent_version", "policy_version", "model", "outcome", "memory_outcome"),
            *("memory_status", "finish_reason", "rounds", "first_token_ms", "duration_ms", "input_tokens"),
            *("output_tokens", "fallback", "code"),
        }
        assert record["turn_id"] == told.turn.id
        assert (record["outcome"], record["memory_outcome"], record["rounds"]) == ("completed", "committed", 2)
        assert record["policy_version"] == "memory_v1"

    async def test_a_use_of_the_tool_is_told_once_with_all_its_fields(self, house: House, records: Records) -> None:
        """Counts and sizes, never words."""
        stages(house.model, adding("Likes tea."), adding("Deploys on Fridays.", "memory"))

        await house.say()

        [record] = records.of("memory_update")
        assert record == {
            "event": "memory_update",
            "tool": "memory_update",
            "operation_count": 2,
            "targets": {"user": 1, "memory": 1},
            "user_characters": 10,
            "memory_characters": 19,
            "duration_ms": record["duration_ms"],
            "retry_count": 0,
            "outcome": "committed",
            "code": None,
        }

    async def test_a_refused_batch_is_told_as_used(self, house: House, records: Records) -> None:
        """Refused and carried on; refused and then cut off."""
        for end in (says("Never mind."), says("Half an", reason="length")):
            house.model.play(*calls(removing("nothing")))
            house.model.play(*end)
            await house.say()

        refused, cut_off = records.of("memory_update")
        assert (refused["outcome"], refused["code"]) == ("refused", "match_not_found")
        assert (cut_off["outcome"], cut_off["operation_count"]) == ("none", 0)

    async def test_a_turn_without_the_tool_has_no_record_of_it(self, house: House, records: Records) -> None:
        """Also not where memory was off, or where a tool was called that does not exist."""
        house.model.play(*says("Hello."))
        await house.say()
        house.memory_enabled = False
        house.model.play(tool("other", {}), *says("", reason="tool_calls")[1:])
        house.model.play(*says("Hello."))
        await house.say()

        assert len(records.of("turn")) == 2
        assert records.of("memory_update") == []

    async def test_a_transaction_that_was_replayed_says_how_often(
        self, house: House, records: Records, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A serialization failure, and everything once more: one retry."""
        steps = DatabaseSteps(house.engine, monkeypatch, "agent.turn_desk.commit_turn")
        steps.before(3, lambda connection: connection.exec_driver_sql(FAIL_ONCE))
        stages(house.model, adding("Likes tea."))

        told = await house.say()

        assert told.ending.memory.receipt_id is not None
        [record] = records.of("memory_update")
        assert record["retry_count"] == 1

    @pytest.mark.invariant("I15")
    async def test_a_cancel_that_came_too_late_is_no_second_record(
        self, house: House, records: Records, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The task is cancelled when COMMIT is on its way: the turn is completed, and told so once."""
        loop, cancels = asyncio.get_running_loop(), Cancellations(monkeypatch)
        steps = DatabaseSteps(house.engine, monkeypatch, "agent.turn_desk.commit_turn")
        stages(house.model, adding("Likes tea."))
        await house.say()
        count = len(steps.taken)
        stages(house.model, adding("Likes jazz."))
        turn = await house.begin()

        async def read() -> None:
            async for _ in house.run(turn):
                pass

        task = asyncio.create_task(read())

        def cancel(connection: object) -> None:
            loop.call_soon_threadsafe(task.cancel)
            cancels.wait_set()

        steps.before(count, cancel)
        await soon(asyncio.wait([task]))

        assert [record["outcome"] for record in records.of("turn")] == ["completed", "completed"]

    async def test_a_fault_is_told_by_its_kind(self, house: House, records: Records, monkeypatch: Any) -> None:
        """Not by its message, which may quote anything."""

        def fail(*_: object) -> str:
            raise ZeroDivisionError("Kwagga")

        monkeypatch.setattr("agent.conversation._run_tool", fail)
        house.model.play(*calls(adding("Likes tea.")))

        await house.say()

        [fault] = records.of("turn_fault")
        assert fault["error"] == "ZeroDivisionError"
        assert "Kwagga" not in str(records.all)


FAIL_ONCE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"

REASONS: list[tuple[Exception, Reason]] = [
    (ModelBusy(ModelFault.BUSY), Reason.BUSY),
    (ModelUnreachable(ModelFault.SERVER_ERROR), Reason.UNREACHABLE),
    (ModelRejected(ModelFault.REQUEST_INVALID), Reason.REJECTED),
    (ModelStreamBroken(ModelFault.CUT), Reason.BROKEN),
    (EndedBadly(Reason.STEP_CAP), Reason.STEP_CAP),
    (TimeoutError(), Reason.TIME_LIMIT),
    (StorageFailed(), Reason.STORAGE),
    (CommitUnknown(), Reason.STORAGE),
    (OwnerGone(), Reason.ERASED),
    (ZeroDivisionError(), Reason.INTERNAL),
]


@pytest.mark.parametrize(("failure", "reason"), REASONS, ids=[type(failure).__name__ for failure, _ in REASONS])
def test_every_failure_has_its_reason(failure: Exception, reason: Reason) -> None:
    """The code a turn records; what nobody thought of is internal."""
    assert reason_of(failure) is reason
