"""Waiting for something that another thread or process brings about."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.01


def until(claim: Callable[[], bool], patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Return as soon as the claim holds; fail when it does not in time."""
    give_up_at = time.monotonic() + patience_seconds
    while not claim():
        assert time.monotonic() < give_up_at, "it did not come to hold in time"
        time.sleep(_LOOK_AGAIN_SECONDS)
