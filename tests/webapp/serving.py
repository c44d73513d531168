"""Serving an application on loopback, in a thread of this process, for as long as a test needs it."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

PATIENCE_SECONDS = 20


class Server(uvicorn.Server):
    """Says when it is ready, and can lose its clients."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.ready.set()

    def drop_connections(self) -> None:
        """Reset every open connection, as a cut line does. Callable from any thread."""
        assert self.loop is not None
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                self.loop.call_soon_threadsafe(transport.abort)


@contextmanager
def serving(make_app: Callable[[str], ASGIApp], *, made: Callable[[Server], object] | None = None) -> Iterator[str]:
    """Serve what `make_app` makes of its own address; gives that address, such as http://127.0.0.1:40001.

    `made` is handed the server itself.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            make_app(url), log_config=None, access_log=False, proxy_headers=False, timeout_graceful_shutdown=5
        )
        server = Server(config)
        if made is not None:
            made(server)
        thread = threading.Thread(target=server.run, args=([listener],), name=f"serving {url}", daemon=True)
        thread.start()
        try:
            assert server.ready.wait(PATIENCE_SECONDS), "the server did not start"
            yield url
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server did not stop"
