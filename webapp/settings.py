"""The settings of a deployment: one table, one frozen value, and the only place that reads the environment.

A setting is one row of `SETTINGS`. Its attribute on `Settings` is its name in lower case without ``REMEMBRANCER_``.
An empty variable counts as absent. A secret can also be read from the file that ``<NAME>_FILE`` names.
"""

import difflib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.metrics import FOLDER_VARIABLE
from webapp import setting_values as values
from webapp.auth.operators import OperatorRule

PREFIX = "REMEMBRANCER_"
_SECRET_FILE = "secret.key"  # noqa: S105 - the name of a file
_NO_KEY = "what stands there is no key; delete it, and the next start makes one"


class Command(StrEnum):
    """What is being started; it decides the defaults and what must be given."""

    DEV = "dev"
    SERVE = "serve"
    MIGRATE = "migrate"
    PROBE = "probe"
    SEED = "seed"
    KEYS = "keys"
    EXPORT = "export"
    IMPORT = "import"
    ERASE = "erase"


class SettingsError(Exception):
    """The settings do not allow a start.

    `problems` holds one sentence for each setting that is missing or wrong, in the order of the table; `str()` is all
    of them on one line. A secret's value is never part of it.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Setting:
    """One row: how it is called, read and explained. `dev` is the default of `dev` where that differs."""

    name: str
    parse: Callable[[str], object]
    meaning: str
    default: str = ""
    dev: str | None = None
    shown: str | None = None
    required_in: frozenset[Command] = frozenset()
    secret: bool = False

    @property
    def attribute(self) -> str:
        return self.name.removeprefix(PREFIX).lower()

    def default_in(self, command: Command) -> str:
        return self.dev if command is Command.DEV and self.dev is not None else self.default


_SERVE = frozenset({Command.SERVE})

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "REMEMBRANCER_DATABASE_URL",
        values.database_url,
        "PostgreSQL, as `postgresql://…`. Empty: an embedded server in the data folder (not in `serve`)",
        shown="embedded in `dev`, required in `serve`",
        required_in=_SERVE,
        secret=True,
    ),
    Setting(
        "REMEMBRANCER_DIRECT_DATABASE_URL",
        values.database_url,
        "the same database past a connection pooler, for migrations and notifications",
        shown="the same",
        secret=True,
    ),
    Setting(
        "REMEMBRANCER_DATA_DIR",
        values.folder,
        "the embedded server and local keys",
        default=".remembrancer",
        shown="`.remembrancer` in the working directory",
    ),
    Setting(
        "REMEMBRANCER_PG_BIN",
        values.optional_folder,
        "folder of PostgreSQL's programs for the embedded server",
        shown="those installed with Remembrancer",
    ),
    Setting(
        "REMEMBRANCER_PUBLIC_URL",
        values.public_url,
        "the address a browser sees, without a path; sign-in returns to it",
        shown="the local address in `dev`, required in `serve`",
        required_in=_SERVE,
    ),
    Setting(
        "REMEMBRANCER_SECRET_KEY",
        values.secret_key,
        "at least 32 bytes; seals what sign-in keeps in the database. A new key is harmless",
        shown="made in `dev`, required in `serve`",
        required_in=_SERVE,
        secret=True,
    ),
    Setting(
        "REMEMBRANCER_OIDC_ISSUER",
        values.guarded_url,
        "the identity provider, exactly as it names itself in its discovery document",
        shown="the local provider in `dev`, required in `serve`",
        required_in=_SERVE,
    ),
    Setting(
        "REMEMBRANCER_OIDC_CLIENT_ID",
        values.text,
        "the client registered there; its redirect URI is `<public URL>/auth/callback`, "
        "after sign-out `<public URL>/signed-out`",
        shown="required with an issuer",
        required_in=_SERVE,
    ),
    Setting(
        "REMEMBRANCER_OIDC_CLIENT_SECRET",
        values.text,
        "its secret; empty: a public client (PKCE is used either way)",
        secret=True,
    ),
    Setting("REMEMBRANCER_OIDC_SCOPES", values.scopes, "what is asked for at sign-in", default="openid profile email"),
    Setting(
        "REMEMBRANCER_OPERATORS",
        values.operators,
        "who may open the operator pages: comma list of subjects (`sub`), or of claims of the ID token as "
        "`claim:NAME=VALUE`, a text, a list or yes and no (`true`, `false`); not `email`, `name` or "
        "`preferred_username`, which people can change",
        dev="operator",
        shown="`operator` in `dev`, empty in `serve`",
    ),
    Setting("REMEMBRANCER_ORGANIZATION", values.slug, "short name of the organization that owns the memory", "default"),
    Setting(
        "OPENAI_API_KEY",
        values.text,
        "key of the model's API. This and the next both empty: the rehearsal model (`dev` only)",
        secret=True,
    ),
    Setting("OPENAI_BASE_URL", values.web_url, "another server that speaks OpenAI's chat completions", shown="OpenAI"),
    Setting("REMEMBRANCER_MODEL", values.text, "the model that answers", default="gpt-5-mini"),
    Setting(
        "REMEMBRANCER_FALLBACK_MODELS", values.words, "comma list, tried in turn when the model fails before its answer"
    ),
    Setting(
        "REMEMBRANCER_MEMORY_ENABLED",
        values.flag,
        "off: no memory is read or written; what is stored stays, and people can still see and remove it",
        default="false",
        dev="true",
        shown="`true` in `dev`, `false` in `serve`",
    ),
    Setting(
        "REMEMBRANCER_UNDO_HOURS", values.whole(0, 8760), "how long a saved change can be undone; 0 = not at all", "24"
    ),
    Setting("REMEMBRANCER_TURN_SECONDS", values.whole(1, 86400), "longest time for one answer", "600"),
    Setting(
        "REMEMBRANCER_FIRST_TOKEN_SECONDS", values.whole(1, 3600), "longest wait for the model to begin", default="120"
    ),
    Setting("REMEMBRANCER_STALL_SECONDS", values.whole(1, 3600), "longest pause of the model in its answer", "60"),
    Setting("REMEMBRANCER_TOOL_ROUNDS", values.whole(1, 100), "most tool rounds in one answer", default="8"),
    # 80,000 characters of four bytes, each byte as three in a form, still fit into the body's limit.
    Setting("REMEMBRANCER_MESSAGE_CHARS", values.whole(1, 80_000), "longest message, in characters", "32000"),
    Setting(
        "REMEMBRANCER_HISTORY_TOKENS",
        values.whole(500, 10_000_000),
        "how much of a conversation is sent along, in tokens (estimated)",
        default="24000",
    ),
    Setting("REMEMBRANCER_STREAMS_PER_SUBJECT", values.whole(1, 1000), "answers at once for one person", default="3"),
    Setting("REMEMBRANCER_POOL_SIZE", values.whole(1, 1000), "database connections of one process", default="10"),
    Setting("REMEMBRANCER_SESSION_HOURS", values.whole(1, 8760), "longest time signed in", default="720"),
    Setting("REMEMBRANCER_SESSION_IDLE_HOURS", values.whole(1, 8760), "longest time signed in without use", "72"),
    Setting(
        "REMEMBRANCER_TRUSTED_PROXIES",
        values.networks,
        "comma list of addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed",
    ),
    Setting(
        "REMEMBRANCER_METRICS_TOKEN",
        values.text,
        "what Prometheus sends as its bearer token to `/metrics`. Empty: only this machine may ask",
        secret=True,
    ),
    Setting(
        "REMEMBRANCER_REHEARSAL_PACE_MS",
        values.whole(0, 10_000),
        "pause of the rehearsal model between two pieces of its answer",
        default="15",
    ),
    Setting("REMEMBRANCER_LOG_FORMAT", values.choice("text", "json"), "`text` or `json`", default="text"),
    Setting(
        "REMEMBRANCER_LOG_LEVEL",
        values.choice("debug", "info", "warning", "error"),
        "`debug`, `info`, `warning` or `error`; no level shows content",
        default="info",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings a process runs with. Secrets stay out of its repr."""

    command: Command
    database_url: str = field(repr=False)
    direct_database_url: str = field(repr=False)
    data_dir: Path
    pg_bin: Path | None
    public_url: str
    secret_key: bytes = field(repr=False)
    oidc_issuer: str
    oidc_client_id: str
    oidc_client_secret: str = field(repr=False)
    oidc_scopes: tuple[str, ...]
    operators: tuple[OperatorRule, ...]
    organization: str
    openai_api_key: str = field(repr=False)
    openai_base_url: str
    model: str
    fallback_models: tuple[str, ...]
    memory_enabled: bool
    undo_hours: int
    turn_seconds: int
    first_token_seconds: int
    stall_seconds: int
    tool_rounds: int
    message_chars: int
    history_tokens: int
    streams_per_subject: int
    pool_size: int
    session_hours: int
    session_idle_hours: int
    trusted_proxies: tuple[values.IPNetwork, ...]
    metrics_token: str = field(repr=False)
    rehearsal_pace_ms: int
    log_format: str
    log_level: str
    #: Whether this is one of several worker processes, whose numbers are added up.
    shares_metrics: bool = False

    @property
    def uses_https(self) -> bool:
        """Whether browsers reach this deployment over https: Secure cookies and HSTS follow from it."""
        return self.public_url.startswith("https://")

    @property
    def uses_local_provider(self) -> bool:
        """Whether people sign in at the development provider; never in `serve`."""
        return self.command is Command.DEV and not self.oidc_issuer

    @property
    def uses_rehearsal_model(self) -> bool:
        """Whether the built-in model answers; never in `serve`."""
        return self.command is Command.DEV and not self.openai_api_key and not self.openai_base_url

    @property
    def uses_embedded_database(self) -> bool:
        return not self.database_url


