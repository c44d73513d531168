"""Commits a second: the program's own way of keeping what was staged, beside the least that SQLAlchemy can do.

    python -m tests.bench.commits DATABASE_URL SECONDS      one figure for each way, as JSON

bare      one transaction: lock the owner's row, read both documents, write one, insert a receipt. No rule is asked.
memory    ``commit_batches`` under the owner's lock: the same, with every rule, origins and tombstones
turn      ``commit_turn``: memory, the answer and the outcome together, of a turn that has begun before

Each way is measured with eight people at once and with eight turns of one person at once.
"""

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from agent.begin import BegunTurn, TurnRequest, begin_turn
from agent.commit import Answer, commit_turn
from agent.outcome import MemoryOutcome
from memory_core.database.engine import make_engine
from memory_core.database.tables import agent_memory, memory_changes, owners, processes
from memory_core.database.transaction import transaction
from memory_core.document import Target
from memory_core.ids import new_id
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, Owner
from memory_core.store import commit_batches
from tests.database import OrganizationForTests, make_organization

WORKERS = 8
#: Turns of each worker that have begun before the clock starts, a second of it; whoever has used them up stops it.
TURNS_A_SECOND = 50
PROCESS = "prc_bench"
MANY = 1_000_000

Commit = Callable[[], None]
Way = Callable[[Engine, "Writer", float], Iterator[Commit]]


@dataclass(frozen=True)
class Writer:
    """One of the eight: whose memory it changes, and the entry it changes there."""

    owner: Owner
    number: int

    def operations(self) -> Iterator[tuple[Operation, ...]]:
        """One change after the other, each of which fits the one before."""
        for count in itertools.count(1):
            before, after = (f"Worker {self.number} has counted to {n:06}." for n in (count - 1, count))
            yield (Operation(Target.MEMORY, Action.REPLACE, match=before, content=after),)

    @property
    def first(self) -> tuple[Operation, ...]:
        """The entry that its changes begin with."""
        return (Operation(Target.MEMORY, Action.ADD, content=f"Worker {self.number} has counted to 000000."),)


def bare(engine: Engine, writer: Writer, seconds: float) -> Iterator[Commit]:
    """The statements that nothing could do without."""
    for count in itertools.count():
        yield partial(_write_plainly, engine, writer.owner, f"Worker {writer.number} has counted to {count:06}.")


def memory(engine: Engine, writer: Writer, seconds: float) -> Iterator[Commit]:
    """The store's own way."""
    for operations in writer.operations():
        yield partial(_keep, engine, writer.owner, operations)


def turn(engine: Engine, writer: Writer, seconds: float) -> Iterator[Commit]:
    """The end of a turn, whole."""
    begun = [_begin(engine, writer) for _ in range(max(2, round(seconds * TURNS_A_SECOND)))]
    for operations, one in zip(writer.operations(), begun, strict=False):
        yield partial(_commit, engine, one, operations)


WAYS: dict[str, Way] = {"bare": bare, "memory": memory, "turn": turn}


def commits_per_second(engine: Engine, way: str, writers: list[Writer], seconds: float) -> float:
    """Run one way with a thread for each writer, all at once."""
    queues = [iter(WAYS[way](engine, writer, seconds)) for writer in writers]
    first = [next(queue) for queue in queues]  # what has to be there before the clock starts is there now
    gate, stop, counts = threading.Barrier(len(writers) + 1), threading.Event(), [0] * len(writers)

    def work(number: int) -> None:
        gate.wait()
        for commit in itertools.chain((first[number],), queues[number]):
            if stop.is_set():
                return
            commit()
            counts[number] += 1
        stop.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(writers))]
    for thread in threads:
        thread.start()
    gate.wait()
    started = time.perf_counter()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def measure(url: str, seconds: float) -> dict[str, float]:
    """Every way, with eight people and with one. The names are `way people` and `way person`."""
    ours = make_engine(url, pool_size=WORKERS)
    plain = sa.create_engine(ours.url, pool_size=WORKERS, connect_args={"prepare_threshold": None})
    try:
        organization = make_organization(ours, slug=new_id("org"))
        _be_alive(ours)
        return {
            f"{way} {name}": commits_per_second(
                plain if way == "bare" else ours, way, _writers(ours, organization, f"{way} {name}", people), seconds
            )
            for way in WAYS
            for name, people in (("people", WORKERS), ("person", 1))
        }
    finally:
        ours.dispose()
        plain.dispose()


def _be_alive(engine: Engine) -> None:
    """A process that beats for as long as the bench takes: its turns are left alone."""
    later = sa.func.clock_timestamp() + timedelta(hours=1)
    with engine.begin() as connection:
        connection.execute(insert(processes).values(id=PROCESS, beat_at=later).on_conflict_do_nothing())


def _writers(engine: Engine, organization: OrganizationForTests, label: str, people: int) -> list[Writer]:
    """The eight, each with the entry that it will change."""
    writers = [Writer(organization.owner(f"{label} {number % people}"), number) for number in range(WORKERS)]
    for writer in writers:
        _keep(engine, writer.owner, writer.first)
    return writers


def _write_plainly(engine: Engine, owner: Owner, content: str) -> None:
    is_the_owner = sa.and_(
        owners.c.organization_id == owner.organization_id,
        owners.c.agent_id == owner.agent_id,
        owners.c.subject == owner.subject,
    )
    read = sa.select(agent_memory.c.memory_type, agent_memory.c.content, agent_memory.c.schema_version)
    new = insert(agent_memory)
    changed = {"content": new.excluded.content, "updated_at": sa.func.clock_timestamp()}
    write = new.on_conflict_do_update(index_elements=["user_id", "memory_type"], set_=changed)
    with engine.begin() as connection:
        owner_id = connection.execute(
            sa.select(owners.c.id).where(is_the_owner).with_for_update(key_share=True)
        ).scalar_one()
        connection.execute(read.where(agent_memory.c.user_id == owner_id)).all()
        connection.execute(write.values(user_id=owner_id, memory_type="memory", content=content, schema_version=1))
        connection.execute(sa.insert(memory_changes).values(_receipt(owner_id)))


def _keep(engine: Engine, owner: Owner, operations: tuple[Operation, ...]) -> None:
    committed = transaction(
        engine,
        lambda unit: commit_batches(unit, [operations], actor=Actor.PERSON, undo_hours=24),
        owner=owner,
        create_owner=True,
    )
    assert committed is not None, "nothing was committed"


def _begin(engine: Engine, writer: Writer) -> BegunTurn:
    request = TurnRequest(
        owner=writer.owner,
        message="Count on.",
        key=new_id("key"),
        process_id=PROCESS,
        policy_version="memory_v1",
        memory_enabled=True,
        turns_at_once=MANY,
    )
    return begin_turn(engine, request)


def _commit(engine: Engine, begun: BegunTurn, operations: tuple[Operation, ...]) -> None:
    answer = Answer("Done.", "stop", [operations], operation_count=1, model="bench")
    ending = commit_turn(engine, begun, answer, memory_enabled=True, undo_hours=24)
    assert ending.memory.outcome is MemoryOutcome.COMMITTED, ending.memory


def _receipt(owner_id: str) -> dict[str, object]:
    counts = dict.fromkeys(("added", "removed", "user_before", "user_after"), 0)
    sizes = {"replaced": 1, "operation_count": 1, "memory_before": 32, "memory_after": 32}
    return {"id": new_id("rcp"), "owner_id": owner_id, "actor": "person", **counts, **sizes}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], float(sys.argv[2]))))
