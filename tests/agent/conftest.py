"""A scripted model and a process on it, on the event loop the application runs on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from memory_core.database.transaction import Limits, transaction
from tests.agent.turning import House, open_house
from tests.database import OrganizationForTests
from tests.fakes.model_server import ModelServer


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def model(anyio_backend: object) -> AsyncIterator[ModelServer]:
    """A model that plays scripts. No answer may be left open by a test."""
    async with ModelServer() as server:
        yield server
        await server.idle()


@pytest.fixture
async def house(model: ModelServer, engine: Engine, organization: OrganizationForTests) -> AsyncIterator[House]:
    """A process with the ordinary settings."""
    async with open_house(engine, organization, model) as opened:
        yield opened


def limit_transactions(monkeypatch: pytest.MonkeyPatch, limits: Limits) -> Limits:
    assert transaction.__kwdefaults__ is not None
    monkeypatch.setitem(transaction.__kwdefaults__, "limits", limits)
    return limits


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Transactions with the same bounds as ever, only longer: a busy test machine is no slow database."""
    limits = Limits(lock_seconds=30, statement_seconds=30, idle_seconds=60, transaction_seconds=120, retry_seconds=30)
    return limit_transactions(monkeypatch, limits)


@pytest.fixture
def short_waits(patience: Limits, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """And shorter ones, for tests that must reach them."""
    limits = Limits(lock_seconds=0.3, statement_seconds=0.6, idle_seconds=5, retry_seconds=0.5)
    return limit_transactions(monkeypatch, limits)
