"""probe(): proof that this program can write what it writes, leaving nothing behind.

It makes an owner with a document of its own, reads and changes it, and rolls all of it back. No table with a counter
is touched: a sequence would keep its step.
"""

import secrets
from contextlib import suppress
from typing import NoReturn

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import agent_memory, agents, organizations, owners
from memory_core.database.transaction import Unit, transaction
from memory_core.errors import MemoryCoreError
from memory_core.ids import new_id


class ProbeFailed(MemoryCoreError):
    """The database took what was written and gave back something else."""


class _Proven(Exception):
    """Ends the transaction without a commit."""


def probe(engine: Engine) -> None:
    """Insert, read, update and roll back. Raises StorageFailed or ProbeFailed; leaves nothing either way."""
    with suppress(_Proven):
        transaction(engine, _write_and_read)


def _write_and_read(unit: Unit) -> NoReturn:
    connection = unit.connection
    organization, agent, owner = new_id("org"), new_id("agt"), new_id("own")
    connection.execute(
        sa.insert(organizations).values(id=organization, slug=organization, digest_key=secrets.token_bytes(32))
    )
    connection.execute(sa.insert(agents).values(id=agent, organization_id=organization, name="probe"))
    connection.execute(
        sa.insert(owners).values(id=owner, organization_id=organization, agent_id=agent, subject="probe")
    )
    connection.execute(sa.insert(agent_memory).values(user_id=owner, memory_type="user", content="written"))
    this = agent_memory.c.user_id == owner
    if connection.execute(sa.select(agent_memory.c.content).where(this)).scalar() != "written":
        raise ProbeFailed
    connection.execute(sa.update(agent_memory).where(this).values(content="changed"))
    if connection.execute(sa.select(agent_memory.c.content).where(this)).scalar() != "changed":
        raise ProbeFailed
    raise _Proven
