"""What the work of a transaction does in its tests: agents added, errors raised by the server, threads side by side."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory_core.database.tables import agents
from memory_core.database.transaction import Unit
from memory_core.ids import new_id
from tests.database import OrganizationForTests, rows


def names(engine: Engine) -> list[str]:
    return sorted(row["name"] for row in rows(engine, sa.select(agents.c.name)))


def add_agent(unit: Unit, organization: OrganizationForTests, name: str) -> None:
    unit.connection.execute(sa.insert(agents).values(id=new_id("agt"), organization_id=organization.id, name=name))


def fail_with(unit: Unit, state: str, detail: str = "") -> None:
    """Let the server raise an error of this SQLSTATE."""
    unit.connection.exec_driver_sql(
        f"DO $$ BEGIN RAISE EXCEPTION '{detail}' USING ERRCODE = '{state}', DETAIL = '{detail}'; END $$"
    )


@contextmanager
def threads(count: int = 2) -> Iterator[Callable[..., Future[Any]]]:
    with ThreadPoolExecutor(count) as executor:
        yield executor.submit
