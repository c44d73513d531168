"""What the long runs share: a model that plays stories, a seed that is told, and a line for what was counted."""

import os
import random
from collections.abc import Callable, Iterator

import pytest

from tests.soak.stories import Playwright, playing_model

SEED_VARIABLE = "SOAK_SEED"


@pytest.fixture
def seed() -> int:
    """Chosen anew for each run unless the environment names one; told with every failure."""
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1_000_000))
    print(f"To run this again: {SEED_VARIABLE}={seed}")
    return seed


@pytest.fixture
def chance(seed: int) -> random.Random:
    """Every choice of a run."""
    return random.Random(seed)


@pytest.fixture
def playwright() -> Iterator[Playwright]:
    """The model and its stories. Nothing of it may be left open by a test."""
    with playing_model() as playwright:
        yield playwright


@pytest.fixture
def tell(request: pytest.FixtureRequest, seed: int) -> Callable[[str], None]:
    """Write a line that is seen although the test passes: what a long run has counted."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")

    def tell(line: str) -> None:
        print(line)
        if reporter is not None and request.node.get_closest_marker("soak"):
            reporter.ensure_newline()
            reporter.write_line(f"{request.node.name} (seed {seed}): {line}")

    return tell
