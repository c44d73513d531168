"""The command line: what it refuses and how it says so, what it starts, and that it stops all of it."""

import signal
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from tests.database import make_organization
from tests.webapp.command import clean_environ, finished, free_port, started
from webapp import cli
from webapp.arguments import parse_arguments
from webapp.settings import SETTINGS, Command, load_settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands that run in this process see no setting of whoever runs the tests."""
    for row in SETTINGS:
        monkeypatch.delenv(row.name, raising=False)
        monkeypatch.delenv(f"{row.name}_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def assert_one_line(said: str, *parts: str) -> None:
    assert said.count("\n") == 1
    assert said.startswith("remembrancer: ")
    assert "Traceback" not in said
    for part in parts:
        assert part in said


# Wrong usage.


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("dev", "--host", "0.0.0.0"),
        ("dev", "--host", "::"),
        ("dev", "--host", "192.168.0.1"),
        ("dev", "--host", "example.org"),
        ("dev", "--port", "0"),
        ("dev", "--port", "65536"),
        ("dev", "--port", "http"),
        ("serve", "--workers", "0"),
        ("migrate", "--to"),
        *((later,) for later in ("worker", "seed", "keys", "export", "import", "erase")),
    ],
)
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started; the usage is on standard error. A command that is not built yet does not exist."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: remembrancer" in capsys.readouterr().err


def test_dev_says_why_it_stays_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """A sign-in page that believes every name must not be reachable from elsewhere."""
    with pytest.raises(SystemExit):
        cli.main(["dev", "--host", "0.0.0.0"])
    assert "this machine only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "address"), [("localhost", "127.0.0.1"), ("[::1]", "::1"), ("127.1.2.3", "127.1.2.3")]
)
def test_every_loopback_address_is_one(given: str, address: str) -> None:
    """Names and brackets are understood."""
    assert parse_arguments(["dev", "--host", given]).host == address


def test_every_command_takes_a_data_folder(tmp_path: Path) -> None:
    """CONTRACT: every command takes --data-dir."""
    for command in ("dev", "serve", "migrate", "probe"):
        assert parse_arguments([command, "--data-dir", str(tmp_path)]).data_dir == tmp_path


# Failures are one line.


def test_serve_names_every_missing_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them at once, in one line; exit 1."""
    assert cli.main(["serve"]) == 1
    assert_one_line(
        capsys.readouterr().err,
        "REMEMBRANCER_DATABASE_URL is missing",
        "REMEMBRANCER_PUBLIC_URL is missing",
        "REMEMBRANCER_SECRET_KEY is missing",
        "REMEMBRANCER_OIDC_ISSUER is missing",
        "REMEMBRANCER_OIDC_CLIENT_ID is missing",
        "OPENAI_API_KEY",
    )


def test_a_database_that_is_not_there_is_one_line_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each command that needs one."""
    url = f"postgresql://ada:velvet-otter-91@127.0.0.1:{free_port()}/nothing"
    monkeypatch.setenv("REMEMBRANCER_DATABASE_URL", url)
    for command in ("migrate", "probe"):
        assert cli.main([command]) == 1
        said = capsys.readouterr().err
        assert_one_line(said, "database")
        assert "velvet-otter" not in said


def test_signals_go_where_they_went_before(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A command borrows the handlers of SIGINT and SIGTERM and gives them back."""
    before = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
    cli.main(["serve"])
    assert [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)] == before
    assert capsys.readouterr().err


