"""The event loop of the bench's own programs: uvloop, as the application's server has it."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a fresh loop."""
    return uvloop.run(work)
