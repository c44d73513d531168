"""Settings: what each command needs, what it says when something is wrong, and what it never repeats."""

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from webapp.settings import SETTINGS, Command, Setting, Settings, SettingsError, load_settings, settings_table

SERVE = {
    "REMEMBRANCER_DATABASE_URL": "postgresql://app:hunter2@db/app",
    "REMEMBRANCER_PUBLIC_URL": "https://memory.example.org",
    "REMEMBRANCER_SECRET_KEY": "k" * 32,
    "REMEMBRANCER_OIDC_ISSUER": "https://id.example.org/realms/one",
    "REMEMBRANCER_OIDC_CLIENT_ID": "remembrancer",
    "OPENAI_API_KEY": "sk-secret",
}


def problems_of(environ: dict[str, str], command: Command = Command.SERVE) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, command)
    return caught.value.problems


def test_dev_needs_no_setting_at_all(tmp_path: Path) -> None:
    """The first run works with an empty environment: everything has a default, the local ones included."""
    settings = load_settings({}, Command.DEV, data_dir=tmp_path, port=8123)

    assert settings.public_url == "http://127.0.0.1:8123"
    assert settings.uses_local_provider
    assert settings.uses_rehearsal_model
    assert settings.uses_embedded_database
    assert settings.memory_enabled
    assert len(settings.secret_key) >= 32


def test_dev_keeps_its_secret_key_for_the_next_start_and_for_its_owner_only(tmp_path: Path) -> None:
    """The second start finds the first one's key, and nobody else may read the file."""
    folder = tmp_path / "made" / "here"
    first = load_settings({}, Command.DEV, data_dir=folder).secret_key

    assert load_settings({}, Command.DEV, data_dir=folder).secret_key == first
    assert stat.S_IMODE((folder / "secret.key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret.key"]


def test_two_starts_at_once_agree_on_the_secret_key(tmp_path: Path) -> None:
    """The first to finish wins, and nothing half-written is ever read or left behind."""
    together = threading.Barrier(8)

    def start(_: int) -> bytes:
        together.wait(10)
        return load_settings({}, Command.DEV, data_dir=tmp_path).secret_key

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_a_data_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A data folder that is a file stops the start with the setting's name, not with a traceback."""
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(SettingsError, match="REMEMBRANCER_DATA_DIR names a file"):
        load_settings({}, Command.DEV, data_dir=taken)


def test_a_data_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path) -> None:
    """Path and reason, in one sentence."""
    (tmp_path / "taken").write_text("")
    folder = tmp_path / "taken" / "data"
    with pytest.raises(SettingsError) as refused:
        load_settings({"REMEMBRANCER_DATA_DIR": str(folder)}, Command.DEV)
    said = f"REMEMBRANCER_DATA_DIR cannot keep the secret key in {folder / 'secret.key'}: not a directory"
    assert refused.value.problems == (said,)


@pytest.mark.parametrize("content", [b"velvet-otter", b"velvet-otter\xff" * 9])
def test_a_kept_key_that_is_none_is_told_without_its_text(tmp_path: Path, content: bytes) -> None:
    """Too short, or no text: the file is named, and what to do."""
    (tmp_path / "secret.key").write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        load_settings({}, Command.DEV, data_dir=tmp_path)
    assert f"{tmp_path / 'secret.key'}: what stands there is no key; delete it" in str(refused.value)
    assert "velvet-otter" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("REMEMBRANCER_MEMORY_ENABLE", "REMEMBRANCER_MEMORY_ENABLED"),
        ("REMEMBRANCER_OPERATOR", "REMEMBRANCER_OPERATORS"),
        ("REMEMBRANCER_SECRET_KEY_FIL", "REMEMBRANCER_SECRET_KEY_FILE"),
    ],
)
def test_a_misspelt_name_is_told(tmp_path: Path, name: str, meant: str) -> None:
    """A setting that nobody reads would be believed to work."""
    with pytest.raises(SettingsError, match=f"{name} is no setting; {meant} is"):
        load_settings({name: "true"}, Command.DEV, data_dir=tmp_path)


def test_names_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    """What an orchestrator makes of a service's name."""
    theirs = {"REMEMBRANCER_SERVICE_HOST": "10.0.0.1", "REMEMBRANCER_PORT_8000_TCP_PORT": "8000"}
    assert load_settings(theirs, Command.DEV, data_dir=tmp_path).command is Command.DEV


