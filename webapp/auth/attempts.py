"""Sign-ins that were begun and are not finished: the table ``sign_in_attempts``.

Each has a state of its own, so that two tabs can sign in side by side. An attempt can be finished once, within its
time, and only by the browser that began it. Neither its state nor the browser's cookie is stored, only their digests.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import Engine

from memory_core.database.tables import sign_in_attempts
from memory_core.database.transaction import Unit, transaction
from memory_core.database.worker import Workers
from webapp.auth.oidc import Challenge

ATTEMPT_SECONDS = 1800
# An attempt that is over is still recognised for this long, so that its sign-in can begin again with the same aim.
_RECOGNISED = timedelta(days=1)
_NOW = sa.func.clock_timestamp()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that came back. `in_time` is false for one that took longer than half an hour."""

    challenge: Challenge = field(repr=False)
    next_path: str
    in_time: bool


class Attempts:
    """Begins and takes attempts. Every method raises StorageFailed when the database does not answer."""

    def __init__(self, engine: Engine, workers: Workers) -> None:
        self._engine = engine
        self._workers = workers

    async def begin(self, challenge: Challenge, browser: str, next_path: str) -> None:
        """Keep what the answer to `challenge` will be compared with."""
        await self._workers.run(
            lambda: transaction(self._engine, lambda unit: _begin(unit, challenge, browser, next_path))
        )

    async def take(self, state: str, browser: str | None) -> Attempt | None:
        """The attempt of `state`, used up by this call; None if there is none or another browser began it."""
        if browser is None:
            return None
        return await self._workers.run(lambda: transaction(self._engine, lambda unit: _take(unit, state, browser)))


def _begin(unit: Unit, challenge: Challenge, browser: str, next_path: str) -> None:
    unit.connection.execute(sa.delete(sign_in_attempts).where(sign_in_attempts.c.expires_at < _NOW - _RECOGNISED))
    unit.connection.execute(
        sa.insert(sign_in_attempts).values(
            id=_digest(challenge.state),
            browser=_digest(browser),
            nonce=challenge.nonce,
            code_verifier=challenge.code_verifier,
            next_path=next_path,
            expires_at=_NOW + timedelta(seconds=ATTEMPT_SECONDS),
        )
    )


def _take(unit: Unit, state: str, browser: str) -> Attempt | None:
    row = unit.connection.execute(
        sa.delete(sign_in_attempts)
        .where(sign_in_attempts.c.id == _digest(state), sign_in_attempts.c.browser == _digest(browser))
        .returning(
            sign_in_attempts.c.nonce,
            sign_in_attempts.c.code_verifier,
            sign_in_attempts.c.next_path,
            (sign_in_attempts.c.expires_at > _NOW).label("in_time"),
        )
    ).one_or_none()
    if row is None:
        return None
    return Attempt(Challenge(state, row.nonce, row.code_verifier), row.next_path, row.in_time)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode(errors="replace")).hexdigest()
