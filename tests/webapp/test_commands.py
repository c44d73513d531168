"""What operators do on the command line, on a real database: what it prints, what it leaves, and what it refuses."""

import io
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import api_keys, audit_log, owners
from tests.database import rows
from tests.webapp.product import running_product
from tests.webapp.test_cli import served_settings
from webapp import cli

Say = Callable[..., tuple[int, str, str]]
ADA = ("--agent", "default", "--subject", "ada")
SEED = {"userMemoryEntries": ["Likes tea."], "agentMemoryEntries": ["Uses make."]}


@pytest.fixture
def say(database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command; its status and what it printed."""
    for name, value in served_settings(database_url).items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def seed_file(tmp_path: Path) -> str:
    path = tmp_path / "seed.json"
    path.write_bytes(orjson.dumps(SEED))
    return str(path)


def audited(engine: Engine) -> list[tuple[str, str]]:
    return [(row["actor_kind"], row["action"]) for row in rows(engine, sa.select(audit_log).order_by(audit_log.c.id))]


def test_a_key_is_printed_once_and_alone(say: Say, engine: Engine) -> None:
    """On standard output there is nothing else; in the database there is its digest; revoking ends it."""
    status, key, told = say("keys", "create", "--name", "crm", "--scopes", "agents,memory:seed", "--days", "30")
    assert status == 0
    assert re.fullmatch(r"rk_[0-9a-f]{16}_[0-9a-f]{64}\n", key)
    assert "once" in told
    key_id, secret = key.strip().split("_")[1:]
    [row] = rows(engine, sa.select(api_keys))
    assert secret.encode() not in bytes(row["secret_digest"])
    assert row["scopes"] == ["agents", "memory:seed"]
    assert say("keys", "list")[1].startswith(f"{key_id}  never used, until ")
    assert say("keys", "revoke", key_id) == (0, f"Revoked: {key_id}.\n", "")
    assert "revoked" in say("keys", "list")[1]
    assert say("keys", "revoke", "none")[0] == 1
    assert audited(engine) == [("command", "key_created"), ("command", "key_revoked")]


@pytest.mark.invariant("I29")
def test_a_seed_is_taken_once(say: Say, seed_file: str, engine: Engine) -> None:
    """The second one is refused in words that say what to do; nothing changes, and nothing is noted."""
    assert say("seed", *ADA, seed_file) == (0, "Seeded: USER.md 1, MEMORY.md 1.\n", "")
    status, _, told = say("seed", *ADA, seed_file)
    assert status == 1
    assert "import --replace" in told
    assert audited(engine) == [("command", "memory_seeded")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not json", "not JSON"),
        (b"[]", "userMemoryEntries"),
        (b'{"users":[]}', "userMemoryEntries"),
        (b'{"userMemoryEntries":[1]}', "lists of texts"),
        (b'{"userMemoryEntries":"abc"}', "lists of texts"),
        (b"{}", "batch_size"),
        (b'{"agentMemoryEntries":["fine","a\\u200bb secret"]}', "Agent memory, entry 2:"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 2_000_000, "too large"),
    ],
)
def test_a_wrong_seed_is_refused_in_one_line(
    say: Say, tmp_path: Path, content: bytes, says: str, engine: Engine
) -> None:
    """It says what is wrong and where, and repeats no word of it; nobody comes into being."""
    path = tmp_path / "seed.json"
    path.write_bytes(content)
    status, out, told = say("seed", *ADA, str(path))
    assert (status, out) == (1, "")
    assert says in told
    assert "secret" not in told
    assert told.count("\n") == 1
    assert rows(engine, sa.select(owners)) == []


def test_files_go_out_and_come_back(say: Say, seed_file: str, tmp_path: Path, engine: Engine) -> None:
    """Export, and import for somebody else: the same documents. Files that are there are not written over unasked."""
    folder = str(tmp_path / "out")
    say("seed", *ADA, seed_file)
    assert say("export", *ADA, folder)[0] == 0
    assert (tmp_path / "out" / "USER.md").read_text() == "Likes tea."
    assert (tmp_path / "out" / "USER.md").stat().st_mode & 0o077 == 0
    assert say("export", *ADA, folder)[0] == 1
    assert say("export", *ADA, folder, "--force")[0] == 0
    bob = ("--agent", "default", "--subject", "bob")
    assert say("export", *bob, str(tmp_path))[0] == 1
    assert say("import", *bob, folder) == (0, "Imported: USER.md 1, MEMORY.md 1.\n", "")
    assert say("import", *bob, folder)[0] == 1
    (tmp_path / "out" / "USER.md").write_text("Likes coffee.\n§\nKeeps bees.")
    assert say("import", *bob, "--replace", folder) == (0, "Replaced: USER.md 2, MEMORY.md 1 now.\n", "")
    assert "the same already" in say("import", *bob, "--replace", folder)[1]
    assert say("import", *bob, str(tmp_path / "nowhere"))[0] == 1
    assert audited(engine)[-2:] == [("command", "memory_imported"), ("command", "memory_replaced")]


def test_a_link_that_leads_nowhere_is_no_empty_document(say: Say, seed_file: str, tmp_path: Path) -> None:
    """Read as one, it would take everything away."""
    say("seed", *ADA, seed_file)
    (tmp_path / "USER.md").write_text("Likes coffee.")
    (tmp_path / "MEMORY.md").symlink_to(tmp_path / "nowhere")
    status, _, told = say("import", *ADA, "--replace", str(tmp_path))
    assert status == 1
    assert "MEMORY.md" in told


def test_an_export_is_whole_or_not_at_all_and_follows_no_link(say: Say, seed_file: str, tmp_path: Path) -> None:
    """A folder in the way: nothing is written. A link in the way: it is replaced, and what it led to stays."""
    folder = tmp_path / "out"
    (folder / "MEMORY.md").mkdir(parents=True)
    say("seed", *ADA, seed_file)
    assert say("export", *ADA, "--force", str(folder))[0] == 1
    assert [path.name for path in folder.iterdir()] == ["MEMORY.md"]
    (folder / "MEMORY.md").rmdir()
    other = tmp_path / "other"
    other.write_text("mine")
    (folder / "USER.md").symlink_to(other)
    assert say("export", *ADA, str(folder))[0] == 1
    assert say("export", *ADA, "--force", str(folder))[0] == 0
    assert other.read_text() == "mine"
    assert (folder / "USER.md").read_text() == "Likes tea."
    assert sorted(path.name for path in folder.iterdir()) == ["MEMORY.md", "USER.md"]


def test_files_of_endless_entries_are_refused_at_once(say: Say, tmp_path: Path, engine: Engine) -> None:
    """Before any of them is looked at, also in the place of what is there."""
    (tmp_path / "USER.md").write_text("\n§\n".join(str(number) for number in range(30_000)))
    for more in ((), ("--replace",)):
        status, _, told = say("import", *ADA, *more, str(tmp_path))
        assert status == 1
        assert "more entries than fit (344)" in told
    assert rows(engine, sa.select(owners)) == []


def test_nothing_in_the_place_of_nobody_makes_nobody(say: Say, tmp_path: Path, engine: Engine) -> None:
    """An empty document for somebody who is not known; and as a beginning it is none."""
    (tmp_path / "USER.md").write_text("")
    status, _, told = say("import", *ADA, "--replace", str(tmp_path))
    assert (status, told) == (1, "remembrancer: this agent knows nobody of that name\n")
    assert "there is no entry in it" in say("import", *ADA, str(tmp_path))[2]
    assert rows(engine, sa.select(owners)) == []
    assert audited(engine) == []


@pytest.mark.invariant("I29")
def test_what_was_put_in_place_counts_as_a_beginning(say: Say, seed_file: str, tmp_path: Path) -> None:
    """Also after it was emptied again."""
    (tmp_path / "USER.md").write_text("Likes coffee.")
    assert say("import", *ADA, "--replace", str(tmp_path))[0] == 0
    (tmp_path / "USER.md").write_text("")
    assert say("import", *ADA, "--replace", str(tmp_path))[0] == 0
    assert say("seed", *ADA, seed_file)[0] == 1


def test_a_seed_comes_through_standard_input(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads it; what is stored is counted, not what was sent."""
    twice = orjson.dumps({"userMemoryEntries": ["Likes tea.", "Likes tea."]})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(twice)))
    assert say("seed", *ADA, "-") == (0, "Seeded: USER.md 1, MEMORY.md 0.\n", "")


