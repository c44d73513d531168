"""How an error reaches whoever asked: a page in words, a partial for htmx, or JSON; never a traceback.

What is said stands in `error_words.py`. A person's page names the request; the log names the request and the kind of
error, and holds none of an error's text, which may quote what somebody wrote.
"""

import logging
import traceback
from dataclasses import replace
from urllib.parse import quote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.errors import AgentError, MessageRefused, ModelBusy
from memory_core.errors import MemoryCoreError, OperationRefused, StorageFailed
from webapp.error_words import HTTP_WORDS, UNEXPECTED, WORDS, Words
from webapp.errors import IdentityInvalid, ProviderRefused, SignInNeeded, TooManySignIns, TooManyWrongKeys, WebError
from webapp.local_path import local_path
from webapp.render import render, render_partial
from webapp.words import REFUSALS, too_long

log = logging.getLogger(__name__)

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def words_for(error: Exception) -> Words:
    """What is said of `error`: the entry of its class or nearest ancestor, with the numbers this one carries."""
    if isinstance(error, HTTPException):
        return HTTP_WORDS.get(error.status_code, replace(UNEXPECTED, status=error.status_code, code="http_error"))
    found = next((WORDS[kind] for kind in type(error).__mro__ if kind in WORDS), UNEXPECTED)
    if isinstance(error, OperationRefused):
        return replace(found, code=error.code.value, text=REFUSALS[error.code])
    if isinstance(error, MessageRefused):
        return replace(found, text=_message_refused(error))
    if isinstance(error, ModelBusy | TooManySignIns | TooManyWrongKeys) and error.retry_after_seconds is not None:
        return replace(found, retry_after_seconds=max(1, round(error.retry_after_seconds)))
    return found


def error_response(request: Request, error: Exception) -> Response:
    """The response to `request` that failed with `error`, in the form the asker reads."""
    if isinstance(error, SignInNeeded) and request.method in _SAFE_METHODS and _wants_page(request):
        return RedirectResponse(sign_in_path(request), status_code=303)
    words = words_for(error)
    note(request, error, words)
    response = _json(request, words) if _wants_json(request) else _page(request, words)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    if words.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(words.retry_after_seconds)
    return response


async def handle_error(request: Request, error: Exception) -> Response:
    """`error_response` as Starlette's exception handlers want it."""
    return error_response(request, error)


EXCEPTION_HANDLERS = dict.fromkeys((HTTPException, WebError, MemoryCoreError, AgentError), handle_error)


def sign_in_path(request: Request) -> str:
    """The sign-in page, coming back to the page the person looks at."""
    back = local_path(_page_in_sight(request))
    return "/sign-in" if back == "/" else f"/sign-in?next={quote(back, safe='/')}"


class ServerEdge:
    """The last line: an error nobody named becomes a page and a log record without its text.

    Belongs outside everything that can render and inside what sets the headers of every response. Nothing is raised
    further; a response that had already begun is left unfinished, and the server closes its connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, receive, watch)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the server's edge: whatever it is, a person gets words
            request = Request(scope, receive)
            response = error_response(request, error)
            if not started:
                await response(scope, receive, send)


def _message_refused(error: MessageRefused) -> str:
    if error.limit is not None and error.chars is not None:
        return too_long(error.limit, error.chars)
    if error.why == "empty":
        return "There is nothing in it yet. Write something first."
    return "It holds control characters that no keyboard makes. What you wrote is still on the page; remove them first."


def _page_in_sight(request: Request) -> str:
    """Path and query of the page the person sees: this one, or the one whose form or script asked."""
    if request.method in _SAFE_METHODS and not _is_htmx(request):
        query = request.scope["query_string"].decode("latin-1")
        return str(request.scope["path"]) + (f"?{query}" if query else "")
    parts = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer") or "")
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _is_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _wants_json(request: Request) -> bool:
    accept, path = request.headers.get("accept", ""), str(request.scope["path"])
    return path == "/v1" or path.startswith("/v1/") or ("application/json" in accept and "text/html" not in accept)


def _wants_page(request: Request) -> bool:
    return not _is_htmx(request) and not _wants_json(request)


def _json(request: Request, words: Words) -> Response:
    message = f"{words.title}. {words.text}"
    body = {"error": {"code": words.code, "message": message, "requestId": request_id(request)}}
    return JSONResponse(body, status_code=words.status)


def _page(request: Request, words: Words) -> Response:
    label, path = words.action
    context = {
        "status": words.status,
        "title": words.title,
        "text": words.text,
        "action_label": label,
        "action_path": sign_in_path(request) if path == "/sign-in" else path,
        "request_id": request_id(request),
    }
    if _is_htmx(request):
        return HTMLResponse(render_partial("errors/_notice.html", **context), words.status)
    return render(request, "errors/error.html", context, words.status)


def request_id(request: Request) -> str:
    """The number to quote to an operator; empty outside the site's own middleware."""
    return str(getattr(request.state, "request_id", ""))


def note(request: Request, error: Exception, words: Words) -> None:
    """Log what an operator needs: for an unexpected error its class and place, for a fault its code."""
    if words is UNEXPECTED:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
        log.error("request %s failed: %s at %s", request_id(request), type(error).__name__, place)
    elif isinstance(error, StorageFailed):
        log.error("request %s: database error, sqlstate %s", request_id(request), error.sqlstate)
    elif isinstance(error, IdentityInvalid):
        log.warning("request %s: sign-in refused, check %s", request_id(request), error.check)
    elif isinstance(error, ProviderRefused):
        log.warning("request %s: sign-in refused by the provider, %s", request_id(request), error.reason)
    elif words.status >= 500:
        log.warning("request %s: %s", request_id(request), words.code)
