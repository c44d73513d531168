"""Fixtures of the database layer's own tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A private folder that is gone after the test: what a server makes is too big to be kept for three runs."""
    with tempfile.TemporaryDirectory(prefix="remembrancer-tests-") as folder:
        yield Path(folder)
