"""The headers of every response: what a browser may load, send on and keep; and the number of the request."""

import secrets
from collections.abc import Callable, Iterable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FIXED = (
    # Cross-origin addresses learn nothing; our own pages still name theirs, or forms without script would post from
    # "null" and be refused.
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_HSTS = ("Strict-Transport-Security", "max-age=31536000")
_STATIC = "/static/"


def content_security_policy(form_action_origins: Iterable[str] = ()) -> str:
    """Everything from here, nothing inline, nothing evaluated.

    `form_action_origins`: where the answer to one of our forms may lead besides this site (signing out elsewhere).
    """
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "font-src 'self'",
            " ".join(("form-action 'self'", *form_action_origins)),
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )


def new_request_id() -> str:
    """A number to quote to an operator, such as ``7f3c-19ab``."""
    digits = secrets.token_hex(4)
    return f"{digits[:4]}-{digits[4:]}"


class ResponseHeaders:
    """ASGI middleware, outermost of all: errors have these headers too.

    Puts the request's number into ``scope["state"]["request_id"]``. Nothing is stored by browsers or proxies unless the
    response says otherwise; static files are kept, and asked about again each time.
    """

    def __init__(
        self, app: ASGIApp, *, uses_https: bool, form_action_origins: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.app = app
        self._fixed = (*_FIXED, _HSTS) if uses_https else _FIXED
        self._form_action_origins = form_action_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id
        kept = "no-cache" if scope["path"].startswith(_STATIC) else "no-store"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._fixed:
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", content_security_policy(self._form_action_origins()))
                headers.setdefault("Cache-Control", kept)
                headers["X-Request-Id"] = request_id
            await send(message)

        await self.app(scope, receive, with_headers)
