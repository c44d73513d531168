"""Records of other packages: what was thrown is told by its class; its words, and the variables around it, are not."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from agent import telemetry

SENTINEL = "zebra-quartz-41"


@pytest.fixture(autouse=True)
def set_back() -> Iterator[None]:
    """Logging as it was before the test."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def throw(cookie: str) -> None:
    raise ValueError(f"somebody wrote {cookie}")


@pytest.mark.invariant("I31")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_is_told_as_a_class(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the message, nor a frame, nor a variable of one (rich, where it is installed, would draw them all)."""
    telemetry.set_up(log_format, "debug")
    try:
        throw(SENTINEL)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application", stack_info=True)

    [line] = capsys.readouterr().err.splitlines()
    assert "Exception in ASGI application" in line
    assert "ValueError" in line
    assert SENTINEL not in line
    assert "throw" not in line
