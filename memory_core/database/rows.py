"""The type of a row whose columns are read by name."""

from typing import Any, TypeAlias

import sqlalchemy as sa

Record: TypeAlias = sa.Row[*tuple[Any, ...]]
