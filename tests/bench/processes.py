"""The processes under load: starting one, pinning it to its core, and reading what it has used from /proc."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 90.0
ROOT: Final = Path(__file__).parent.parent.parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cores:
    """Where things run. With one core only, everything shares it."""

    server: int
    load: int

    @classmethod
    def chosen(cls) -> "Cores":
        """The first two of those we may use."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(usable[0], usable[1 % len(usable)])


def pin(pid: int, core: int) -> None:
    """Keep a process, its threads and its children on one core."""
    for process in family(pid):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), {core})


@contextmanager
def running(core: int, *command: str, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python program of ours on one core; it is ended on leaving. Its output can be read line by line."""
    started = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),  # noqa: PLW1509 - nothing else runs in threads here
    )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdout is not None:
            started.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    """What it says first: its address."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith("http://"), f"{process.args!r} did not start"
    return line


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found, waiting = [], [pid]
    while waiting:
        here = waiting.pop()
        found.append(here)
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{here}/task"):
                waiting += map(int, Path(f"/proc/{here}/task/{thread}/children").read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its family, those that have ended included."""
    return sum(map(_own_cpu_seconds, family(pid)))


def _own_cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Memory that one process has taken, as it stands now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def allow_open_files(wanted: int) -> None:
    """Raise the limit for us and whom we start, as far as we may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
