"""A scripted server, the adapter pointed at it, and both event loops the application may run on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.models.chat_completions import ChatCompletions
from tests.fakes.model_server import ModelServer


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def server(anyio_backend: object) -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def model(server: ModelServer) -> AsyncIterator[ChatCompletions]:
    """Patient: a test that lets it wait says so with an adapter of its own."""
    adapter = ChatCompletions(server.base_url, "key-of-the-test", first_token_seconds=30, stall_seconds=30)
    yield adapter
    await adapter.close()