def test_serve_names_every_missing_setting_at_once() -> None:
    """Nobody should have to start a server six times to learn what it wants."""
    said = problems_of({})

    for name in (
        "REMEMBRANCER_DATABASE_URL",
        "REMEMBRANCER_PUBLIC_URL",
        "REMEMBRANCER_SECRET_KEY",
        "REMEMBRANCER_OIDC_ISSUER",
        "REMEMBRANCER_OIDC_CLIENT_ID",
        "OPENAI_API_KEY",
    ):
        assert sum(name in problem for problem in said) == 1, name


def test_serve_starts_with_its_settings_and_without_the_local_helpers() -> None:
    """With what it needs, serve has memory off until it is switched on, and no local provider or rehearsal model."""
    settings = load_settings(SERVE, Command.SERVE)

    assert not settings.memory_enabled
    assert not settings.uses_local_provider
    assert not settings.uses_rehearsal_model
    assert settings.uses_https
    assert settings.direct_database_url == settings.database_url
    assert settings.oidc_client_secret == ""


@pytest.mark.parametrize("missing", ["REMEMBRANCER_OIDC_ISSUER", "OPENAI_API_KEY"])
def test_serve_never_falls_back_to_a_local_helper(missing: str) -> None:
    """Without an issuer there is no local provider in serve, without a model no rehearsal: it refuses to start."""
    environ = {name: value for name, value in SERVE.items() if name != missing}
    assert any(missing in problem for problem in problems_of(environ))


@pytest.mark.parametrize("command", [Command.MIGRATE, Command.PROBE])
def test_commands_of_the_database_need_only_the_database(command: Command) -> None:
    """migrate and probe ask for nothing of sign-in or the model, and make no key."""
    settings = load_settings({"REMEMBRANCER_DATABASE_URL": "postgres://db/app"}, command)
    assert settings.secret_key == b""
    assert not settings.uses_local_provider


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REMEMBRANCER_DATABASE_URL", "mysql://db/app"),
        ("REMEMBRANCER_PUBLIC_URL", "http://memory.example.org"),
        ("REMEMBRANCER_PUBLIC_URL", "https://memory.example.org/app"),
        ("REMEMBRANCER_PUBLIC_URL", "https://memory.example.org:port"),
        ("REMEMBRANCER_PUBLIC_URL", "memory.example.org"),
        ("REMEMBRANCER_PUBLIC_URL", "https://user@memory.example.org"),
        ("REMEMBRANCER_SECRET_KEY", "k" * 31),
        ("REMEMBRANCER_OIDC_ISSUER", "http://id.example.org"),
        ("REMEMBRANCER_OIDC_ISSUER", "https://id.example.org/?tenant=1"),
        ("REMEMBRANCER_OIDC_SCOPES", "profile email"),
        ("REMEMBRANCER_ORGANIZATION", "Upper Case"),
        ("OPENAI_BASE_URL", "localhost:11434"),
        ("OPENAI_BASE_URL", "https://u:hunter2@ex\u2100mple.org"),
        ("OPENAI_BASE_URL", "https://example.org/\x1b[31mhunter2/v1"),
        ("REMEMBRANCER_DATABASE_URL", "postgresql://u:hunter2@d\uff0fb/app"),
        ("REMEMBRANCER_MEMORY_ENABLED", "maybe"),
        ("REMEMBRANCER_UNDO_HOURS", "-1"),
        ("REMEMBRANCER_TURN_SECONDS", "86401"),
        ("REMEMBRANCER_TURN_SECONDS", "9" * 40),
        ("REMEMBRANCER_TURN_SECONDS", "¹²"),
        ("REMEMBRANCER_POOL_SIZE", "ten"),
        ("REMEMBRANCER_TRUSTED_PROXIES", "10.0.0.0/8, proxy"),
        ("REMEMBRANCER_LOG_FORMAT", "xml"),
        ("REMEMBRANCER_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_stops_the_start_and_is_named_but_not_repeated(name: str, value: str) -> None:
    """One problem, with the setting's name; the value, which may be a secret in the wrong place, is not shown."""
    (problem,) = problems_of({**SERVE, name: value})

    assert problem.startswith(f"{name} must ")
    assert value not in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("REMEMBRANCER_PUBLIC_URL", "HTTPS://Memory.Example.org:443/", "https://memory.example.org"),
        ("REMEMBRANCER_PUBLIC_URL", "http://[::1]:8000", "http://[::1]:8000"),
        ("REMEMBRANCER_OIDC_ISSUER", "https://Id.example.org/", "https://Id.example.org/"),
        ("REMEMBRANCER_MEMORY_ENABLED", "On", True),
        ("REMEMBRANCER_FALLBACK_MODELS", " one, ,two ", ("one", "two")),
        ("REMEMBRANCER_UNDO_HOURS", "0", 0),
        ("REMEMBRANCER_LOG_LEVEL", "DEBUG", "debug"),
        ("REMEMBRANCER_MODEL", "   ", "gpt-5-mini"),
    ],
)
def test_a_right_value_is_read(name: str, value: str, read: object) -> None:
    """Spelling that means the same is accepted; an issuer stays as it is; white space alone counts as absent."""
    settings = load_settings({**SERVE, name: value}, Command.SERVE)
    assert getattr(settings, name.removeprefix("REMEMBRANCER_").lower()) == read


