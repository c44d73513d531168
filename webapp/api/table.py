"""A row of the API's one table: what the router, the description, the page and the tests are made from."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from webapp.api.base import Input, Output
from webapp.api.call import Call
from webapp.auth.api_keys import Scope

_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One method at one path.

    ``scope`` None lets in who has no key. ``takes`` is the model of the body; ``gives`` the model of each good status,
    None for no body. ``refuses`` are statuses that this route's own rules add to those that follow from the rest.
    ``filters`` are query parameters and what they mean; a list has ``cursor`` and ``limit`` besides.
    """

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    scope: Scope
    summary: str
    about: str = ""
    takes: type[Input] | None = None
    gives: Mapping[int, type[Output] | None]
    refuses: tuple[int, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    is_list: bool = False
    streams: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What the path has in braces."""
        return tuple(_NAME.findall(self.path))

    @property
    def template(self) -> tuple[str, ...]:
        return tuple(self.path.removeprefix("/").split("/"))

    @property
    def queries(self) -> frozenset[str]:
        """The query parameters it knows."""
        return frozenset(self.filters) | (frozenset({"cursor", "limit"}) if self.is_list else frozenset())

    @property
    def refusals(self) -> tuple[int, ...]:
        """Every status of an error that it can answer with, but for a fault of ours."""
        # 422: an unknown query parameter is refused everywhere.
        found = {401, 403, 422, 429, 503, *self.refuses}
        if self.takes is not None:
            found |= {400, 413}
        if self.names:
            found.add(404)
        return tuple(sorted(found))
