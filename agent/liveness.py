"""Which turns are really running: heartbeats of processes, and the sweep that ends what nobody runs any more.

Every process writes one row every ``BEAT_SECONDS``, on the database's clock, with the turns it runs. A running turn
that its own process no longer names, or whose process has been silent for ``SILENT_SECONDS``, is *interrupted*:
nothing of it was saved. All times are the database's, so clocks of different machines never meet.
"""

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from agent.outcome import Outcome
from memory_core.database.tables import processes, turns
from memory_core.database.transaction import Unit, transaction

BEAT_SECONDS = 4
SILENT_SECONDS = 10

_now = sa.func.clock_timestamp()


def _ago(seconds: int) -> sa.ColumnElement[object]:
    return _now - sa.text(f"interval '{seconds} seconds'")


def beat(engine: Engine, process_id: str, turn_ids: Collection[str]) -> tuple[str, ...]:
    """Say that this process lives and runs these turns. Returns those of them that somebody else has ended."""

    def work(unit: Unit) -> tuple[str, ...]:
        running = list(turn_ids)
        values = {"turn_ids": running, "beat_at": _now}
        unit.connection.execute(
            insert(processes).values(id=process_id, **values).on_conflict_do_update(index_elements=["id"], set_=values)
        )
        _interrupt(
            unit.connection,
            turns.c.process_id == process_id,
            turns.c.id.not_in(running),
            turns.c.started_at < _ago(BEAT_SECONDS),
        )
        if not running:
            return ()
        ended = sa.select(turns.c.id).where(turns.c.id.in_(running), turns.c.outcome == Outcome.RUNNING)
        alive = set(unit.connection.execute(ended).scalars())
        return tuple(turn_id for turn_id in running if turn_id not in alive)

    return transaction(engine, work)


def sweep(engine: Engine) -> int:
    """End every turn of processes that have gone silent; returns how many. Rows of such processes are removed."""

    def work(unit: Unit) -> int:
        count = interrupt_silent(unit.connection)
        orphaned = sa.exists().where(turns.c.process_id == processes.c.id, turns.c.outcome == Outcome.RUNNING)
        unit.connection.execute(sa.delete(processes).where(processes.c.beat_at < _ago(60 * SILENT_SECONDS), ~orphaned))
        return count

    return transaction(engine, work)


def interrupt_silent(connection: Connection, owner_id: str | None = None) -> int:
    """Mark running turns of silent processes *interrupted* (of one owner, or of all); returns how many.

    A database that has just come back has heard nobody for a while: it is given one interval before anyone counts as
    silent. A process that has never beaten is judged by the start of its turn.
    """
    awake = sa.func.pg_postmaster_start_time() < _ago(BEAT_SECONDS)
    heard = sa.select(processes.c.beat_at).where(processes.c.id == turns.c.process_id).scalar_subquery()
    silent = sa.func.greatest(sa.func.coalesce(heard, turns.c.started_at), turns.c.started_at) < _ago(SILENT_SECONDS)
    only = [turns.c.owner_id == owner_id] if owner_id is not None else []
    return _interrupt(connection, awake, silent, *only)


def leave(engine: Engine, process_id: str) -> None:
    """The process is about to end in good order: whatever it still ran is interrupted, and its row goes."""

    def work(unit: Unit) -> None:
        _interrupt(unit.connection, turns.c.process_id == process_id)
        unit.connection.execute(sa.delete(processes).where(processes.c.id == process_id))

    transaction(engine, work)


def _interrupt(connection: Connection, *conditions: sa.ColumnElement[bool]) -> int:
    return connection.execute(
        sa.update(turns)
        .where(turns.c.outcome == Outcome.RUNNING, *conditions)
        .values(outcome=Outcome.INTERRUPTED, ended_at=_now)
    ).rowcount
