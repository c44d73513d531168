"""The server: what it listens on, how it says goodbye, and that nothing keeps it from stopping."""

import signal
import socket
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

import httpx2
import pytest

from tests.webapp.command import PATIENCE_SECONDS, free_port
from webapp.server import UNACKNOWLEDGED_SECONDS, CannotListen, listen

#: An application with a stream that says goodbye, one that never ends, and a start that can be made to fail.
SCRIPT = """
import contextlib, sys
import anyio
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from webapp import server

server.GRACE_SECONDS = 1

async def polite(request):
    leaving = anyio.Event()
    async def words():
        yield {"data": "hello"}
        await leaving.wait()
        yield {"data": "goodbye"}
    return EventSourceResponse(words(), shutdown_event=leaving, shutdown_grace_period=3)

async def stubborn(request):
    print("asked", flush=True)
    await anyio.sleep(3600)

@contextlib.asynccontextmanager
async def lifespan(app):
    if sys.argv[2] == "fails":
        raise RuntimeError("velvet-otter-91")
    yield
    print("closed", flush=True)

app = Starlette(routes=[Route("/polite", polite), Route("/stubborn", stubborn)], lifespan=lifespan)
listener = server.listen("127.0.0.1", int(sys.argv[1]))
try:
    server.serve_app(app, listener, on_ready=lambda: print("ready", flush=True))
    print("done", flush=True)
except RuntimeError:
    print("not started", flush=True)
"""


def run_script(port: int, mode: str) -> "Popen[str]":
    root = Path(__file__).parent.parent.parent
    line = [sys.executable, "-c", SCRIPT, str(port), mode]
    return Popen(line, cwd=root, stdout=PIPE, stderr=STDOUT, text=True)


def read_line(process: "Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.skipif(sys.platform != "linux", reason="the bound is a Linux socket option")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_inherit_the_bound_on_unacknowledged_data(host: str) -> None:
    """A reader that is silently gone is noticed after ten seconds, not after the kernel's quarter of an hour."""
    with listen(host, 0) as listener, socket.create_connection(listener.getsockname()[:2]) as client:
        accepted, _ = listener.accept()
        with accepted:
            bound = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert bound == UNACKNOWLEDGED_SECONDS * 1000 == 10_000
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) != bound


def test_a_taken_port_is_said_so() -> None:
    """By number, with the way out."""
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} is taken. Choose another port with --port"):
            listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_said_so() -> None:
    """An address from the documentation range is nobody's here."""
    with pytest.raises(CannotListen, match=r"cannot listen on 192\.0\.2\.1: "):
        listen("192.0.2.1", free_port())


@pytest.mark.slow
def test_an_open_stream_says_goodbye_and_the_application_is_closed() -> None:
    """SIGTERM lets a stream send its last words; then the application's own end runs; the signal was dealt with."""
    port = free_port()
    with run_script(port, "works") as process:
        assert read_line(process) == "ready"
        with httpx2.stream("GET", f"http://127.0.0.1:{port}/polite", trust_env=False, timeout=20) as response:
            words = response.iter_text()
            seen = next(words)
            process.send_signal(signal.SIGTERM)
            seen += "".join(words)
        assert "hello" in seen
        assert "goodbye" in seen
        assert [read_line(process), read_line(process)] == ["closed", "done"]
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_a_request_that_never_ends_is_cut_off() -> None:
    """After the time of grace it is cancelled; the application is closed all the same."""
    port = free_port()
    with run_script(port, "works") as process:
        assert read_line(process) == "ready"
        client = socket.create_connection(("127.0.0.1", port), timeout=20)
        client.sendall(b"GET /stubborn HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert read_line(process) == "asked"
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=PATIENCE_SECONDS)[0]
        client.close()
        assert "closed" in rest
        assert rest.endswith("done\n")
        assert process.returncode == 0


@pytest.mark.slow
def test_an_application_that_cannot_start_raises_why() -> None:
    """The caller gets the error itself; neither a traceback nor its words are logged on the way."""
    with run_script(free_port(), "fails") as process:
        assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "not started\n"
        assert process.returncode == 0
