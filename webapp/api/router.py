"""Everything at and below /v1, found by the path as it was sent, and what every call goes through before its handler.

    path → method → key → scope → names of the path, query → body → handler

Starlette decodes a path before it routes, and a subject with a slash in it would then be two segments; so this is one
route to Starlette, with a router of its own inside. Whatever is refused on the way is refused in the API's envelope.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.datastructures import URLPath
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from agent.errors import AgentError
from memory_core.errors import MemoryCoreError
from webapp.api.access import Doorkeeper
from webapp.api.body import read_body
from webapp.api.call import Call
from webapp.api.errors import error_response
from webapp.api.paging import Window, read_window
from webapp.api.path import decoded, match, sent_segments
from webapp.api.table import ApiRoute
from webapp.errors import Problem, RequestInvalid, WebError
from webapp.services import services_of

ROOT = "/v1"
Found = TypeVar("Found")

#: What is open to everybody: a page about the API, and its description.
OpenPage = Callable[[Request], Awaitable[Response]]


class Api(BaseRoute):
    """The API as one route of the site. ``pages`` are those that need no key, by path."""

    def __init__(self, table: Sequence[ApiRoute], pages: Mapping[str, OpenPage]) -> None:
        self.table = tuple(table)
        self.pages = dict(pages)
        self._door = Doorkeeper()
        self._by_path: dict[tuple[str, ...], dict[str, ApiRoute]] = defaultdict(dict)
        for route in table:
            self._by_path[route.template][route.method] = route

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"]
        is_ours = scope["type"] == "http" and (path == ROOT or path.startswith(f"{ROOT}/"))
        return (Match.FULL if is_ours else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except (WebError, MemoryCoreError, AgentError, HTTPException) as error:
            response = error_response(request, error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        segments = sent_segments(request.scope)
        page = self.pages.get("/" + b"/".join(segments).decode("latin-1"))
        if page is not None:
            _route_for(request.method, {"GET": page})
            return await page(request)
        for template, methods in self._by_path.items():
            values = match(template, segments)
            # An id of no characters is nobody's; a subject of none is refused in words.
            if values is not None and all(value or name == "subjectId" for name, value in values.items()):
                return await self._call(request, _route_for(request.method, methods), values)
        raise HTTPException(404)

    async def _call(self, request: Request, route: ApiRoute, values: Mapping[str, bytes]) -> Response:
        services = services_of(request)
        key = await self._door.admit(request, services, route.scope)
        ids = {name: _text(name, value) for name, value in values.items()}
        query = _query(request, route)
        window = read_window(query) if route.is_list else Window()
        body = None if route.takes is None else await read_body(request, route.takes)
        return await route.handler(Call(request, services, self._door, key, ids, query, window, body))


def _route_for(method: str, methods: Mapping[str, Found]) -> Found:
    """What answers this method; HEAD is answered as GET is. Raises 405, which names those there are."""
    found = methods.get("GET" if method == "HEAD" else method)
    if found is None:
        allowed = sorted({*methods, "HEAD"} if "GET" in methods else methods)
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})
    return found


def _text(name: str, value: bytes) -> str:
    """A name of the path as text. An id that is no text does not exist; a subject that is none is refused."""
    text = decoded(value)
    if text is None and name == "subjectId":
        raise RequestInvalid(Problem(name, "subject_invalid", "must be percent-encoded UTF-8"))
    return "\ufffd" if text is None else text


def _query(request: Request, route: ApiRoute) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in route.queries:
            raise RequestInvalid(Problem("query", "unknown_key", f"takes {_listed(route.queries)}"))
        if name in found:
            raise RequestInvalid(Problem(name, "repeated", "must come once"))
        if not value:
            raise RequestInvalid(Problem(name, "too_short", "must not be empty"))
        found[name] = value
    return found


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
