"""The application under load, started by its own command, on a database that outlives it."""

import http.client
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from memory_core.database.embedded import EmbeddedServer
from tests.bench.processes import PATIENCE_SECONDS, pin, running

#: Streams of one person at once: more than any part of the bench opens.
STREAMS_PER_SUBJECT = 1000


@dataclass(frozen=True)
class Database:
    """An embedded PostgreSQL with everything a durable one does, in a folder that is gone afterwards."""

    url: str
    pid: int
    data_dir: Path


@dataclass(frozen=True)
class Application:
    """A process that serves the site."""

    address: str
    process: subprocess.Popen[str]


@contextmanager
def running_database(core: int, *, durable: bool = True) -> Iterator[Database]:
    """A database of our own on one core. It ends with us, however we end."""
    with (
        tempfile.TemporaryDirectory(prefix="remembrancer-bench-") as folder,
        EmbeddedServer(Path(folder) / "database", durable=durable) as url,
    ):
        database = Database(url, _postmaster(url), Path(folder) / "application")
        pin(database.pid, core)
        yield database


@contextmanager
def running_application(core: int, database: Database, model_url: str) -> Iterator[Application]:
    """The site, ready to take messages. What is in the database stays from one start to the next."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    command = ("-m", "webapp.cli", "dev", "--port", str(port), "--data-dir", str(database.data_dir))
    environ = {
        "REMEMBRANCER_DATABASE_URL": database.url,
        "REMEMBRANCER_PUBLIC_URL": address,
        "REMEMBRANCER_STREAMS_PER_SUBJECT": str(STREAMS_PER_SUBJECT),
        "REMEMBRANCER_LOG_LEVEL": "warning",
        "OPENAI_BASE_URL": model_url,
    }
    with running(core, *command, environ=environ) as process:
        _wait_for(port, process)
        yield Application(address, process)


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        assert process.poll() is None, "the application ended instead of starting"
        if _is_ready(port):
            return
        time.sleep(0.1)
    raise AssertionError("the application did not start")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _postmaster(url: str) -> int:
    """The server's first process: each connection's is its child."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
