"""`kill -9` of the web process at every moment of turns that stage memory, with both kinds of database.

Afterwards, within 20 seconds of a restart: every completed turn has its memory, every other has none, no turn is left
running, and every conversation takes the next message.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.kills import MOMENTS, PHASES, KillRun
from tests.soak.person import browsers, sign_in
from tests.soak.stories import Playwright, assert_valid_request
from tests.soak.web_process import WebProcess, running_process

#: Of a full run: rounds in which each moment is struck, and rounds in which chance decides.
ROUNDS, FREE_ROUNDS = 23, 12
LEAST_PER_PHASE = 20

EMBEDDED, EXTERNAL = "embedded", "external"


async def run_kills(
    process: WebProcess, playwright: Playwright, chance: random.Random, *, rounds: int, free_rounds: int
) -> KillRun:
    """Strike so many rounds, in an order that chance decides."""
    async with browsers() as http, running_process(process):
        people = [await sign_in(process.url, f"person {number}", http) for number in range(len(MOMENTS))]
        run = KillRun(process, playwright, people, chance)
        plan = [True] * rounds + [False] * free_rounds
        chance.shuffle(plan)
        for is_planned in plan:
            if is_planned:
                await run.strike_at_moments(MOMENTS)
            else:
                await run.strike_at_random(len(people))
    assert playwright.server is not None
    for request in playwright.server.requests:
        assert_valid_request(request)
    assert playwright.server.counters.unscripted == 0
    return run


@pytest.fixture
def process(request: pytest.FixtureRequest, tmp_path: Path, playwright: Playwright) -> WebProcess:
    """A deployment with the database that the test is for."""
    assert playwright.server is not None
    url = request.getfixturevalue("database_url") if request.param == EXTERNAL else ""
    return WebProcess(tmp_path / "deployment", playwright.server.base_url, url)


@pytest.mark.slow
@pytest.mark.invariant("I14")
@pytest.mark.invariant("I23")
@pytest.mark.parametrize("process", [EMBEDDED, EXTERNAL], indirect=True)
async def test_a_kill_at_each_moment_leaves_whole_turns_or_none(
    process: WebProcess, playwright: Playwright, chance: random.Random, tell: Callable[[str], None]
) -> None:
    """One kill, nine turns, nine moments."""
    run = await run_kills(process, playwright, chance, rounds=1, free_rounds=0)
    tell(str(run.tally))
    assert set(run.tally.struck) == set(PHASES)


@pytest.mark.soak
@pytest.mark.parametrize("process", [EMBEDDED, EXTERNAL], indirect=True)
async def test_two_hundred_turns_killed_at_every_moment(
    process: WebProcess, playwright: Playwright, chance: random.Random, tell: Callable[[str], None]
) -> None:
    """At least 20 turns in each phase, and as many again wherever chance put them."""
    run = await run_kills(process, playwright, chance, rounds=ROUNDS, free_rounds=FREE_ROUNDS)
    tell(str(run.tally))
    assert sum(run.tally.struck.values()) >= 200
    assert min(run.tally.struck[phase] for phase in PHASES) >= LEAST_PER_PHASE
