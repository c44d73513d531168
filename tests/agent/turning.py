"""One process of the program, on a scripted model and a real database; what a turn said, and what it left behind.

    told = await house.say("I like tea.")       # a turn from its beginning to its end on record
    told.kinds, told.text, told.ending

`says`, `calls` and `stages` are the scripts of ordinary answers. Everything read back here is read from outside of the
code under test, as committed at that moment.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from agent.begin import BegunTurn, TurnRequest
from agent.configuration import change_agent, load_configuration
from agent.conversation import Limits
from agent.events import MemoryStaged, TextDelta, TurnEnded, TurnEvent
from agent.interruption import Interruption
from agent.models.chat_completions import ChatCompletions
from agent.outcome import Ending, MemoryOutcome, Outcome
from agent.prompt import load_policy
from agent.running import RunningTurn, RunningTurns
from agent.runtime import AgentRuntime
from agent.turn import run_turn
from agent.turn_desk import TurnDesk
from memory_core.database.tables import agent_memory, memory_changes, messages, metadata, turns, web_sessions
from memory_core.database.transaction import transaction
from memory_core.database.worker import Workers
from memory_core.document import Snapshot, Target
from memory_core.ids import new_id
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode, Owner
from memory_core.store import commit_batches, load_memory, set_modes
from tests.database import OrganizationForTests, rows
from tests.fakes.model_server import ModelServer, Script, finish, text, tool, usage

#: No wait is without an end; on a busy machine this one is long, for it is reached by broken tests only.
WAIT_SECONDS = 60.0
POLICY = load_policy("memory_v1")

T = TypeVar("T")


@dataclass
class Told:
    """Everything a turn said, in order."""

    turn: BegunTurn
    events: list[TurnEvent] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def staged(self) -> MemoryStaged | None:
        return next((event for event in reversed(self.events) if isinstance(event, MemoryStaged)), None)

    @property
    def ending(self) -> Ending:
        last = self.events[-1]
        assert isinstance(last, TurnEnded), self.kinds
        return last.ending


@dataclass
class House:
    """One process: its threads, its desk, its turns. `memory_enabled` is the deployment's flag, as it is now."""

    engine: Engine
    organization: OrganizationForTests
    model: ModelServer
    workers: Workers
    agents: AgentRuntime
    limits: Limits = field(default_factory=Limits)
    undo_hours: int = 24
    memory_enabled: bool = True
    process_id: str = field(default_factory=lambda: new_id("prc"))
    desk: TurnDesk = field(init=False)
    running: RunningTurns = field(init=False)

    def __post_init__(self) -> None:
        self.desk = TurnDesk(self.engine, self.workers, lambda: self.memory_enabled, self.undo_hours)
        self.running = RunningTurns(self.desk, self.agents, self.limits)

    def owner(self, subject: str = "ada") -> Owner:
        return self.organization.owner(subject)

    def change_agent(self, **changes: Any) -> None:
        """A new version of the agent."""
        here = self.organization
        transaction(self.engine, lambda unit: change_agent(unit, here.id, here.agent_id, changes))

    def sign_in(self, session_id: str, subject: str = "ada") -> str:
        """A live session's row."""
        with self.engine.begin() as connection:
            connection.execute(
                sa.insert(web_sessions).values(
                    id=session_id,
                    organization_id=self.organization.id,
                    subject=subject,
                    csrf_token="csrf",
                    expires_at=sa.func.clock_timestamp() + timedelta(hours=1),
                )
            )
        return session_id

    def request(self, message: str = "Hello", *, subject: str = "ada", **more: Any) -> TurnRequest:
        asked: dict[str, Any] = {
            "owner": self.owner(subject),
            "message": message,
            "key": new_id("key"),
            "process_id": self.process_id,
            "policy_version": POLICY.version,
            "memory_enabled": self.memory_enabled,
        }
        return TurnRequest(**{**asked, **more})

    async def say(self, message: str = "Hello", **more: Any) -> Told:
        """A turn to its end on record."""
        return await listen(await self.running.open(self.request(message, **more)))

    async def begin(self, message: str = "Hello", **more: Any) -> BegunTurn:
        return await self.desk.begin(self.request(message, **more))

    def run(self, turn: BegunTurn, interruption: Interruption | None = None) -> AsyncGenerator[TurnEvent, None]:
        return run_turn(turn, self.agents, self.desk, self.limits, interruption or Interruption())


@asynccontextmanager
async def open_house(
    engine: Engine,
    organization: OrganizationForTests,
    model: ModelServer,
    *,
    models: tuple[str, ...] = ("model-x",),
    threads: int = 8,
    stall_seconds: float = 300.0,
    **settings: Any,
) -> AsyncIterator[House]:
    """A process that is closed in the end; by then no turn of it may still be running.

    `stall_seconds`: so long a model may be silent; longer than any test waits, so that no fault passes for an ending.
    """
    workers = Workers(threads)

    async def connect() -> ChatCompletions:
        return ChatCompletions(model.base_url, "key", first_token_seconds=stall_seconds, stall_seconds=stall_seconds)

    agents = AgentRuntime(
        connect,
        lambda agent_id, version: workers.run(
            lambda: transaction(engine, lambda unit: load_configuration(unit.connection, agent_id, version))
        ),
        model=models[0],
        fallback_models=models[1:],
        policy=POLICY,
    )
    house = House(engine, organization, model, workers, agents, **settings)
    try:
        yield house
        assert house.running.ids == ()
    finally:
        await agents.close()
        workers.close()


async def listen(running: RunningTurn, told: Told | None = None, *, seconds: float = WAIT_SECONDS) -> Told:
    """Read a running turn to its end, and wait until that is on record."""
    told = told or Told(running.turn)
    async with asyncio.timeout(seconds):
        while (batch := await running.outbox.take()) is not None:
            told.events += batch
        await running.ended()
    return told


