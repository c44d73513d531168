"""A database that hangs: every process of a PostgreSQL server is paused, and its connections stay open and silent."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.bench.processes import family


@contextmanager
def stopped_database(url: str) -> Iterator[None]:
    """Pause the whole server that is behind this address for as long as the block lasts."""
    paused: list[int] = []
    try:
        for pid in family(postmaster_of(url)):
            with suppress(ProcessLookupError):  # one that was just ending, as the one that was asked is
                os.kill(pid, signal.SIGSTOP)
                paused.append(pid)
        yield
    finally:
        for pid in paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def postmaster_of(url: str) -> int:
    """The server's first process: each connection's is its child."""
    with psycopg.connect(url, connect_timeout=10) as connection:
        status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