def test_a_key_that_cannot_be_printed_is_not_made(say: Say, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, a closed output: no key is live that nobody has seen."""
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - closing it fails, too
    monkeypatch.setattr("sys.stdout", full)
    assert cli.main(("keys", "create")) == 1
    monkeypatch.setattr("sys.stdout", None)
    assert cli.main(("keys", "create")) == 1
    with suppress(OSError):
        full.close()
    assert rows(engine, sa.select(api_keys)) == []


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(("--version",))
    assert raised.value.code == 0
    assert re.fullmatch(r"remembrancer \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_a_replaced_memory_is_told_to_the_person(say: Say, database_url: str, tmp_path: Path) -> None:
    """On their page, with Undo, until they have undone it."""
    (tmp_path / "USER.md").write_text("Likes coffee.")
    with running_product(database_url, tmp_path) as product:
        ada = product.sign_in("ada")
        ada.post_form("/memory/entries", {"target": "user", "content": "Likes tea."})
        assert say("import", *ADA, "--replace", str(tmp_path))[0] == 0
        page = ada.memory_page()
        assert "Replaced by an operator" in page
        receipt = page.split('name="receipt" value="')[1].split('"')[0]
        assert ada.post_form("/memory/undos", {"receipt": receipt}).status_code == 200
        assert "Likes tea." in ada.memory_page()
        assert "Replaced by an operator" not in ada.memory_page()


@pytest.mark.invariant("I35")
def test_erasing_leaves_no_row_that_holds_the_person(say: Say, seed_file: str, engine: Engine) -> None:
    """It asks for --yes where nobody can be asked; erasing nobody is no fault; the log names nobody."""
    say("seed", *ADA, seed_file)
    assert say("erase", *ADA)[0] == 1
    assert say("erase", *ADA, "--yes")[0] == 0
    assert say("erase", *ADA, "--yes")[0] == 0
    assert rows(engine, sa.select(owners)) == []
    assert [row["owner_id"] for row in rows(engine, sa.select(audit_log))] == [None, None, None]
    assert say("seed", *ADA, seed_file)[0] == 0


def test_an_agent_that_is_not_there_is_named(say: Say, seed_file: str) -> None:
    """One line, and what always works."""
    status, _, told = say("seed", "--agent", "agt_none", "--subject", "ada", seed_file)
    assert status == 1
    assert "agt_none" in told
    assert "default" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("seed", "file"),
        ("seed", "--agent", "default", "--subject", "", "file"),
        ("keys",),
        ("keys", "create", "--scopes", "everything"),
        ("keys", "create", "--days", "0"),
        ("export", "--agent", "default", "--subject", "x" * 256),
    ],
)
def test_wrong_usage_is_told_as_such(arguments: tuple[str, ...]) -> None:
    """Exit status 2, before anything is opened."""
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2


def test_a_command_works_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded database is started, migrated and stopped for it; the key works afterwards."""
    for name in served_settings(""):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(("keys", "create", "--data-dir", str(tmp_path / "data"))) == 0
    assert not (tmp_path / "data" / "postgres" / "data" / "postmaster.pid").exists()