async def listen_until(running: RunningTurn, kind: type[TurnEvent]) -> Told:
    """Read a running turn until it has said something of this kind; it goes on meanwhile."""
    told = Told(running.turn)
    async with asyncio.timeout(WAIT_SECONDS):
        while not any(isinstance(event, kind) for event in told.events):
            batch = await running.outbox.take()
            assert batch is not None, told.kinds
            told.events += batch
    return told


async def soon(waiting: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Bound a wait that must not be long."""
    return await asyncio.wait_for(waiting, WAIT_SECONDS)


async def in_thread(work: Callable[[], T]) -> T:
    """Run something that blocks, in a thread that belongs to the test."""
    return await soon(asyncio.to_thread(work))


# What a model says.


def says(*pieces: str, reason: str = "stop") -> Script:
    return (text(*pieces), finish(reason), usage(12, 3))


def calls(*operations: dict[str, Any], reason: str = "tool_calls") -> Script:
    return (tool("memory_update", {"operations": list(operations)}), finish(reason))


def adding(content: str, target: str = "user") -> dict[str, Any]:
    return {"target": target, "action": "add", "content": content}


def replacing(match: str, content: str, target: str = "user") -> dict[str, Any]:
    return {"target": target, "action": "replace", "match": match, "content": content}


def removing(match: str, target: str = "user") -> dict[str, Any]:
    return {"target": target, "action": "remove", "match": match}


def stages(model: ModelServer, *operations: dict[str, Any], then: str = "Noted.") -> None:
    """Queue an ordinary answer: one batch, and a word to the person."""
    model.play(*calls(*operations))
    model.play(*says(then))


def assert_valid_request(messages: list[dict[str, Any]]) -> None:
    """A request that any server accepts: one system message, then user and assistant in turn, a question last."""
    roles = [message["role"] for message in messages]
    assert roles == ["system", *["user", "assistant"] * ((len(roles) - 2) // 2), "user"], roles
    for message in messages:
        assert message.keys() == {"role", "content"}
        assert isinstance(message["content"], str)
        assert message["content"].strip()


# What is stored.


def remember(engine: Engine, owner: Owner, *entries: str, target: Target = Target.USER) -> None:
    """Store entries as the person's own, and give the owner a row."""
    batch = [Operation(target, Action.ADD, content=entry) for entry in entries]
    transaction(
        engine,
        lambda unit: commit_batches(unit, [batch], actor=Actor.PERSON, undo_hours=0),
        owner=owner,
        create_owner=True,
    )


def switch(engine: Engine, owner: Owner, mode: MemoryMode) -> None:
    transaction(engine, lambda unit: set_modes(unit, memory_mode=mode), owner=owner, create_owner=True)


def remembered(engine: Engine, owner: Owner) -> Snapshot:
    """Both documents as they are stored."""

    def read(connection: Connection) -> Snapshot:
        snapshot = load_memory(connection, owner).snapshot
        assert snapshot is not None
        return snapshot

    with engine.connect() as connection:
        return read(connection)


def memory_rows(engine: Engine) -> list[dict[str, Any]]:
    """The bytes themselves, with the times of their last change."""
    return rows(engine, sa.select(agent_memory).order_by(agent_memory.c.user_id, agent_memory.c.memory_type))


def turn_row(engine: Engine, turn_id: str) -> dict[str, Any]:
    [row] = rows(engine, sa.select(turns).where(turns.c.id == turn_id))
    return row


def answers_of(engine: Engine, turn_id: str) -> list[str]:
    """The assistant's texts that are stored for a turn."""
    said = sa.select(messages.c.content).where(messages.c.turn_id == turn_id, messages.c.role == "assistant")
    return [row["content"] for row in rows(engine, said)]


def receipts_of(engine: Engine, turn_id: str) -> list[dict[str, Any]]:
    return rows(engine, sa.select(memory_changes).where(memory_changes.c.turn_id == turn_id))


def turns_still_running(engine: Engine) -> list[str]:
    return [row["id"] for row in rows(engine, sa.select(turns.c.id).where(turns.c.outcome == Outcome.RUNNING))]


def everything_stored(engine: Engine) -> str:
    """Every row of every table, as text."""
    return "\n".join(str(row) for table in metadata.sorted_tables for row in rows(engine, sa.select(table)))


def assert_nothing_saved(engine: Engine, turn_id: str, *entries: str) -> None:
    """The turn is over, and no trace of it is in memory: neither words nor a receipt."""
    row = turn_row(engine, turn_id)
    assert row["outcome"] not in (Outcome.RUNNING, Outcome.COMPLETED), row["outcome"]
    assert row["memory_outcome"] != MemoryOutcome.COMMITTED
    assert receipts_of(engine, turn_id) == []
    stored = "\n".join(row["content"] for row in memory_rows(engine))
    assert not [entry for entry in entries if entry in stored]


def assert_agrees(engine: Engine, turn_id: str, ending: Ending, entry: str) -> None:
    """Answer, memory and outcome tell one story, and it is the one that was told to the reader."""
    row = turn_row(engine, turn_id)
    assert (row["outcome"], row["memory_outcome"]) == (ending.outcome, ending.memory.outcome)
    if ending.outcome is not Outcome.COMPLETED:
        assert_nothing_saved(engine, turn_id, entry)
        return
    assert len(answers_of(engine, turn_id)) == 1
    saved = ending.memory.outcome is MemoryOutcome.COMMITTED
    assert [row["id"] for row in receipts_of(engine, turn_id)] == ([ending.memory.receipt_id] if saved else [])
    assert any(entry in row["content"] for row in memory_rows(engine)) == saved
