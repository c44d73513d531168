"""Cross-site request forgery: no request may change anything unless one of our own pages sent it for its own person.

Two walls. Every unsafe request must come from our origin, by the browser's own word (Origin, else Sec-Fetch-Site, else
Referer). And one that brings a live session must bring that session's token too, as the form field ``csrf_token`` or
the header ``X-CSRF-Token``. A request without a live session passes on: the route answers it with 401, in words.
"""

import hmac

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_core.errors import MemoryCoreError
from webapp.auth.person import find_person
from webapp.error_pages import error_response
from webapp.errors import CrossOriginRefused, PageOutdated, WebError
from webapp.setting_values import origin_of

FORM_FIELD = "csrf_token"
HEADER = "x-csrf-token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


class CsrfGuard:
    """ASGI middleware. `exempt` are path prefixes whose routes read no cookie: the API and the provider's own pages.

    Belongs inside Starlette's application (it finds the session through ``app.state``) and inside the body's limit.
    """

    def __init__(self, app: ASGIApp, public_url: str, exempt: tuple[str, ...] = ()) -> None:
        self.app = app
        self._origin = origin_of(public_url)
        self._exempt = exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE_METHODS or scope["path"].startswith(self._exempt):
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            receive = await self._check(request)
        except (WebError, MemoryCoreError, HTTPException) as error:
            await error_response(request, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _check(self, request: Request) -> Receive:
        """Raise unless the request may go on; returns what its route receives from, body included."""
        if not is_same_origin(request, self._origin):
            raise CrossOriginRefused
        person = await find_person(request)
        if person is None:
            return request.receive
        token, receive = await _token(request)
        if not hmac.compare_digest(token.encode(errors="replace"), person.csrf_token.encode()):
            raise PageOutdated
        return receive


def is_same_origin(request: Request, origin: str) -> bool:
    """Whether the browser says that a page of `origin` sent this request; without a word from it, no."""
    said = request.headers.get("origin")
    if said is not None:
        return said == origin
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    referer = request.headers.get("referer")
    return referer is not None and (referer == origin or referer.startswith(f"{origin}/"))


async def _token(request: Request) -> tuple[str, Receive]:
    """The token of the request, and a receive that still has the body which was read to find it."""
    header = request.headers.get(HEADER)
    if header is not None:
        return header, request.receive
    if not request.headers.get("content-type", "").lower().startswith(_FORM_TYPES):
        return "", request.receive
    body = await request.body()
    async with Request(request.scope, _replay(body, request.receive)).form() as form:
        token = _single(form, FORM_FIELD)
    return token, _replay(body, request.receive)


def _single(form: FormData, field: str) -> str:
    values = form.getlist(field)
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives `body` once and then what comes after it, a disconnect above all."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
