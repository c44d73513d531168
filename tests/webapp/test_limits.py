"""The outer limits: whose word counts, under which name we answer, how much is read, how often one may come."""

import ipaddress
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.webapp.asking import asking
from webapp.error_pages import EXCEPTION_HANDLERS, ServerEdge
from webapp.errors import TooManySignIns
from webapp.limits import BodyLimit, ForwardedHeaders, HostGuard, Rate, rate_key

PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32"))


async def who(request: Request) -> Response:
    return JSONResponse([request.client.host if request.client else None, request.url.scheme])


async def size(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


def behind_proxies(trusted: tuple[Any, ...] = PROXIES) -> Starlette:
    return Starlette(routes=[Route("/", who)], middleware=[Middleware(ForwardedHeaders, trusted)])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"),
        ("10.0.0.1", "203.0.113.7, unknown", "10.0.0.1"),
        ("10.0.0.1", "10.1.1.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db9::5", "2001:db9::5"),
        ("203.0.113.99", "198.51.100.1", "203.0.113.99"),
        ("a-name", "198.51.100.1", "a-name"),
    ],
)
async def test_only_trusted_proxies_speak_for_a_client(peer: str, forwarded: str, client: str) -> None:
    """The nearest address that is no proxy of ours; what a client wrote into the header itself is not believed."""
    async with asking(behind_proxies(), client=peer) as http:
        answer = await http.get("/", headers={"X-Forwarded-For": forwarded, "X-Forwarded-Proto": "https"})
    assert answer.json() == [client, "https" if peer in ("10.0.0.1", "2001:db8::1") else "http"]


async def test_without_trusted_proxies_nobody_is_believed() -> None:
    """The default: loopback is not trusted either."""
    async with asking(behind_proxies(())) as http:
        answer = await http.get("/", headers={"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"})
    assert answer.json() == ["127.0.0.1", "http"]


def named(public_url: str) -> Starlette:
    routes = [
        Route(path, lambda _: PlainTextResponse("here"), methods=["GET", "POST"])
        for path in ("/chats", "/healthz", "/local-provider/token")
    ]
    guard = Middleware(
        HostGuard, public_url, internal_url="http://127.0.0.1:8000", internal_paths=("/local-provider/",)
    )
    return Starlette(routes=routes, middleware=[guard])


@pytest.mark.parametrize(
    ("public_url", "host", "method", "path", "status"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "GET", "/chats", 200),
        ("http://127.0.0.1:8000", "localhost:8000", "POST", "/chats", 421),
        ("http://127.0.0.1:8000", "evil.example:8000", "GET", "/chats", 421),
        ("http://127.0.0.1:8000", "127.0.0.1:8000@evil.example", "GET", "/chats", 421),
        ("http://127.0.0.1:8000", "[::1", "GET", "/chats", 421),
        ("http://127.0.0.1:8000", "x:y", "GET", "/chats", 421),
        ("http://127.0.0.1:8000", "", "GET", "/chats", 421),
        ("http://127.0.0.1:8000", "10.1.2.3:8000", "GET", "/healthz", 200),
        ("https://memory.example.org", "memory.example.org", "GET", "/chats", 200),
        ("https://memory.example.org", "Memory.Example.ORG:443", "GET", "/chats", 200),
        ("https://memory.example.org", "memory.example.org:8443", "GET", "/chats", 421),
        ("https://memory.example.org", "localhost:8000", "GET", "/chats", 421),
        ("https://memory.example.org", "127.0.0.1:8000", "POST", "/local-provider/token", 200),
        ("https://memory.example.org", "127.0.0.1:8000", "GET", "/chats", 421),
    ],
)
async def test_only_the_public_name_is_answered(
    public_url: str, host: str, method: str, path: str, status: int
) -> None:
    """Another name pointed here (DNS rebinding) gets words; health checks come by address."""
    async with asking(named(public_url)) as http:
        answer = await http.request(method, path, headers={"Host": host})
    assert answer.status_code == status


async def test_another_name_of_this_computer_leads_to_the_public_address() -> None:
    """localhost in the address bar ends at the address that sign-in knows, path and query included."""
    async with asking(named("http://127.0.0.1:8000")) as http:
        answer = await http.get("/chats?x=%20y", headers={"Host": "localhost:8000"})
    assert (answer.status_code, answer.headers["location"]) == (307, "http://127.0.0.1:8000/chats?x=%20y")


def limited() -> Starlette:
    return Starlette(
        routes=[Route("/", size, methods=["POST"])],
        middleware=[Middleware(ServerEdge), Middleware(BodyLimit, 10)],
        exception_handlers=EXCEPTION_HANDLERS,
    )


async def pieces(*sizes: int) -> AsyncIterator[bytes]:
    for count in sizes:
        yield b"x" * count


async def test_a_body_at_the_limit_fits_and_one_more_byte_does_not() -> None:
    """Announced or in pieces without a length: the limit is the same, and the refusal is in words."""
    async with asking(limited()) as http:
        fits = [await http.post("/", content=b"x" * 10), await http.post("/", content=pieces(5, 5))]
        refused = [await http.post("/", content=b"x" * 11), await http.post("/", content=pieces(5, 6))]

    assert [answer.text for answer in fits] == ["10", "10"]
    assert [answer.status_code for answer in refused] == [413, 413]
    assert all("That is too much at once" in answer.text for answer in refused)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_allowance_runs_out_and_comes_back_with_time() -> None:
    """Sixty at once, then one a second; somebody else is not held up."""
    clock = Clock()
    rate = Rate(60, clock=clock)
    for _ in range(60):
        rate.take("a")
    with pytest.raises(TooManySignIns) as caught:
        rate.take("a")
    assert caught.value.retry_after_seconds == pytest.approx(1)
    rate.take("b")
    clock.now = 1.0
    rate.take("a")
    with pytest.raises(TooManySignIns):
        rate.take("a")


def test_the_memory_of_the_rate_is_bounded() -> None:
    """Keys that rest are forgotten; when all are busy, they begin anew."""
    clock = Clock()
    rate = Rate(1, clock=clock, max_keys=3)
    for key in "abc":
        rate.take(key)
    rate.take("d")
    rate.take("a")
    clock.now = 1000.0
    for key in "xyz":
        rate.take(key)
    assert len(rate._whole_at) <= 3


@pytest.mark.parametrize(
    ("host", "key"), [("203.0.113.7", "203.0.113.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("box", "box")]
)
def test_one_household_is_one_key(host: str, key: str) -> None:
    """An IPv6 network counts as one, or its many addresses would be many allowances."""
    assert rate_key(Request({"type": "http", "client": (host, 1), "headers": []})) == key
