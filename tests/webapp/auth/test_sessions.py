"""Sessions as rows: what is kept, whose they are, and when they go."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import web_sessions
from memory_core.database.transaction import transaction
from memory_core.database.worker import Workers
from webapp.auth.id_token import Identity
from webapp.auth.organization import ensure_organization
from webapp.auth.sealing import Seal
from webapp.auth.sessions import Lifetime, Sessions, session_digest

pytestmark = pytest.mark.postgres
ADA = Identity("ada", "Ada Wren", "ada@example.org")
LIFETIME = Lifetime(timedelta(hours=720), timedelta(hours=72))
KEY = b"k" * 32


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(4)
    yield made
    made.close()


def sessions_of(engine: Engine, workers: Workers, slug: str = "default", key: bytes = KEY) -> Sessions:
    organization = transaction(engine, lambda unit: ensure_organization(unit.connection, slug, "local"))
    return Sessions(engine, workers, organization.id, LIFETIME, Seal(key))


def rows(engine: Engine) -> list[sa.Row[tuple[object, ...]]]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(web_sessions)).all())


def age(engine: Engine, **by: timedelta) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.update(web_sessions).values({name: web_sessions.c[name] - gone for name, gone in by.items()})
        )


async def test_a_session_is_found_by_its_cookie_only(engine: Engine, workers: Workers) -> None:
    """Not by its digest, not by anything near it; the database does not know the cookie."""
    sessions = sessions_of(engine, workers)
    cookie, ended = await sessions.begin(ADA, "a.b.c", None)
    found = await sessions.find(cookie)

    assert ended is None
    assert found is not None
    assert (found.id, found.subject, found.name) == (session_digest(cookie), "ada", "Ada Wren")
    for wrong in (found.id, cookie[:-1], cookie.swapcase(), "", "\0", "ü" * 43, "\ud800"):
        assert await sessions.find(wrong) is None
    assert cookie not in str(rows(engine))


async def test_a_session_is_of_one_organization(engine: Engine, workers: Workers) -> None:
    """The cookie of one organization opens nothing in another on the same database."""
    cookie, _ = await sessions_of(engine, workers).begin(ADA, "a.b.c", None)
    assert await sessions_of(engine, workers, "other").find(cookie) is None


async def test_ending_a_session_gives_the_token_back_once_and_erases_it(engine: Engine, workers: Workers) -> None:
    """It is needed for signing out at the provider, and for nothing after that."""
    sessions = sessions_of(engine, workers)
    cookie, _ = await sessions.begin(ADA, "header.claims.signature", None)
    session_id = session_digest(cookie)

    assert await sessions.end(session_id) == "header.claims.signature"
    assert await sessions.find(cookie) is None
    assert await sessions.end(session_id) is None
    assert [row.id_token for row in rows(engine)] == [None]


async def test_the_token_is_sealed_under_the_deployments_key(engine: Engine, workers: Workers) -> None:
    """A dump shows nothing of it, and another key opens nothing; the session itself lives on."""
    cookie, _ = await sessions_of(engine, workers).begin(ADA, "header.claims.signature", None)
    other = sessions_of(engine, workers, key=b"o" * 32)

    assert "claims" not in rows(engine)[0].id_token
    assert await other.find(cookie) is not None
    assert await other.end(session_digest(cookie)) is None


async def test_use_is_noted_at_most_once_a_minute(engine: Engine, workers: Workers) -> None:
    """Reading pages does not write a row each time."""
    sessions = sessions_of(engine, workers)
    cookie, _ = await sessions.begin(ADA, "a.b.c", None)
    before = rows(engine)[0].seen_at
    await sessions.find(cookie)
    assert rows(engine)[0].seen_at == before
    age(engine, seen_at=timedelta(minutes=2))
    await sessions.find(cookie)
    assert rows(engine)[0].seen_at > before


async def test_a_new_session_of_the_same_person_in_the_same_browser_keeps_open_forms_valid(
    engine: Engine, workers: Workers
) -> None:
    """Same CSRF token, another id; for another person, or after the session ended, a token of its own."""
    sessions = sessions_of(engine, workers)
    first, _ = await sessions.begin(ADA, "a.b.c", None)
    second, ended = await sessions.begin(ADA, "a.b.c", first)
    third, _ = await sessions.begin(Identity("Ada", None, None), "a.b.c", second)
    found = [await sessions.find(cookie) for cookie in (first, second, third)]

    assert ended == session_digest(first)
    assert [session is not None for session in found] == [False, False, True]
    tokens = {row.id: row.csrf_token for row in rows(engine)}
    assert tokens[session_digest(first)] == tokens[session_digest(second)]
    assert tokens[session_digest(second)] != tokens[session_digest(third)]


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ({"seen_at": timedelta(days=9, hours=23)}, 2),
        ({"seen_at": timedelta(days=10, minutes=1)}, 1),
        ({"expires_at": timedelta(days=36, hours=23)}, 2),
        ({"expires_at": timedelta(days=37, minutes=1)}, 1),
        ({"revoked_at": timedelta(days=6, hours=23)}, 2),
        ({"revoked_at": timedelta(days=7, minutes=1)}, 1),
    ],
)
async def test_what_ended_a_week_ago_is_swept_with_a_later_sign_in(
    engine: Engine, workers: Workers, gone: dict[str, timedelta], left: int
) -> None:
    """Idle, over or revoked: the row stays a week."""
    sessions = sessions_of(engine, workers)
    cookie, _ = await sessions.begin(ADA, "a.b.c", None)
    if "revoked_at" in gone:
        await sessions.end(session_digest(cookie))
    age(engine, **gone)
    await sessions_of(engine, workers).begin(ADA, "a.b.c", None)
    assert len(rows(engine)) == left


async def test_not_every_sign_in_sweeps(engine: Engine, workers: Workers) -> None:
    """Once in ten minutes is enough."""
    sessions = sessions_of(engine, workers)
    await sessions.begin(ADA, "a.b.c", None)
    age(engine, seen_at=timedelta(days=20))
    await sessions.begin(ADA, "a.b.c", None)
    assert len(rows(engine)) == 2
