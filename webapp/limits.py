"""The outer limits of a request: who may speak for a client, which host is asked for, how long a body is, how often.

Pure ASGI middleware; none of it reads a body it does not limit.
"""

import ipaddress
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webapp.error_pages import error_response
from webapp.error_words import WORDS
from webapp.errors import BodyTooLarge, TooManySignIns, WrongHost
from webapp.setting_values import IPNetwork, is_loopback_host, origin_of

DEFAULT_BODY_BYTES = 1_048_576
_ROUNDING = 1e-9


class ForwardedHeaders:
    """Believes ``X-Forwarded-For`` and ``X-Forwarded-Proto`` from trusted proxies, and from nobody else.

    Sets ``scope["client"]`` to the nearest address that is not a trusted proxy, and ``scope["scheme"]``. The server's
    own handling of these headers must be off (uvicorn: ``proxy_headers=False``).
    """

    def __init__(self, app: ASGIApp, trusted: tuple[IPNetwork, ...]) -> None:
        self.app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if self._trusted and scope["type"] == "http" and client and self._is_trusted(client[0]):
            headers = Headers(scope=scope)
            scope["client"] = (self._nearest(headers.getlist("x-forwarded-for")) or client[0], 0)
            scheme = headers.get("x-forwarded-proto", "").split(",")[-1].strip().lower()
            if scheme in ("http", "https"):
                scope["scheme"] = scheme
        await self.app(scope, receive, send)

    def _is_trusted(self, address: str) -> bool:
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self._trusted)

    def _nearest(self, headers: list[str]) -> str | None:
        """The last address in the chain that is not ours; what stands before it anybody may have written."""
        for part in reversed(",".join(headers).split(",")):
            address = part.strip()
            try:
                ipaddress.ip_address(address)
            except ValueError:
                return None
            if not self._is_trusted(address):
                return address
        return None


class HostGuard:
    """Answers only under the public name. `internal_url` is the second name, for `internal_paths` only.

    A page asked for as ``localhost`` or another name of this computer is sent on to the public address if that is on
    this computer too. Everything else is refused, so that no other name can be pointed here. `open_paths` answer under
    any name: a load balancer asks for them by address.
    """

    def __init__(
        self,
        app: ASGIApp,
        public_url: str,
        *,
        internal_url: str | None = None,
        internal_paths: tuple[str, ...] = (),
        open_paths: tuple[str, ...] = ("/healthz", "/readyz", "/metrics"),
    ) -> None:
        self.app = app
        self._public_url = origin_of(public_url)
        self._scheme = urlsplit(self._public_url).scheme
        self._public_host = _host_of(self._public_url)
        self._internal_host = _host_of(internal_url) if internal_url else None
        self._internal_paths = internal_paths
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open_paths:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        response = self._judge(request)
        await (response or self.app)(scope, receive, send)

    def _judge(self, request: Request) -> Response | None:
        path: str = request.scope["path"]
        try:
            host = _host_of(f"{self._scheme}://{request.headers.get('host', '')}")
        except ValueError:
            return _wrong_host(request)
        if host == self._public_host or (host == self._internal_host and path.startswith(self._internal_paths)):
            return None
        if request.method in ("GET", "HEAD") and path.startswith("/") and self._is_our_computer(host):
            query = request.scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{self._public_url}{path}{'?' if query else ''}{query}", status_code=307)
        return _wrong_host(request)

    def _is_our_computer(self, host: str) -> bool:
        return all(is_loopback_host(urlsplit(f"//{name}").hostname) for name in (host, self._public_host))


def _wrong_host(request: Request) -> Response:
    """In plain text: the style sheet of a page would be refused for the same reason. To programs in their envelope."""
    if request.scope["path"].startswith("/v1/"):
        return error_response(request, WrongHost())
    words = WORDS[WrongHost]
    return PlainTextResponse(f"{words.title}. {words.text}\n", words.status)


def _host_of(url: str) -> str:
    """Host and port of an address, as a Host header has them; the scheme's own port left out."""
    return origin_of(url).partition("://")[2]


class BodyLimit:
    """Refuses a body over `limit_bytes`, by its announced length or when it grows past it.

    It raises BodyTooLarge out of ``receive``, so that whoever reads the body fails, and the answer is in words.
    """

    def __init__(self, app: ASGIApp, limit_bytes: int = DEFAULT_BODY_BYTES) -> None:
        self.app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        too_long = announced.isdigit() and int(announced[:20]) > self._limit_bytes
        received = 0

        async def limited() -> Message:
            nonlocal received
            if too_long:
                raise BodyTooLarge
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit_bytes:
                raise BodyTooLarge
            return message

        await self.app(scope, limited, send)


class Rate:
    """So many a minute for each key, smoothly: a full allowance at first, then one as time goes by. `error` is raised
    with the seconds to wait when there is none left.

    It lives in one process and forgets the keys that rest; it slows a flood down and is no boundary of security.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        error: Callable[[float], Exception] = TooManySignIns,
        clock: Callable[[], float] = time.monotonic,
        max_keys: int = 10_000,
    ) -> None:
        self._error = error
        self._allowance = float(per_minute)
        self._seconds_each = 60.0 / per_minute
        self._clock = clock
        self._max_keys = max_keys
        # For each key the moment at which its allowance is whole again.
        self._whole_at: dict[str, float] = {}

    def take(self, key: str) -> None:
        """Use one. Raises the error when there is none left."""
        now = self._clock()
        whole_at = self._after_one_more(key, now)
        if len(self._whole_at) >= self._max_keys:
            self._forget(now)
        self._whole_at[key] = whole_at

    def check(self, key: str) -> None:
        """Use none. Raises the error when there is none left."""
        self._after_one_more(key, self._clock())

    def _after_one_more(self, key: str, now: float) -> float:
        """When the allowance would be whole again after one more."""
        whole_at = max(self._whole_at.get(key, now), now) + self._seconds_each
        wait = whole_at - now - self._allowance * self._seconds_each
        if wait > _ROUNDING:
            raise self._error(wait)
        return whole_at

    def _forget(self, now: float) -> None:
        """Forget the keys that rest; when all are busy, everybody begins anew rather than nobody being let in."""
        self._whole_at = {key: at for key, at in self._whole_at.items() if at > now}
        if len(self._whole_at) >= self._max_keys:
            self._whole_at.clear()


def rate_key(request: Request) -> str:
    """Whose allowance a request uses: its address, and for IPv6 the network that one household has."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))
