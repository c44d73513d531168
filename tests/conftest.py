"""Fixtures for every test. Each family lives in a plug-in of its own; this list is where a new one is added."""

import logging
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.database_fixtures"]


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the application does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _levels_as_they_were() -> Iterator[None]:
    """No test hears what another one has turned up: also a logger that came into being meanwhile, and the answers
    that loggers keep to whether they are heard.
    """
    before = {name: logger.level for name, logger in _loggers().items()}
    yield
    for name, logger in _loggers().items():
        logger.level = before.get(name, logging.NOTSET)
    logging.root.setLevel(logging.root.level)  # which also makes every logger forget whether it is heard


def _loggers() -> dict[str, logging.Logger]:
    made = {name: made for name, made in logging.root.manager.loggerDict.items() if isinstance(made, logging.Logger)}
    return {"root": logging.root, **made}
