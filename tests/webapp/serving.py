"""Serving an application on loopback, in a thread of this process, for as long as a test needs it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

PATIENCE_SECONDS = 20


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def serving(make_app: Callable[[str], ASGIApp]) -> Iterator[str]:
    """Serve what `make_app` makes of its own address; gives that address, such as http://127.0.0.1:40001."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(make_app(url), log_config=None, proxy_headers=False, timeout_graceful_shutdown=5)
        server = _Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name=f"serving {url}", daemon=True)
        thread.start()
        try:
            assert server.ready.wait(PATIENCE_SECONDS), "the server did not start"
            yield url
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server did not stop"