def test_a_fault_nobody_foresaw_is_one_line_without_its_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its kind and place help to find it; its message might quote what somebody wrote."""

    def fail(*_: object, **__: object) -> None:
        raise LookupError("velvet-otter-91")

    monkeypatch.setattr(cli, "load_settings", fail)
    assert cli.main(["migrate"]) == 1
    said = capsys.readouterr().err
    assert_one_line(said, "LookupError in test_cli.py, line ")
    assert "velvet-otter" not in said


@pytest.mark.parametrize(("command", "status"), [("dev", 0), ("serve", 0), ("migrate", 1), ("probe", 1)])
def test_only_what_was_to_be_stopped_is_done_when_it_is_stopped(
    command: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server has done its work when it is asked to stop; a migration that is cut short has not."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_settings", interrupt)
    assert cli.main([command]) == status


def test_a_folder_for_metrics_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """It is needed before anything can be imported, and there is no traceback all the same."""
    environ = clean_environ(PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "nowhere"))
    done = finished("dev", cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_line(done.stderr, "PROMETHEUS_MULTIPROC_DIR")
    assert list(tmp_path.iterdir()) == []


# What is said at the start.


def greeting(tmp_path: Path, **environ: str) -> list[str]:
    settings = load_settings(environ, Command.DEV, data_dir=tmp_path)
    return cli._greeting(settings, settings.public_url).splitlines()


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, "The rehearsal model answers. For a real one set OPENAI_API_KEY or OPENAI_BASE_URL."),
        ({"OPENAI_API_KEY": "velvet-otter-91"}, "gpt-5-mini at OpenAI answers."),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:8122/v1/", "REMEMBRANCER_MODEL": "mock-model"},
            "mock-model at http://127.0.0.1:8122/v1 answers.",
        ),
        (
            {"OPENAI_BASE_URL": "https://gateway.example/velvet-otter-91-velvet/v1"},
            "gpt-5-mini at https://gateway.example/… answers.",
        ),
    ],
)
def test_dev_says_which_model_answers(environ: dict[str, str], line: str, tmp_path: Path) -> None:
    """Its name and where it is; nothing that might be a key."""
    said = greeting(tmp_path, **environ)
    assert said[2] == line
    assert "velvet-otter" not in "".join(said)


@pytest.mark.parametrize(
    ("environ", "end"),
    [
        ({}, " The operators' pages open for operator."),
        ({"REMEMBRANCER_OPERATORS": "ada, claim:role=admin, bob"}, " The operators' pages open for ada, bob."),
        ({"REMEMBRANCER_OPERATORS": "claim:role=admin"}, " believes every name."),
    ],
)
def test_dev_names_the_operators_there_really_are(environ: dict[str, str], end: str, tmp_path: Path) -> None:
    """Those whom the local page can sign in; it proves no claim."""
    assert greeting(tmp_path, **environ)[1].endswith(end)


# The schema.


def served_settings(database_url: str) -> dict[str, str]:
    return {
        "REMEMBRANCER_DATABASE_URL": database_url,
        "REMEMBRANCER_PUBLIC_URL": "http://127.0.0.1:8000",
        "REMEMBRANCER_SECRET_KEY": "k" * 32,
        "REMEMBRANCER_OIDC_ISSUER": "https://id.example.org",
        "REMEMBRANCER_OIDC_CLIENT_ID": "remembrancer",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }


def test_a_database_is_migrated_probed_and_taken_back(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it is migrated, probe and serve say what to type; after `--to base` they do so again."""
    for name, value in served_settings(empty_database_url).items():
        monkeypatch.setenv(name, value)

    def said(*arguments: str) -> tuple[int, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    for command in ("probe", "serve"):
        assert said(command) == (1, "remembrancer: the database has no schema yet. Run: remembrancer migrate\n")
    assert said("migrate") == (0, "The database is at revision 0002.\n")
    assert said("migrate") == (0, "The database is at revision 0002.\n")
    assert said("probe")[0] == 0
    assert said("migrate", "--to", "9999")[0] == 1
    assert said("migrate", "--to", "base") == (0, "The database holds nothing of Remembrancer.\n")
    assert said("probe")[0] == 1


# The whole, in processes of its own.


@pytest.mark.slow
def test_dev_starts_everything_and_stops_everything(tmp_path: Path) -> None:
    """One command from an empty folder to a page that answers; a second start keeps the data; both signals end it."""
    environ, port = clean_environ(), free_port()
    for kind in (signal.SIGTERM, signal.SIGINT):
        with started("dev", cwd=tmp_path, environ=environ, port=port) as dev:
            dev.read_until("Ctrl-C")
            assert dev.lines[0] == f"Remembrancer is ready: {dev.url}"
            assert "Sign in as ada" in dev.lines[1]
            assert "rehearsal model" in dev.lines[2]
            assert str(tmp_path / ".remembrancer") in dev.lines[3]
            assert dev.get("/readyz").status_code == 200
            attached = finished("probe", cwd=tmp_path, environ=environ)
            assert attached.returncode == 0, attached.stderr
            assert dev.stop(kind) == 0
            assert dev.rest() == ""
    key = (tmp_path / ".remembrancer" / "secret.key").read_bytes()
    assert len(key) >= 32
    assert not (tmp_path / ".remembrancer" / "postgres" / "data" / "postmaster.pid").exists()


@pytest.mark.slow
def test_a_second_dev_says_what_is_taken(tmp_path: Path) -> None:
    """The port first, then the folder; one line each."""
    environ, port = clean_environ(), free_port()
    with started("dev", cwd=tmp_path, environ=environ, port=port) as dev:
        dev.read_until("Ctrl-C")
        same_port = finished("dev", "--port", str(port), cwd=tmp_path, environ=environ)
        same_folder = finished("dev", "--port", str(free_port()), cwd=tmp_path, environ=environ)
        assert dev.stop() == 0
    assert same_port.returncode == same_folder.returncode == 1
    assert_one_line(same_port.stderr, f"port {port} is taken", "--port")
    assert_one_line(same_folder.stderr, "in use", "--data-dir")


@pytest.mark.slow
def test_dev_says_that_there_is_no_postgresql(tmp_path: Path) -> None:
    """A folder without the programs: one line, exit 1."""
    (tmp_path / "empty").mkdir()
    environ = clean_environ(REMEMBRANCER_PG_BIN=str(tmp_path / "empty"))
    done = finished("dev", "--port", str(free_port()), cwd=tmp_path, environ=environ)
    assert done.returncode == 1
    assert_one_line(done.stderr, "PostgreSQL", "REMEMBRANCER_PG_BIN")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_serve_serves_and_stops(database_url: str, tmp_path: Path, workers: int) -> None:
    """On a migrated database, in one process or several; SIGTERM ends it with 0."""
    port = free_port()
    environ = clean_environ(**served_settings(database_url))
    environ["REMEMBRANCER_PUBLIC_URL"] = f"http://127.0.0.1:{port}"
    with started("serve", "--workers", str(workers), cwd=tmp_path, environ=environ, port=port) as serve:
        serve.read_until("Ctrl-C")
        assert serve.get("/readyz").status_code == 200
        assert "Sign in" in serve.get("/sign-in").text
        assert serve.stop() == 0
        assert serve.rest() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_serve_does_not_take_over_an_organization_of_another_issuer(
    engine: Engine, database_url: str, tmp_path: Path, workers: str
) -> None:
    """Equal names there would be other people: the command ends, instead of starting its processes again and again."""
    make_organization(engine)
    environ = clean_environ(**served_settings(database_url))
    done = finished("serve", "--workers", workers, "--port", str(free_port()), cwd=tmp_path, environ=environ)
    assert done.returncode == 1
    assert "belongs to the issuer" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_killed_serve_takes_its_workers_with_it(database_url: str, tmp_path: Path) -> None:
    """After kill -9 of the parent nobody listens on the port any more: a later start could take it."""
    port = free_port()
    environ = clean_environ(**served_settings(database_url))
    environ["REMEMBRANCER_PUBLIC_URL"] = f"http://127.0.0.1:{port}"
    with started("serve", "--workers", "2", cwd=tmp_path, environ=environ, port=port) as serve:
        serve.read_until("Ctrl-C")
        serve.stop(signal.SIGKILL)
        serve.rest()


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "revoke", "a\udcff"),
        ("keys", "create", "--name", "a\udcff"),
        ("erase", "--agent", "d\udcff", *"--subject s".split()),
    ],
)
def test_bytes_that_are_no_text_are_wrong_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Said by the command line itself, before anything is looked at or made."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "it is not text in UTF-8" in capsys.readouterr().err


def test_what_is_told_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is repeated in an error has lost its control characters."""
    assert cli._told("there is no agent \x1b[31mred") == 1
    assert capsys.readouterr().err == "remembrancer: there is no agent ?[31mred\n"
