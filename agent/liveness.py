"""Which turns are really running: heartbeats of processes, and the sweep that ends what nobody runs any more.

Every process writes one row every ``BEAT_SECONDS``, on the database's clock, with the turns it runs. A running turn
that its own process no longer names, or whose process has been silent for ``SILENT_SECONDS``, is *interrupted*:
nothing of it was saved. All times are the database's, so clocks of different machines never meet. A process is never
silent to itself: however late its beats are, it knows what it runs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from agent.outcome import Outcome
from memory_core.database.tables import processes, turns
from memory_core.database.transaction import Unit, transaction

BEAT_SECONDS = 4
SILENT_SECONDS = 10

_now = sa.func.clock_timestamp()


@dataclass(frozen=True, slots=True)
class Running:
    """What a process answers for: turns it runs, and others that it will still put on record, at their begin or end."""

    turn_ids: Collection[str]
    others: Collection[str] = ()


def _ago(seconds: int) -> sa.ColumnElement[object]:
    return _now - sa.text(f"interval '{seconds} seconds'")


def beat(engine: Engine, process_id: str, running: Callable[[], Running]) -> tuple[str, ...]:
    """Say that this process lives, and what it runs. Returns the turns it runs that somebody else has ended.

    ``running`` is asked after the database's clock was read: a turn that began before that is either named, or nobody
    runs it. So a beat that had to wait never ends a turn that began meanwhile.
    """

    def work(unit: Unit) -> tuple[str, ...]:
        asked_at = unit.connection.execute(sa.select(_ago(BEAT_SECONDS))).scalar_one()
        now = running()
        named = [*now.turn_ids, *now.others]
        _say_so(unit.connection, process_id, named)
        _interrupt(
            unit.connection,
            turns.c.process_id == process_id,
            turns.c.id.not_in(named),
            turns.c.started_at < asked_at,
        )
        if not now.turn_ids:
            return ()
        still = sa.select(turns.c.id).where(turns.c.id.in_(now.turn_ids), turns.c.outcome == Outcome.RUNNING)
        alive = set(unit.connection.execute(still).scalars())
        return tuple(turn_id for turn_id in now.turn_ids if turn_id not in alive)

    return transaction(engine, work)


def sweep(engine: Engine, process_id: str) -> int:
    """End every turn of other processes that have gone silent; returns how many. Rows of such processes are removed."""

    def work(unit: Unit) -> int:
        count = interrupt_silent(unit.connection, process_id)
        orphaned = sa.exists().where(turns.c.process_id == processes.c.id, turns.c.outcome == Outcome.RUNNING)
        unit.connection.execute(sa.delete(processes).where(processes.c.beat_at < _ago(60 * SILENT_SECONDS), ~orphaned))
        return count

    return transaction(engine, work)


def interrupt_silent(connection: Connection, process_id: str, owner_id: str | None = None) -> int:
    """Mark running turns of silent processes *interrupted* (of one owner, or of all); returns how many.

    ``process_id`` is who asks: its own turns are its own business. Who has not been heard for a full interval itself
    (it has just started, or the database was away) knows nothing of the others' silence. A process that has never
    beaten is judged by the start of its turn.
    """
    awake = sa.exists().where(processes.c.id == process_id, processes.c.started_at < _ago(BEAT_SECONDS))
    heard = sa.select(processes.c.beat_at).where(processes.c.id == turns.c.process_id).scalar_subquery()
    silent = sa.func.greatest(sa.func.coalesce(heard, turns.c.started_at), turns.c.started_at) < _ago(SILENT_SECONDS)
    only = [turns.c.owner_id == owner_id] if owner_id is not None else []
    return _interrupt(connection, turns.c.process_id != process_id, awake, silent, *only)


def leave(engine: Engine, process_id: str) -> None:
    """The process is about to end in good order: whatever it still ran is interrupted, and its row goes."""

    def work(unit: Unit) -> None:
        _interrupt(unit.connection, turns.c.process_id == process_id)
        unit.connection.execute(sa.delete(processes).where(processes.c.id == process_id))

    transaction(engine, work)


def _say_so(connection: Connection, process_id: str, turn_ids: list[str]) -> None:
    """Write the process's row. After a silence it counts as started anew."""
    values = {"turn_ids": turn_ids, "beat_at": _now}
    was_silent = processes.c.beat_at < _ago(SILENT_SECONDS)
    connection.execute(
        insert(processes)
        .values(id=process_id, **values)
        .on_conflict_do_update(
            index_elements=["id"],
            set_={**values, "started_at": sa.case((was_silent, _now), else_=processes.c.started_at)},
        )
    )


def _interrupt(connection: Connection, *conditions: sa.ColumnElement[bool]) -> int:
    return connection.execute(
        sa.update(turns)
        .where(turns.c.outcome == Outcome.RUNNING, *conditions)
        .values(outcome=Outcome.INTERRUPTED, ended_at=_now)
    ).rowcount
