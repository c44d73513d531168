"""Runs a command and fails if anything it started is still running afterwards.

Every process below the command inherits one random environment variable; afterwards each process of this machine that
still carries it is named. Linux only (elsewhere the command just runs). It reports and never ends a process itself.

    python -m tests.leftovers COMMAND [ARGUMENT ...]
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

MARK = "REMEMBRANCER_TEST_RUN"
PATIENCE_SECONDS = 10.0


def main(command: list[str]) -> int:
    """The command's exit status, or 1 if it succeeded and left something running."""
    token = f"{MARK}={secrets.token_hex(16)}"
    name, value = token.split("=")
    status = subprocess.run(command, env={**os.environ, name: value}, check=False).returncode
    left = wait_for_silence(token, PATIENCE_SECONDS)
    for line in left:
        print(f"Still running after the tests: {line}", file=sys.stderr)
    return status or bool(left)


def wait_for_silence(token: str, patience_seconds: float) -> list[str]:
    """What still carries `token` once `patience_seconds` are over, as "PID COMMAND"; at best nothing."""
    deadline = time.monotonic() + patience_seconds
    while (left := carriers(token)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def carriers(token: str) -> list[str]:
    """The processes with `token` in their environment, as "PID COMMAND"; a process that ends meanwhile is not one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(f"{process.name} {command[:200]}")
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
