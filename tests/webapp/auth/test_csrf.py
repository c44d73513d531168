"""No request changes anything unless one of our own pages sent it for its own person."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from memory_core.errors import StorageFailed
from tests.webapp.asking import PUBLIC_URL, asking, http_scope, receive_of
from webapp.auth.cookies import make_cookie
from webapp.auth.csrf import CsrfGuard
from webapp.auth.person import require_person
from webapp.auth.sessions import Session
from webapp.error_pages import EXCEPTION_HANDLERS
from webapp.limits import BodyLimit

TOKEN = "a-token-of-this-session"
COOKIE = {"Cookie": "remembrancer-8000=live"}
FROM_US = {"Origin": PUBLIC_URL}
WHOLE = {**COOKIE, **FROM_US}


class OneSession:
    """Knows the cookie ``live`` and no other."""

    looked_up = 0

    async def find(self, cookie: str) -> Session | None:
        self.looked_up += 1
        if cookie == "broken":
            raise StorageFailed
        return Session("digest", "ada", None, TOKEN) if cookie == "live" else None


@dataclass
class Services:
    session_cookie: object = field(default_factory=lambda: make_cookie(PUBLIC_URL, "", 60))
    sessions: OneSession = field(default_factory=OneSession)
    settings: object = field(default_factory=lambda: SimpleNamespace(operators=()))


async def note(request: Request) -> Response:
    person = await require_person(request)
    form = await request.form()
    return PlainTextResponse(f"{person.subject}: {form.get('words')}")


def site() -> Starlette:
    app = Starlette(
        routes=[
            Route("/notes", note, methods=["GET", "POST", "PUT", "DELETE"]),
            Route("/open/call", lambda _: PlainTextResponse("open"), methods=["POST"]),
        ],
        middleware=[Middleware(BodyLimit, 1000), Middleware(CsrfGuard, PUBLIC_URL, exempt=("/open/",))],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.state.auth = Services()
    return app


async def post(headers: dict[str, str], data: dict[str, str] | None = None) -> tuple[int, str]:
    async with asking(site()) as client:
        answer = await client.post("/notes", headers=headers, data=data)
    return answer.status_code, answer.text


async def test_our_own_form_goes_through_with_its_body() -> None:
    """Origin and token in order: the route reads the whole form."""
    assert await post(WHOLE, {"csrf_token": TOKEN, "words": "héllo & more"}) == (200, "ada: héllo & more")


async def test_the_token_may_come_in_a_header() -> None:
    """Script sends it so."""
    assert await post({**WHOLE, "X-CSRF-Token": TOKEN}, {"words": "x"}) == (200, "ada: x")


async def test_a_form_with_a_file_goes_through_too() -> None:
    """multipart/form-data is a form like the other."""
    async with asking(site()) as client:
        answer = await client.post("/notes", headers=WHOLE, files={"csrf_token": (None, TOKEN), "words": (None, "x")})
    assert answer.text == "ada: x"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "MADEUP"])
async def test_every_unsafe_method_needs_the_token(method: str) -> None:
    """Whatever does not merely read."""
    async with asking(site()) as client:
        answer = await client.request(method, "/notes", headers=WHOLE)
    assert answer.status_code == 403
    assert "out of date" in answer.text


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        (WHOLE, {"words": "x"}),
        (WHOLE, {"csrf_token": ""}),
        (WHOLE, {"csrf_token": TOKEN + "x"}),
        (WHOLE, {"csrf_token": TOKEN.upper()}),
        (WHOLE, {"CSRF_TOKEN": TOKEN}),
        ({**WHOLE, "X-CSRF-Token": "wrong"}, {"csrf_token": TOKEN}),
        (WHOLE, {"csrf_token": "tökén"}),
    ],
)
async def test_a_missing_or_wrong_token_changes_nothing(headers: dict[str, str], data: dict[str, str]) -> None:
    """403 in words; the route was never reached."""
    status, text = await post(headers, data)
    assert status == 403
    assert "ada:" not in text


async def test_two_tokens_are_no_token() -> None:
    """A form that says two things is not ours."""
    async with asking(site()) as client:
        body = f"csrf_token={TOKEN}&csrf_token={TOKEN}"
        headers = {**WHOLE, "Content-Type": "application/x-www-form-urlencoded"}
        assert (await client.post("/notes", headers=headers, content=body)).status_code == 403


async def test_a_token_in_json_or_in_the_address_does_not_count() -> None:
    """Only the field of a form and the header do."""
    async with asking(site()) as client:
        in_json = await client.post("/notes", headers=WHOLE, json={"csrf_token": TOKEN})
        in_query = await client.post(f"/notes?csrf_token={TOKEN}", headers=WHOLE)
    assert (in_json.status_code, in_query.status_code) == (403, 403)


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:8001"},
        {"Origin": "https://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:8000.evil.example"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Referer": f"{PUBLIC_URL}/chats"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Referer": f"{PUBLIC_URL}/chats"},
        {"Referer": "http://evil.example/http://127.0.0.1:8000/"},
        {"Referer": "http://127.0.0.1:8000.evil.example/"},
        {},
    ],
)
async def test_a_request_from_elsewhere_changes_nothing_even_with_the_token(said: dict[str, str]) -> None:
    """The browser's own word decides, the first of Origin, Sec-Fetch-Site and Referer; silence is refused too."""
    status, text = await post({**COOKIE, **said}, {"csrf_token": TOKEN, "words": "x"})
    assert status == 403
    assert "came from somewhere else" in text


