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
from memory_core.errors import OwnerGone, StorageFailed
from tests.database import rows
from tests.webapp.product import running_product
from tests.webapp.test_cli import served_settings
from webapp import cli
from webapp.audit import Auditor

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
    assert say("keys", "revoke", key_id) == (0, f"Revoked: {key_id}.\n", "")
    assert "revoked" in say("keys", "list")[1]
    assert say("keys", "revoke", "none")[0] == 1
    assert audited(engine) == [("command", "key_created"), ("command", "key_revoked")]


def test_keys_are_listed_in_columns_under_their_names(say: Say) -> None:
    """A key that never expires says so, and one without a name too; nothing in a name begins a line."""
    assert say("keys", "list")[1] == "There are no keys. Make one: remembrancer keys create\n"
    say("keys", "create", "--scopes", "erase")
    say("keys", "create", "--name", "the\nshop", "--scopes", "agents,erase", "--days", "30")
    head, shop, nameless = say("keys", "list")[1].splitlines()
    assert re.fullmatch(r"ID {16}STATE {7}EXPIRES {5}SCOPES {8}NAME", head)
    assert re.fullmatch(r"[0-9a-f]{16}  never used  \d{4}-\d\d-\d\d  agents,erase  the\?shop", shop)
    assert re.fullmatch(r"[0-9a-f]{16}  never used  never {7}erase {9}\(no name\)", nameless)


def test_a_key_that_is_revoked_again_is_said_to_have_been(say: Say, engine: Engine) -> None:
    """Its end stays when it was, and the audit log has one line about it."""
    key_id = say("keys", "create")[1].split("_")[1]
    say("keys", "revoke", key_id)
    [before] = rows(engine, sa.select(api_keys.c.revoked_at))
    assert say("keys", "revoke", key_id) == (0, f"It was revoked already: {key_id}.\n", "")
    assert rows(engine, sa.select(api_keys.c.revoked_at)) == [before]
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


def test_an_export_that_failed_is_not_noted(say: Say, seed_file: str, tmp_path: Path, engine: Engine) -> None:
    """Nothing could be written, so nobody took anything out; the same export, written, is noted."""
    (tmp_path / "file").write_text("")
    say("seed", *ADA, seed_file)
    status, out, told = say("export", *ADA, str(tmp_path / "file" / "out"))
    assert (status, out) == (1, "")
    assert "cannot write to" in told
    assert audited(engine) == [("command", "memory_seeded")]
    assert say("export", *ADA, str(tmp_path / "out"))[0] == 0
    assert audited(engine) == [("command", "memory_seeded"), ("command", "memory_exported")]


@pytest.mark.parametrize(("error", "says"), [(StorageFailed, "may have no line"), (OwnerGone, "erased meanwhile")])
def test_an_export_that_could_not_be_noted_names_the_files(
    say: Say, seed_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], says: str
) -> None:
    """They are there, so the failure says so."""

    def fail(*_: object, **__: object) -> None:
        raise error

    say("seed", *ADA, seed_file)
    monkeypatch.setattr(Auditor, "record", fail)
    status, out, told = say("export", *ADA, str(tmp_path / "out"))
    assert (status, out) == (1, "")
    for words in (str(tmp_path / "out" / "USER.md"), "were written", says):
        assert words in told
    assert (tmp_path / "out" / "USER.md").exists()


def test_what_takes_the_place_of_nothing_is_imported(say: Say, tmp_path: Path, engine: Engine) -> None:
    """Printed and noted as what it was; the next one does replace."""
    (tmp_path / "USER.md").write_text("Likes coffee.\n§\nKeeps bees.")
    assert say("import", *ADA, "--replace", str(tmp_path)) == (0, "Imported: USER.md 2, MEMORY.md 0.\n", "")
    (tmp_path / "USER.md").write_text("Likes tea.\n§\nLikes tea.")
    replaced = "Replaced: USER.md 1, MEMORY.md 0 now; 1 duplicate left out.\n"
    assert say("import", *ADA, "--replace", str(tmp_path)) == (0, replaced, "")
    assert audited(engine) == [("command", "memory_imported"), ("command", "memory_replaced")]


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
    """`-` reads it; what is stored is counted, and what of it was there twice."""
    twice = orjson.dumps({"userMemoryEntries": ["Likes tea."] * 3})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(twice)))
    assert say("seed", *ADA, "-") == (0, "Seeded: USER.md 1, MEMORY.md 0; 2 duplicates left out.\n", "")


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
    """It says whom; erasing nobody is no fault, and told as what it is; the log names nobody."""
    say("seed", *ADA, seed_file)
    assert say("erase", *ADA, "--yes")[1].startswith("Erased ada from agent default. ")
    status, out, _ = say("erase", *ADA, "--yes")
    assert status == 0
    assert out.startswith("Nothing to erase: agent default knows nobody named ada.")
    assert rows(engine, sa.select(owners)) == []
    assert [row["owner_id"] for row in rows(engine, sa.select(audit_log))] == [None, None, None]
    assert say("seed", *ADA, seed_file)[0] == 0


def test_erasing_names_whom_before_it_asks_for_yes(say: Say, seed_file: str, engine: Engine) -> None:
    """Where nobody can type the name: whom it is about, or that there is nobody; nothing is deleted or noted."""
    status, _, told = say("erase", *ADA)
    assert (status, told) == (1, "remembrancer: agent default knows nobody named ada; nothing was deleted\n")
    say("seed", *ADA, seed_file)
    status, _, told = say("erase", *ADA)
    assert status == 1
    assert "everything that agent default has about ada" in told
    assert "--yes" in told
    assert len(rows(engine, sa.select(owners))) == 1
    assert audited(engine) == [("command", "memory_seeded")]


@pytest.mark.parametrize(("typed", "status", "left"), [("ada", 0, 0), ("bob", 1, 1), ("", 1, 1)])
def test_only_the_name_itself_lets_a_terminal_erase(
    say: Say, seed_file: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, typed: str, status: int, left: int
) -> None:
    """The question says whom it is about; another name, or none, deletes nothing."""
    say("seed", *ADA, seed_file)
    terminal = io.StringIO(f"{typed}\n" if typed else "")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    done, _, told = say("erase", *ADA)
    assert done == status
    assert told.startswith("This deletes everything that agent default has about ada, and cannot be undone.\n")
    assert len(rows(engine, sa.select(owners))) == left


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


def test_what_brings_something_makes_its_data_folder_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The embedded database is made, started, migrated and stopped for the command; the second time it is there."""
    for name in served_settings(""):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "data"
    for is_made in (True, False):
        assert cli.main(("keys", "create", "--data-dir", str(folder))) == 0
        assert (f"A new data folder is made at {folder}." in capsys.readouterr().err) is is_made
    assert not (tmp_path / "data" / "postgres" / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("probe",),
        ("keys", "list"),
        ("keys", "revoke", "0123456789abcdef"),
        ("export", *ADA),
        ("erase", *ADA, "--yes"),
    ],
)
def test_a_command_that_reads_or_removes_makes_no_data_folder(
    arguments: tuple[str, ...],
    tmp_path: Path,
    seed_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Typed in the wrong folder it says so, and leaves that folder as it was."""
    for name in served_settings(""):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "USER.md").write_text("Likes tea.")
    before = sorted(tmp_path.iterdir())
    assert cli.main(arguments) == 1
    assert capsys.readouterr().err == (
        f"remembrancer: there is no data folder at {tmp_path / '.remembrancer'}. "
        "Run it where `remembrancer dev` runs, or name it with --data-dir.\n"
    )
    assert sorted(tmp_path.iterdir()) == before
