"""Erasing a person from one agent: what runs is stopped, and then every row that holds their id goes, in one
transaction.

Whoever comes later finds nobody: their transaction raises OwnerGone, and none of them makes the person anew, because
what proved them (their sessions) went with them.
"""

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from agent.discard import stop_turns_of
from memory_core.database.tables import owners, web_sessions
from memory_core.database.transaction import Limits, Unit, transaction
from memory_core.errors import OwnerGone
from memory_core.owner import Owner

#: Much may hang on a person: deleting it takes longer than a turn may.
_LIMITS: Final = Limits(statement_seconds=60.0, transaction_seconds=120.0)


def erase(engine: Engine, owner: Owner, record: Callable[[Unit], None] = lambda unit: None) -> tuple[str, ...]:
    """Erase a person's memory, conversations, turns and receipts with this agent, and end their web sessions.

    The same subject's memory with other agents stays. ``record`` runs in the same transaction, whether or not anybody
    was there. Returns the ids of the turns that were running: their processes have been told. Raises StorageFailed.
    """
    stopped = stop_turns_of(engine, owner)

    def work(unit: Unit) -> None:
        if unit.owner is not None:
            unit.connection.execute(sa.delete(owners).where(owners.c.id == unit.owner.id))
        unit.connection.execute(
            sa.delete(web_sessions).where(
                web_sessions.c.organization_id == owner.organization_id, web_sessions.c.subject == owner.subject
            )
        )
        record(unit)

    try:
        transaction(engine, work, owner=owner, erase=True, limits=_LIMITS)
    except OwnerGone:
        transaction(engine, work)
    return stopped
