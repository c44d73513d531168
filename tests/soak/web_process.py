"""The web process as it is run, `remembrancer dev`, so that it can be killed, paused, stopped and started again."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memory_core.database.data_folder import DataFolder, RunningServer

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass
class WebProcess:
    """One deployment on one address. `database_url` empty: it brings its embedded server.

    The times of its last start are monotonic.
    """

    data_dir: Path
    model_url: str
    database_url: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=_free_port)
    started_at: float = 0.0
    ready_at: float = 0.0
    _process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def database(self) -> str:
        """The address of the database it works on."""
        return self.database_url or self._server().url()

    @property
    def postmaster(self) -> int:
        """The process id of the embedded server."""
        return self._server().pid

    @property
    def log(self) -> str:
        """What it wrote to standard error, all its lives together."""
        path = self._log_path
        return path.read_text(errors="replace") if path.exists() else ""

    async def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.started_at = time.monotonic()
        command = ("-m", "webapp.cli", "dev", "--port", str(self.port), "--data-dir", str(self.data_dir))
        with self._log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=ROOT,
                env={**os.environ, **self._settings(), **self.environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        assert b"ready" in line, f"it did not start:\n{self.log[-3000:]}"
        self.ready_at = time.monotonic()

    async def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        await self.ended()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def ended(self, within_seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit status, once it has ended; AssertionError if that takes too long."""
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.communicate(), within_seconds)
        except TimeoutError:
            raise AssertionError(f"it still runs after {within_seconds} s:\n{self.log[-3000:]}") from None
        assert self._process.returncode is not None
        return self._process.returncode

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def _settings(self) -> dict[str, str]:
        return {
            "REMEMBRANCER_DATABASE_URL": self.database_url,
            "REMEMBRANCER_PUBLIC_URL": self.url,
            "REMEMBRANCER_LOG_LEVEL": "warning",
            "OPENAI_BASE_URL": self.model_url,
            "OPENAI_API_KEY": "",
        }

    @property
    def _log_path(self) -> Path:
        return self.data_dir / "standard-error.log"

    def _server(self) -> RunningServer:
        server = DataFolder(self.data_dir).running()
        assert server is not None, "no embedded server is running"
        return server


@asynccontextmanager
async def running_process(process: WebProcess) -> AsyncIterator[WebProcess]:
    """The process, started; it is gone afterwards, however the block ends."""
    try:
        await process.start()
        yield process
    finally:
        if process.is_running:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGTERM)
            await process.ended()
