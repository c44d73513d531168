"""The README's tour of the API, run with curl as it stands there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa

from memory_core.database.tables import audit_log, owners
from tests.webapp.product import Product, running_product
from webapp import cli

README = Path(__file__).parents[2] / "README.md"
_SCRIPT = re.compile(r"<!-- api:[^>]*-->\n```sh\n(.*?)```\n<!-- end of api -->", re.DOTALL)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_tour_of_the_api_does_what_it_says(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One key from the command line: an agent, two seeds, two chats over SSE, both memories read, a 409, one erased."""
    [script] = _SCRIPT.findall(README.read_text(encoding="utf-8"))
    with running_product(database_url, tmp_path) as product:
        told = _run(script, product, _key(database_url, tmp_path, monkeypatch, capsys))
        assert told.count('"outcome":"committed"') == 2
        assert '"entries":["Buys green tea every month.","I also like oolong"],"characters":48' in told
        assert '"entries":["Is allergic to jasmine.","I also like oolong"]' in told
        assert told.count('"code":"memory_already_initialized"') == 1
        assert "Prefers coffee." not in told
        with product.services.engine.connect() as connection:
            assert list(connection.execute(sa.select(owners.c.subject)).scalars()) == ["customer-17"]
            done = list(connection.execute(sa.select(audit_log.c.action).order_by(audit_log.c.id)).scalars())
    assert done == [
        "key_created",
        "agent_created",
        *["memory_seeded"] * 2,
        *["memory_read"] * 2,
        "subject_erased",
    ]


def _key(database_url: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("REMEMBRANCER_DATABASE_URL", database_url)
    assert cli.main(("keys", "create", "--data-dir", str(data_dir))) == 0
    return capsys.readouterr().out.strip()


def _run(script: str, product: Product, key: str) -> str:
    environ = {**os.environ, "URL": product.url, "KEY": key, "no_proxy": "*"}
    done = subprocess.run(
        ["sh", "-eu"], input=script, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
