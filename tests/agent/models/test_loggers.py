"""No switch makes the packages below the adapter say anything, least of all what people or models said."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.models.chat_completions import ChatCompletions
from agent.models.loggers import QUIET_LOGGERS, quiet_loggers
from agent.models.protocol import ModelRequest
from tests.agent.models.asking import ask
from tests.fakes.model_server import (
    ModelServer,
    chunk,
    cut,
    error_status,
    finish,
    raw,
    text,
    tool,
    whole,
)

ROOT = Path(__file__).parents[3]
ASKED, ANSWERED, ARGUED, FAILED = "asked-wisteria", "answered-juniper", "argued-larch", "failed-rowan"
SECRETS = (ASKED, ANSWERED, ARGUED, FAILED, "key-of-the-test")
REQUEST = ModelRequest(
    "m",
    ({"role": "system", "content": ASKED}, {"role": "user", "content": ASKED}),
    ({"type": "function", "function": {"name": "memory_update", "description": ASKED, "parameters": {}}},),
)
SCRIPTS = (
    (text(ANSWERED), tool("memory_update", {"operations": [ARGUED]}), finish("tool_calls")),
    (text(ANSWERED), chunk({"error": {"message": FAILED}})),
    (text(ANSWERED), raw(f"data: {{{FAILED}\n\n".encode())),
    (text(ANSWERED), cut()),
    (whole({"error": {"message": FAILED}}, status=400),),
    (error_status(500),),
)


class Kept(logging.Handler):
    """Keeps every record as a formatted line, with whatever hangs on it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {vars(record)!r}")


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler on the root logger, every logger at DEBUG; afterwards everything is as it was."""
    loggers = [logging.getLogger(), *[logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict)]]
    before = [(logger, logger.level, logger.propagate, logger.handlers[:], logger.disabled) for logger in loggers]
    handler = Kept()
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        if logger.name in QUIET_LOGGERS:
            logger.propagate = True
    logging.getLogger().addHandler(handler)
    yield handler
    for logger, level, propagate, handlers, disabled in before:
        logger.propagate, logger.handlers, logger.disabled = propagate, handlers, disabled
        logger.setLevel(level)


async def ask_everything(server: ModelServer, model: ChatCompletions) -> None:
    server.choose = lambda _: SCRIPTS[(server.counters.requests - 1) % len(SCRIPTS)]
    for _ in SCRIPTS:
        await ask(model, REQUEST)


async def test_the_packages_do_speak_without_it(server: ModelServer, model: ChatCompletions, kept: Kept) -> None:
    """The test can fail: at DEBUG their records reach the root's handler."""
    await ask_everything(server, model)

    assert any(line.startswith("openai") for line in kept.lines)
    assert any(line.startswith("httpx2") for line in kept.lines)


@pytest.mark.invariant("I31")
async def test_quiet_loggers_say_nothing(server: ModelServer, model: ChatCompletions, kept: Kept) -> None:
    """With every logger at DEBUG, set before and after: not one record, well answered or failed."""
    quiet_loggers()
    for name in list(logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(logging.DEBUG)

    await ask_everything(server, model)

    names = tuple(QUIET_LOGGERS)
    assert [line for line in kept.lines if line.startswith(names)] == []
    assert [line for line in kept.lines if any(secret in line for secret in SECRETS)] == []


@pytest.mark.invariant("I31")
async def test_a_handler_on_the_loggers_themselves_sees_no_content(
    server: ModelServer, model: ChatCompletions, kept: Kept
) -> None:
    """Even who listens to each logger directly finds no word that was asked or answered, and no key."""
    quiet_loggers()
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in QUIET_LOGGERS:
            logging.getLogger(name).setLevel(logging.DEBUG)
            logging.getLogger(name).addHandler(kept)

    await ask_everything(server, model)

    assert any(line.startswith("openai") for line in kept.lines)
    assert [line for line in kept.lines if any(secret in line for secret in SECRETS)] == []


PROGRAM = """
import asyncio, logging, sys
from agent.models.chat_completions import ChatCompletions
from agent.models.loggers import quiet_loggers
from tests.agent.models.test_loggers import ask_everything
from tests.fakes.model_server import ModelServer

async def main():
    async with ModelServer() as server:
        model = ChatCompletions(server.base_url, "key-of-the-test")
        await ask_everything(server, model)
        await model.close()

if "quiet" in sys.argv:
    quiet_loggers()
assert logging.getLogger("openai").level
asyncio.run(main())
"""


@pytest.mark.invariant("I31")
@pytest.mark.parametrize("quiet", [False, True])
def test_the_sdks_own_switch_opens_nothing(quiet: bool) -> None:
    """`OPENAI_LOG=debug` from the start of the process: it speaks by itself, and is silent once quieted."""
    words = ["quiet"] if quiet else []
    program = [sys.executable, "-c", PROGRAM, *words]

    environment = {"OPENAI_LOG": "debug", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120, check=True)

    assert ("openai" in ran.stderr) is not quiet
    assert not any(secret in ran.stdout + ran.stderr for secret in SECRETS)
