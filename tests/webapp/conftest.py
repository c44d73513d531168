"""The whole product with a scripted model, for tests that ask it over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer, serve_in_thread
from tests.webapp.product import Product, running_product


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model that plays what the test tells it."""
    with serve_in_thread() as server:
        yield server


@pytest.fixture
def product(database_url: str, tmp_path: Path, model: ModelServer) -> Iterator[Product]:
    """The product, served on loopback."""
    with running_product(database_url, tmp_path, model.base_url) as running:
        yield running
