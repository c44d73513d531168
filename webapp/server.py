"""Running the application on a socket: uvicorn, its bounds, and how it stops. Knows no settings and no route.

A stop (SIGINT, SIGTERM) closes the socket, lets open streams say goodbye, and cancels what is left when its time is
over; a second Ctrl-C does not wait. Access logs stay off: they would hold what people search for.
"""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

#: A reader who acknowledges nothing for this long is gone (Linux; elsewhere only `send_timeout` notices).
UNACKNOWLEDGED_SECONDS = 10
#: Between the request to stop and the cancelling of what still runs.
GRACE_SECONDS = 10
#: How long a worker process may take to answer its first request.
START_SECONDS = 60
BACKLOG = 2048


class CannotListen(Exception):
    """The address cannot be listened on; `str()` says why, and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, whose connections inherit the bound on unacknowledged data. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = f"port {port} is taken" if _is_taken(host, port) else (error.strerror or "no such address")
        raise CannotListen(f"cannot listen on {host}: {reason}. Choose another port with --port") from None
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_SECONDS * 1000)
    return listener


def serve_app(app: ASGIApp, listener: socket.socket, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal asks to stop; the signal has been dealt with when this returns.

    `on_ready` is called once, when requests are answered. Raises what the application's own start or end raised.
    """
    failures: list[Exception] = []
    server = _Server(_config(_Explaining(app, failures.append)), on_ready)
    with suppress(SystemExit):  # uvicorn's word for a start that failed
        server.run([listener])
    if failures:
        raise failures[0]


def serve_processes(
    make_app: Callable[[], ASGIApp],
    listener: socket.socket,
    workers: int,
    *,
    explain: Callable[[Exception], None],
    on_ready: Callable[[], None] = lambda: None,
) -> bool:
    """Serve with several processes, replaced when they die, until a signal asks to stop. They end with their parent.

    `make_app` and `explain` are called in each of them and must survive pickling. An application that cannot be started
    is explained there and ends them all; then False is returned.
    """
    config = _config(_InWorker(make_app, explain))
    config.factory, config.workers = True, workers
    supervisor = _Supervisor(config, [listener], on_ready)
    supervisor.run()
    return all(process.exitcode != STARTUP_FAILURE for process in supervisor.processes)


def _config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # an application, or what makes one
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


class _Server(uvicorn.Server):
    """Says when it is ready, and keeps a signal that it has obeyed to itself."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


class _Supervisor(Multiprocess):
    """Says when every process is ready."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
        super().__init__(config, sockets)
        self._on_ready = on_ready

    def init_processes(self) -> None:
        super().init_processes()
        if all(process.wait_until_ready(START_SECONDS) for process in self.processes):
            self._on_ready()


@dataclass(frozen=True)
class _InWorker:
    """What a worker process runs first."""

    make_app: Callable[[], ASGIApp]
    explain: Callable[[Exception], None]

    def __call__(self) -> ASGIApp:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        try:
            return _Explaining(self.make_app(), self.explain)
        except Exception as error:  # noqa: BLE001 - the edge of the process: told, and not tried again
            self.explain(error)
            sys.exit(STARTUP_FAILURE)


@dataclass(frozen=True)
class _Explaining:
    """The application; an error of its start or its end goes to `explain` instead of into the log as a traceback."""

    app: ASGIApp
    explain: Callable[[Exception], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return

        async def send_without_traceback(message: Message) -> None:
            await send({**message, "message": ""} if message["type"].endswith(".failed") else message)

        try:
            await self.app(scope, receive, send_without_traceback)
        except Exception as error:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would only say that it exits
            self.explain(error)
            raise


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _is_taken(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
