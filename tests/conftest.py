"""Fixtures for every test. Each family lives in a plug-in of its own; this list is where a new one is added."""

import pytest

pytest_plugins = ["tests.database_fixtures"]


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the application does."""
    return "asyncio"
