"""Sessions of people who signed in: the table ``web_sessions`` and the rules of its times.

A session lives in the database; the browser's cookie holds an opaque id of 256 random bits, and only that id's SHA-256
is stored. It ends when it is revoked, when its time is over, or when it was not used for a while; all three are judged
by the database's clock, on every read.
"""

import hashlib
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine

from memory_core.database.rows import Record
from memory_core.database.tables import web_sessions
from memory_core.database.transaction import Unit, read_alone, transaction
from memory_core.database.worker import Workers
from webapp.auth.id_token import Identity
from webapp.auth.sealing import Seal

# Using a session is written down at most this often.
_SEEN_EVERY = timedelta(minutes=1)
# Ended sessions are kept this long, then swept: a few with some of the sign-ins.
_KEPT = timedelta(days=7)
_SWEPT_AT_ONCE = 1000
_SWEPT_EVERY_SECONDS = 600.0
_NOW = sa.func.clock_timestamp()


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a session may last: in all, and without use."""

    longest: timedelta
    idle: timedelta


@dataclass(frozen=True, slots=True)
class Session:
    """A live session. `id` is the digest that rows and running turns refer to; it opens nothing."""

    id: str
    subject: str = field(repr=False)
    name: str | None = field(repr=False)
    csrf_token: str = field(repr=False)
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)


def session_digest(cookie: str) -> str:
    """What is stored of the opaque id in a cookie."""
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()


class Sessions:
    """The sessions of one organization. Every method raises StorageFailed when the database does not answer."""

    def __init__(
        self,
        engine: Engine,
        workers: Workers,
        organization_id: str,
        lifetime: Lifetime,
        seal: Seal,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._workers = workers
        self._organization_id = organization_id
        self._lifetime = lifetime
        self._seal = seal
        self._clock = clock
        self._swept_at = -math.inf
        self._live = sa.select(
            web_sessions.c.id,
            web_sessions.c.subject,
            web_sessions.c.name,
            web_sessions.c.csrf_token,
            web_sessions.c.claims,
            (web_sessions.c.seen_at < _NOW - _SEEN_EVERY).label("unseen"),
        ).where(web_sessions.c.id == sa.bindparam("digest"), self._is_live())

    async def find(self, cookie: str) -> Session | None:
        """The live session of `cookie`, and None for every other: unknown, revoked, over, or idle for too long."""
        digest = session_digest(cookie)
        return await self._workers.run(lambda: self._find_and_mark(digest))

    async def begin(self, identity: Identity, id_token: str, replaces: str | None) -> tuple[str, str | None]:
        """Begin a session for `identity` under a new id, and end the one that this browser had before.

        `replaces` is the cookie it came with, whatever that was. Returns the new cookie and the id of the session that
        was ended, if there was a live one.
        """
        cookie = secrets.token_urlsafe(32)
        if self._clock() - self._swept_at > _SWEPT_EVERY_SECONDS:
            self._swept_at = self._clock()
            await self._workers.run(lambda: transaction(self._engine, self._sweep))
        return cookie, await self._workers.run(
            lambda: transaction(self._engine, lambda unit: self._begin(unit, cookie, identity, id_token, replaces))
        )

    async def end(self, session_id: str) -> str | None:
        """Revoke the session. Returns its ID token, for signing out at the provider, if it can still be opened."""
        sealed = await self._workers.run(lambda: transaction(self._engine, lambda unit: self._end(unit, session_id)))
        return self._seal.open(sealed)

    def _is_live(self) -> sa.ColumnElement[bool]:
        return sa.and_(
            web_sessions.c.organization_id == self._organization_id,
            web_sessions.c.revoked_at.is_(None),
            web_sessions.c.expires_at > _NOW,
            web_sessions.c.seen_at > _NOW - self._lifetime.idle,
        )

    def _find_and_mark(self, digest: str) -> Session | None:
        """Before every request of a person: one statement, as a rule."""
        rows = read_alone(self._engine, self._live, {"digest": digest})
        if rows and rows[0].unseen:
            seen = sa.update(web_sessions).where(web_sessions.c.id == digest).values(seen_at=_NOW)
            transaction(self._engine, lambda unit: unit.connection.execute(seen))
        return _session(rows[0]) if rows else None

    def _find(self, unit: Unit, digest: str) -> Session | None:
        row = unit.connection.execute(self._live, {"digest": digest}).one_or_none()
        return None if row is None else _session(row)

    def _begin(self, unit: Unit, cookie: str, identity: Identity, id_token: str, replaces: str | None) -> str | None:
        earlier = None if replaces is None else self._find(unit, session_digest(replaces))
        if earlier is not None:
            self._revoke(unit, earlier.id)
        # The same person in the same browser: forms that are open in another tab stay valid.
        is_same = earlier is not None and earlier.subject == identity.subject
        csrf_token = earlier.csrf_token if earlier is not None and is_same else secrets.token_urlsafe(32)
        unit.connection.execute(
            sa.insert(web_sessions).values(
                id=session_digest(cookie),
                organization_id=self._organization_id,
                subject=identity.subject,
                name=identity.name,
                email=identity.email,
                claims=dict(identity.claims),
                id_token=self._seal.close(id_token),
                csrf_token=csrf_token,
                seen_at=_NOW,
                expires_at=_NOW + self._lifetime.longest,
            )
        )
        return None if earlier is None else earlier.id

    def _end(self, unit: Unit, session_id: str) -> str | None:
        sealed = unit.connection.execute(
            sa.select(web_sessions.c.id_token).where(web_sessions.c.id == session_id, self._is_live())
        ).scalar_one_or_none()
        self._revoke(unit, session_id)
        return sealed

    def _revoke(self, unit: Unit, session_id: str) -> None:
        """The sealed token goes at once; the row stays for a while, so that it is known to be over."""
        unit.connection.execute(
            sa.update(web_sessions)
            .where(web_sessions.c.id == session_id, web_sessions.c.revoked_at.is_(None))
            .values(revoked_at=_NOW, id_token=None)
        )

    def _sweep(self, unit: Unit) -> None:
        """Delete some of what ended a week ago."""
        ended_at = sa.func.least(
            web_sessions.c.expires_at, web_sessions.c.seen_at + self._lifetime.idle, web_sessions.c.revoked_at
        )
        over = sa.select(web_sessions.c.id).where(ended_at < _NOW - _KEPT).limit(_SWEPT_AT_ONCE)
        unit.connection.execute(sa.delete(web_sessions).where(web_sessions.c.id.in_(over)))


def _session(row: Record) -> Session:
    return Session(row.id, row.subject, row.name, row.csrf_token, row.claims)