@pytest.mark.parametrize("said", [{"Sec-Fetch-Site": "same-origin"}, {"Referer": f"{PUBLIC_URL}/chats"}])
async def test_a_browser_without_an_origin_header_can_still_say_where_it_comes_from(said: dict[str, str]) -> None:
    """Older browsers leave Origin out of same-origin posts."""
    assert (await post({**COOKIE, **said}, {"csrf_token": TOKEN, "words": "x"}))[0] == 200


async def test_an_ended_session_is_told_so_and_not_that_its_page_is_out_of_date() -> None:
    """401 in words: the page's script keeps what was written."""
    async with asking(site()) as client:
        headers = {"Cookie": "remembrancer-8000=over", **FROM_US, "HX-Request": "true"}
        answer = await client.post("/notes", headers=headers, data={"csrf_token": TOKEN, "words": "x"})
    assert answer.status_code == 401
    assert answer.text.startswith('<div class="notice')


async def test_a_database_that_does_not_answer_is_said_in_words() -> None:
    """503, and nothing was changed."""
    status, text = await post({"Cookie": "remembrancer-8000=broken", **FROM_US}, {"csrf_token": TOKEN})
    assert status == 503
    assert "Nothing was changed" in text


async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole() -> None:
    """The guard reads the form only within the body's limit."""
    assert (await post(WHOLE, {"words": "x" * 2000}))[0] == 413


async def test_reading_needs_no_token_and_other_doors_are_left_alone() -> None:
    """GET goes through; so does a path that knows no cookies."""
    async with asking(site()) as client:
        assert (await client.get("/notes", headers=COOKIE)).status_code == 200
        assert (await client.post("/open/call", headers={"Origin": "http://evil.example"})).text == "open"


async def test_the_session_is_looked_up_once_a_request() -> None:
    """The guard and the route share what was found."""
    app = site()
    async with asking(app) as client:
        await client.post("/notes", headers=WHOLE, data={"csrf_token": TOKEN})
    assert app.state.auth.sessions.looked_up == 1


async def test_after_the_body_the_route_still_hears_that_the_client_left() -> None:
    """The guard gives the body back once, and what comes after it is the connection's own."""
    heard: list[str] = []

    async def listen(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([(await receive())["type"], (await receive())["type"]])

    body = f"csrf_token={TOKEN}".encode()
    headers = {**WHOLE, "Content-Type": "application/x-www-form-urlencoded"}
    messages = [
        {"type": "http.request", "body": body[:5], "more_body": True},
        {"type": "http.request", "body": body[5:], "more_body": False},
    ]
    app = Starlette()
    app.state.auth = Services()

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await CsrfGuard(listen, PUBLIC_URL)(http_scope("POST", headers=headers, app=app), receive_of(*messages), send)
    assert heard == ["http.request", "http.disconnect"]
