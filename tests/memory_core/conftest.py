"""Fixtures of memory as it is stored."""

import pytest
from sqlalchemy.engine import Engine

from tests.database import OrganizationForTests
from tests.memory_core.keeping import Keeper


@pytest.fixture
def keeper(engine: Engine, organization: OrganizationForTests) -> Keeper:
    """Ada, with empty documents."""
    return Keeper(engine, organization)