@pytest.mark.parametrize("row", [row for row in SETTINGS if row.secret], ids=lambda row: row.name)
def test_a_secret_can_come_from_a_file(row: Setting, tmp_path: Path) -> None:
    """`…_FILE` names a file whose text, without the line end, is the value."""
    value = SERVE.get(row.name, "postgresql://other/db")
    environ = {name: text for name, text in SERVE.items() if name != row.name}
    path = tmp_path / "secret"
    path.write_text(f"{value}\n")

    settings = load_settings({**environ, f"{row.name}_FILE": str(path)}, Command.SERVE)

    read = getattr(settings, row.attribute)
    assert (read.decode() if isinstance(read, bytes) else read) == value


def test_a_secret_given_twice_or_in_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """Two values or none: neither is guessed about."""
    (twice,) = problems_of({**SERVE, "OPENAI_API_KEY_FILE": str(tmp_path / "key")})
    (unreadable,) = problems_of({**SERVE, "OPENAI_API_KEY": "", "OPENAI_API_KEY_FILE": str(tmp_path / "key")})

    assert "twice" in twice
    assert "OPENAI_API_KEY_FILE" in unreadable


def test_an_issuer_of_ones_own_in_dev_needs_its_client() -> None:
    """dev with a real identity provider wants the client's name; a client without a provider is a mistake too."""
    (without_client,) = problems_of({"REMEMBRANCER_OIDC_ISSUER": "https://id.example.org"}, Command.DEV)
    (without_issuer,) = problems_of({"REMEMBRANCER_OIDC_CLIENT_ID": "app"}, Command.DEV)

    assert without_client.startswith("REMEMBRANCER_OIDC_CLIENT_ID is missing")
    assert without_issuer.startswith("REMEMBRANCER_OIDC_CLIENT_ID is given")


def test_an_issuer_of_ones_own_in_dev_replaces_the_local_provider(tmp_path: Path) -> None:
    """With a real identity provider there is no local one beside it."""
    environ = {"REMEMBRANCER_OIDC_ISSUER": "https://id.example.org", "REMEMBRANCER_OIDC_CLIENT_ID": "app"}
    assert not load_settings(environ, Command.DEV, data_dir=tmp_path).uses_local_provider


def test_no_secret_shows_in_the_repr() -> None:
    """Settings may be logged by mistake; secrets would not be in it."""
    shown = repr(load_settings(SERVE, Command.SERVE))
    for secret in ("hunter2", "sk-secret", "k" * 32):
        assert secret not in shown


def test_the_error_is_one_line() -> None:
    """The command line prints one clear line."""
    with pytest.raises(SettingsError) as caught:
        load_settings({}, Command.SERVE)
    assert "\n" not in str(caught.value)


def test_every_row_has_its_attribute_and_every_attribute_its_row() -> None:
    """The table and the value cannot drift apart."""
    attributes = set(Settings.__dataclass_fields__) - {"command", "shares_metrics"}
    assert {row.attribute for row in SETTINGS} == attributes
    assert len({row.name for row in SETTINGS}) == len(SETTINGS)


def test_the_readme_shows_the_table_as_it_is() -> None:
    """The README's table is this table."""
    readme = Path(__file__).parents[2] / "README.md"
    assert settings_table() in readme.read_text(encoding="utf-8")


def test_the_process_environment_is_read_when_no_other_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """None stands for this process's environment."""
    monkeypatch.setenv("REMEMBRANCER_MODEL", "from-the-environment")
    assert load_settings(None, Command.MIGRATE).model == "from-the-environment"
