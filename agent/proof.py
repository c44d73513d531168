"""What proved an owner, held while something is written in their name.

A sign-out, a revocation or an erasure either was done before, and is seen here, or comes after, and sees what was
written. So nobody begins anything, and nobody comes into being, on the strength of a proof that is gone. SQL of
``web_sessions`` and ``api_keys`` under a share lock.
"""

import sqlalchemy as sa

from agent.errors import SessionEnded
from memory_core.database.tables import api_keys, web_sessions
from memory_core.database.transaction import Unit


def _live(table: sa.Table) -> sa.Select[tuple[str]]:
    this = sa.and_(table.c.id == sa.bindparam("id"), table.c.revoked_at.is_(None))
    return sa.select(table.c.id).where(this).with_for_update(read=True)


_SESSION, _API_KEY = _live(web_sessions), _live(api_keys)


def hold_proof(unit: Unit, *, session_id: str | None = None, api_key_id: str | None = None) -> None:
    """Hold the rows of the proofs that are named until this transaction ends. Raises ``SessionEnded``."""
    for live, proof in ((_SESSION, session_id), (_API_KEY, api_key_id)):
        if proof is not None and unit.connection.execute(live, {"id": proof}).first() is None:
            raise SessionEnded
