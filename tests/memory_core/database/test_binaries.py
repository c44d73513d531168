"""Where PostgreSQL's programs are looked for, in which order, and what is said when they do not fit."""

import shutil
from pathlib import Path

import pytest

from memory_core.database import binaries
from memory_core.database.binaries import Binaries, find_binaries
from memory_core.database.start_errors import BinariesMissing, DataVersionDiffers
from tests.memory_core.database.programs import fake_programs


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of programs, version 18, as the wheel would bring it."""
    package = tmp_path / "packages" / "programs_for_tests"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(binaries, "WHEEL", "programs_for_tests")
    return fake_programs(package / "pginstall" / "bin", "18.6")


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Debian's versions 9, 15 and 17."""
    root = tmp_path / "postgresql"
    for version in ("9.6.24", "15.14 (Debian 15.14-0+deb12u1)", "17.2"):
        fake_programs(root / version.split(".")[0] / "bin", version)
    monkeypatch.setattr(binaries, "DEBIAN", root)
    return root


def test_the_named_folder_comes_first_and_alone(tmp_path: Path, wheel: Path, debian: Path) -> None:
    """Whoever names a folder means it: nothing else is tried if it does not work."""
    named = fake_programs(tmp_path / "mine", "16beta2")
    assert find_binaries(named, tmp_path / "no data") == Binaries(named, 16)
    with pytest.raises(BinariesMissing) as failed:
        find_binaries(tmp_path / "empty", tmp_path / "no data")
    assert str(tmp_path / "empty") in str(failed.value)
    assert str(wheel) not in str(failed.value)


def test_the_wheel_comes_before_debian(tmp_path: Path, wheel: Path, debian: Path) -> None:
    """The version that was tested with this release."""
    assert find_binaries(None, tmp_path / "no data") == Binaries(wheel, 18)


@pytest.mark.usefixtures("debian")
def test_programs_that_do_not_run_here_are_passed_over(tmp_path: Path, wheel: Path, debian: Path) -> None:
    """The wheel's were built for another machine; Debian's newest are taken."""
    (wheel / "postgres").write_text("#!/bin/sh\nexit 127\n")
    assert find_binaries(None, tmp_path / "no data") == Binaries(debian / "17" / "bin", 17)


def test_data_of_an_older_version_find_their_own_programs(tmp_path: Path, wheel: Path, debian: Path) -> None:
    """A machine that still has the version which made them goes on with it."""
    data = stored_by(tmp_path, "15")
    assert find_binaries(None, data) == Binaries(debian / "15" / "bin", 15)


def test_data_nobody_here_can_read_are_named_with_both_versions(tmp_path: Path, wheel: Path, debian: Path) -> None:
    """The version that made them, and those that were found."""
    with pytest.raises(DataVersionDiffers) as failed:
        find_binaries(None, stored_by(tmp_path, "16"))
    assert "PostgreSQL 16" in str(failed.value)
    assert "18 and 17 and 15" in str(failed.value)


def test_a_version_that_is_too_old_is_no_version(tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with the one that is needed."""
    monkeypatch.setattr(binaries, "WHEEL", "no_such_package_anywhere")
    for version in ("15", "17"):
        shutil.rmtree(debian / version)
    with pytest.raises(BinariesMissing) as failed:
        find_binaries(None, tmp_path / "no data")
    assert "is version 9, 14 is needed" in str(failed.value)


def stored_by(tmp_path: Path, version: str) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text(f"{version}\n")
    return data
