"""API keys of an organization: ``rk_<id>_<secret>``, the secret of 256 random bits, shown once and stored nowhere.

Of the secret the database keeps the SHA-256 (it is random, so no slower digest is needed). A key that is unknown,
wrong, expired, revoked or another organization's is refused alike, and the comparison takes as long. SQL of
``api_keys``.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hmac import compare_digest
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory_core.database.rows import Record
from memory_core.database.tables import api_keys
from memory_core.database.transaction import Unit
from webapp.errors import NotFound

_NOW: Final = sa.func.clock_timestamp()
# Using a key is written down at most this often.
_USED_EVERY: Final = timedelta(minutes=1)
_KEY: Final = re.compile(r"rk_([0-9a-f]{16})_([0-9a-f]{64})")
_NOBODY: Final = bytes(32)


class Scope(StrEnum):
    """What a key may be used for."""

    AGENTS = "agents"
    MEMORY_SEED = "memory:seed"
    MEMORY_READ = "memory:read"
    SESSIONS = "sessions"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its row tells; nothing here opens anything."""

    id: str
    organization_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    is_live: bool


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key that was just made. ``text`` is what its holder sends; it is known here and never again."""

    key: ApiKey
    text: str = field(repr=False)


def create_key(
    unit: Unit, organization_id: str, name: str, scopes: Sequence[Scope], *, expires_in: timedelta | None = None
) -> NewApiKey:
    """A new key, live at once."""
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    unit.connection.execute(
        sa.insert(api_keys).values(
            id=key_id,
            organization_id=organization_id,
            name=name,
            secret_digest=_digest(secret),
            scopes=sorted(set(scopes)),
            expires_at=None if expires_in is None else _NOW + expires_in,
        )
    )
    [row] = unit.connection.execute(_KEYS.where(api_keys.c.id == key_id))
    return NewApiKey(_key(row), f"rk_{key_id}_{secret}")


def list_keys(connection: Connection, organization_id: str) -> tuple[ApiKey, ...]:
    """Every key there was, the newest first."""
    rows = connection.execute(
        _KEYS.where(api_keys.c.organization_id == organization_id).order_by(api_keys.c.created_at.desc(), api_keys.c.id)
    )
    return tuple(map(_key, rows))


def revoke_key(unit: Unit, organization_id: str, key_id: str) -> bool:
    """End a key, unless it was revoked before (False). Its running turns are the caller's to stop. Raises NotFound."""
    this = sa.and_(api_keys.c.id == key_id, api_keys.c.organization_id == organization_id)
    revoked = unit.connection.execute(
        sa.update(api_keys).where(this, api_keys.c.revoked_at.is_(None)).values(revoked_at=_NOW)
    )
    if revoked.rowcount:
        return True
    if unit.connection.execute(sa.select(api_keys.c.id).where(this)).one_or_none() is None:
        raise NotFound
    return False


def authenticate(unit: Unit, organization_id: str, presented: str) -> ApiKey | None:
    """The live key of this organization that was presented; None for every other text."""
    match = _KEY.fullmatch(presented)
    row = None
    if match is not None:
        wanted = sa.and_(api_keys.c.id == match[1], api_keys.c.organization_id == organization_id)
        row = unit.connection.execute(_WITH_SECRET.where(wanted)).one_or_none()
    is_right = compare_digest(_digest(match[2] if match else presented), bytes(row.secret_digest) if row else _NOBODY)
    if row is None or not is_right or not row.is_live:
        return None
    if row.is_unseen:
        # Turns that begin hold the row; who would wait for them leaves the note to the next one.
        free = sa.select(api_keys.c.id).where(api_keys.c.id == row.id).with_for_update(skip_locked=True)
        unit.connection.execute(sa.update(api_keys).where(api_keys.c.id.in_(free)).values(used_at=_NOW))
    return _key(row)


_KEYS: Final = sa.select(
    *(column for column in api_keys.c if column.name != "secret_digest"),
    sa.and_(
        api_keys.c.revoked_at.is_(None), sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > _NOW)
    ).label("is_live"),
)
_WITH_SECRET: Final = _KEYS.add_columns(
    api_keys.c.secret_digest,
    sa.or_(api_keys.c.used_at.is_(None), api_keys.c.used_at < _NOW - _USED_EVERY).label("is_unseen"),
)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _key(row: Record) -> ApiKey:
    return ApiKey(
        id=row.id,
        organization_id=row.organization_id,
        name=row.name,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
        revoked_at=row.revoked_at,
        is_live=row.is_live,
    )