def load_settings(
    environ: Mapping[str, str] | None,
    command: Command,
    *,
    data_dir: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
) -> Settings:
    """Read every setting of `command` from `environ` (None: this process's environment).

    `data_dir`, `host` and `port` are what the command line said. In `dev` a missing secret key is made once and kept
    in the data folder, readable by its owner only. Raises SettingsError with every setting that is missing or wrong.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    found: dict[str, Any] = {row.attribute: _read(row, environ, command, problems) for row in SETTINGS}
    if data_dir is not None:
        found["data_dir"] = data_dir.expanduser().absolute()
    problems.extend(_contradictions(found, command))
    problems.extend(_misspelt(environ))
    if problems:
        raise SettingsError(tuple(problems))
    found["direct_database_url"] = found["direct_database_url"] or found["database_url"]
    if command is Command.DEV:
        found["public_url"] = found["public_url"] or values.origin_of(f"http://{host}:{port}")
        found["secret_key"] = found["secret_key"] or _kept_secret_key(found["data_dir"])
    return Settings(command=command, **found)


def share_metrics(folder: Path) -> None:
    """Let the worker processes that are started from now on keep their numbers in this folder."""
    os.environ[FOLDER_VARIABLE] = str(folder)


def settings_table() -> str:
    """The table of settings as the README shows it, in Markdown."""
    lines = ["| name | meaning | default |", "|---|---|---|"]
    for row in SETTINGS:
        name = f"`{row.name}`" + (f" or `{row.name}_FILE`" if row.secret else "")
        default = row.shown if row.shown is not None else (f"`{row.default}`" if row.default else "empty")
        lines.append(f"| {name} | {row.meaning} | {default} |")
    return "\n".join(lines)


def _read(row: Setting, environ: Mapping[str, str], command: Command, problems: list[str]) -> object:
    try:
        given = _given(row, environ)
        if not given and command in row.required_in:
            problems.append(f"{row.name} is missing")
        return row.parse(given or row.default_in(command))
    except ValueError as error:
        problems.append(f"{row.name} {error}")
        return None


def _given(row: Setting, environ: Mapping[str, str]) -> str:
    """The text given for `row`, from the variable or from the file beside it; empty when there is none."""
    direct = environ.get(row.name, "").strip()
    path = environ.get(f"{row.name}_FILE", "").strip() if row.secret else ""
    if direct and path:
        raise ValueError(f"is given twice, once as {row.name}_FILE")
    if not path:
        return direct
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"cannot be read from the file that {row.name}_FILE names") from None


def _contradictions(found: Mapping[str, Any], command: Command) -> Iterator[str]:
    """Settings that are right by themselves and wrong together. One that could not be read (None) is passed over."""
    if command is Command.SERVE and found["openai_api_key"] == "" and found["openai_base_url"] == "":
        yield "OPENAI_API_KEY or OPENAI_BASE_URL is missing (the rehearsal model answers in dev only)"
    if command is Command.DEV and found["oidc_issuer"] and not found["oidc_client_id"]:
        yield "REMEMBRANCER_OIDC_CLIENT_ID is missing, and REMEMBRANCER_OIDC_ISSUER is given"
    if command is Command.DEV and found["oidc_issuer"] == "":
        for name in ("oidc_client_id", "oidc_client_secret"):
            if found[name]:
                yield f"{PREFIX}{name.upper()} is given, and REMEMBRANCER_OIDC_ISSUER is missing"


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    """Names that are almost a setting's. Others may be anybody's: an orchestrator makes some from a service's name."""
    known = [row.name for row in SETTINGS] + [f"{row.name}_FILE" for row in SETTINGS if row.secret]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.93):
                yield f"{name} is no setting; {meant} is"


def _kept_secret_key(data_dir: Path) -> bytes:
    """The key kept in `data_dir`, made there on the first start."""
    if data_dir.exists() and not data_dir.is_dir():
        raise SettingsError((f"REMEMBRANCER_DATA_DIR names a file; it must be a folder: {data_dir}",))
    kept = data_dir / _SECRET_FILE
    try:
        if not kept.exists():
            data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = data_dir / f".{_SECRET_FILE}.{secrets.token_hex(8)}"
            fresh.touch(mode=0o600, exist_ok=False)
            fresh.write_text(secrets.token_urlsafe(48), encoding="ascii")
            # A link appears whole or not at all, and the first of two starts wins.
            try:
                kept.hardlink_to(fresh)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        return values.secret_key(kept.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        # The words of a ValueError are `secret_key`'s, or those of bytes that are no text and might be the key.
        why = (error.strerror or "no access").lower() if isinstance(error, OSError) else _NO_KEY
        raise SettingsError((f"REMEMBRANCER_DATA_DIR cannot keep the secret key in {kept}: {why}",)) from None
