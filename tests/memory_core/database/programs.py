"""Programs that pass for PostgreSQL's as long as nobody starts a server."""

from pathlib import Path


def fake_programs(folder: Path, version: str, *, initdb: str = "exit 0") -> Path:
    """Programs that know their version and little else."""
    folder.mkdir(parents=True)
    for name, body in (("postgres", f"echo 'postgres (PostgreSQL) {version}'"), ("initdb", initdb)):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    return folder
