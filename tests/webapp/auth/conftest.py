"""Fixtures of sign-in: a site with the local provider, and an identity provider of another make."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from tests.webapp.auth.site import Site, running_site

# Ends with its standard input, so that it cannot outlive the tests. In a process of its own: it warns about itself.
_FOREIGN_PROVIDER = """
import sys, oidc_provider_mock
with oidc_provider_mock.run_server_in_thread() as server:
    print(server.server_port, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    """The site with the local provider."""
    with running_site(engine, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def foreign_issuer() -> Iterator[str]:
    """The issuer of oidc-provider-mock, an implementation that knows nothing of ours."""
    command = [sys.executable, "-W", "ignore", "-c", _FOREIGN_PROVIDER]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    yield f"http://localhost:{int(process.stdout.readline())}"
    process.stdin.close()
    process.wait(20)
    process.stdout.close()
