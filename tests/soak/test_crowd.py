"""A crowd: everybody gets their own answer and their own memory, whoever else is there and however it ends for them."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.soak.books import Books
from tests.soak.crowd import Crowd
from tests.soak.person import browsers, sign_in
from tests.soak.stories import Playwright
from tests.webapp.product import Product, running_product

SETTLED_SECONDS = 2.0
POOL_SIZE = 10

_LINES = """
    SELECT state FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


async def run_crowd(
    product: Product, url: str, playwright: Playwright, chance: random.Random, *, people: int, turns_each: int
) -> str:
    """Let so many people have so many turns at once, check everything, and say what was counted."""
    server = playwright.server
    assert server is not None
    async with browsers() as http:
        signed = [await sign_in(product.url, f"person {number}", http) for number in range(people)]
        crowd = Crowd(signed, playwright, chance)
        await crowd.open()
        await crowd.run(turns_each)
        settled = await settle(product, playwright)
        assert_no_line_is_held(product, url)
        books = Books.read(url)
        pages = {person.subject: await person.get("/memory") + await person.get("/chats") for person in signed}
    seen = crowd.assert_told_the_truth(books)
    books.assert_balanced()
    crowd.assert_nothing_lost_or_added(books)
    crowd.assert_no_cross_talk(server.requests, pages)
    assert server.counters.unscripted == 0
    counted = ", ".join(f"{fate} {count}" for fate, count in sorted(seen.items()))
    return f"{len(crowd.parts)} turns, {crowd.open_at_once} open at once; {counted}; settled in {settled:.2f} s"


async def settle(product: Product, playwright: Playwright) -> float:
    """Seconds until nothing runs any more, here or at the model; AssertionError when that takes too long."""
    assert playwright.server is not None
    begun = time.monotonic()
    while playwright.server.counters.open or product.services.running.ids:
        assert time.monotonic() < begun + SETTLED_SECONDS, (playwright.server.counters, product.services.running.ids)
        await asyncio.sleep(0.02)
    return time.monotonic() - begun


def assert_no_line_is_held(product: Product, url: str) -> None:
    """Every connection is back in the pool, and at the server none is inside a transaction."""
    assert "Current Checked out connections: 0" in product.services.engine.pool.status()
    with psycopg.connect(url, connect_timeout=10) as connection:
        states = [state for (state,) in connection.execute(_LINES)]
    assert set(states) <= {"idle"}, states
    assert len(states) <= POOL_SIZE + 1, states  # and one that listens


@pytest.mark.slow
@pytest.mark.invariant("I11")
@pytest.mark.invariant("I13")
@pytest.mark.invariant("I16")
async def test_a_small_crowd_is_kept_apart(
    database_url: str, tmp_path: Path, playwright: Playwright, chance: random.Random, tell: Callable[[str], None]
) -> None:
    """60 turns of 20 people at once, a third stopped or cut."""
    assert playwright.server is not None
    with running_product(database_url, tmp_path, playwright.server.base_url) as product:
        tell(await run_crowd(product, database_url, playwright, chance, people=20, turns_each=3))


@pytest.mark.soak
async def test_five_hundred_turns_of_a_hundred_people_at_once(
    database_url: str, tmp_path: Path, playwright: Playwright, chance: random.Random, tell: Callable[[str], None]
) -> None:
    """Everybody has five answers written at the same time."""
    assert playwright.server is not None
    more = {"REMEMBRANCER_STREAMS_PER_SUBJECT": "5"}
    with running_product(database_url, tmp_path, playwright.server.base_url, more) as product:
        tell(await run_crowd(product, database_url, playwright, chance, people=100, turns_each=5))
