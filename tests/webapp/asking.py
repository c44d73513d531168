"""Asking an application in this process: a client that speaks ASGI, from loopback, at a public address."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from starlette.types import ASGIApp, Message, Scope

PUBLIC_URL = "http://127.0.0.1:8000"


def asking(app: ASGIApp, *, url: str = PUBLIC_URL, client: str = "127.0.0.1", **options: Any) -> httpx2.AsyncClient:
    """A client of `app`. Errors of the application come back as it answers them, as over a socket."""
    transport = httpx2.ASGITransport(app, client=(client, 50000))
    return httpx2.AsyncClient(transport=transport, base_url=url, **options)


def http_scope(method: str = "GET", path: str = "/", headers: dict[str, str] | None = None, **more: Any) -> Scope:
    """The scope of one HTTP request."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        **more,
    }


def receive_of(*messages: Message) -> Callable[[], Awaitable[Message]]:
    """A receive that gives `messages` one after the other and then says that the client is gone."""
    waiting = list(messages)

    async def receive() -> Message:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    return receive
