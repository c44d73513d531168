"""The watch over what tests leave behind: it sees what is still running, and is silent otherwise."""

import secrets
import subprocess
import sys

import pytest

from tests import leftovers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched through /proc, on Linux only")


def test_a_process_that_is_still_running_is_named() -> None:
    """A child with the mark is found by its number, and no longer once it has ended."""
    token = f"{leftovers.MARK}={secrets.token_hex(8)}"
    name, value = token.split("=")
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, env={name: value}, stdin=subprocess.PIPE, text=True) as child:
        assert [found.split()[0] for found in leftovers.wait_for_silence(token, 0)] == [str(child.pid)]
        child.communicate("\n", timeout=20)
    assert leftovers.wait_for_silence(token, 0) == []


def test_a_clean_command_keeps_its_own_status(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing left: the status of the command, and not a word."""
    for status in (0, 3):
        assert leftovers.main([sys.executable, "-c", f"raise SystemExit({status})"]) == status
    assert capfd.readouterr().err == ""
