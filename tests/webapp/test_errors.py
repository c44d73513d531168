"""Every error of the program has words for a person, in the form that whoever asked can read."""

import importlib
import logging
import pkgutil
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

import agent
import memory_core
import webapp
from agent.errors import AgentError, ConversationNotFound, MessageRefused, ModelBusy, ModelFault, TurnNotFound
from memory_core.errors import MemoryCoreError, OperationRefused, RefusalCode, StorageFailed
from tests.webapp.asking import asking, http_scope, receive_of
from webapp.error_pages import EXCEPTION_HANDLERS, ServerEdge, words_for
from webapp.error_words import HTTP_WORDS, UNEXPECTED, WORDS
from webapp.errors import NotFound, RequestRefused, SignInFailed, SignInNeeded, TooManySignIns, WebError
from webapp.headers import ResponseHeaders

SENTINEL = "zebra-quince-4711"


def all_errors() -> list[type[Exception]]:
    """Every error class of the three layers, wherever it is defined, without the three roots."""
    for package in (memory_core, agent, webapp):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".versions." not in module.name and not module.name.endswith((".env", ".__main__")):
                importlib.import_module(module.name)
    ours = {package.__name__ for package in (memory_core, agent, webapp)}  # and not what another test made up
    found = (kind for root in (MemoryCoreError, AgentError, WebError) for kind in below(root))
    return [kind for kind in found if kind.__module__.split(".")[0] in ours]


def below(root: type[Exception]) -> Iterator[type[Exception]]:
    for kind in root.__subclasses__():
        yield kind
        yield from below(kind)


def has_words(kind: type[Exception]) -> bool:
    """Whether the class, or an ancestor nearer than the roots, stands in the table."""
    return any(ancestor in WORDS for ancestor in kind.__mro__)


# They end a command of the command line, which has words of its own; no request ever meets them.
OF_COMMANDS = {"MigrationRefused", "ProbeFailed"}


def test_every_error_class_has_words() -> None:
    """Each class of the three layers has an entry of its own or inherits one; only two classes group others."""
    grouping = {RequestRefused, SignInFailed}
    unmapped = {kind for kind in all_errors() if not has_words(kind) and kind not in grouping}
    assert {kind.__name__ for kind in unmapped} == OF_COMMANDS


def test_an_error_class_without_words_would_be_noticed() -> None:
    """The walk bites: a new class that nobody mapped has no words."""

    class Unmapped(WebError):
        """Nobody thought of it."""

    assert not has_words(Unmapped)
    assert words_for(Unmapped()) is UNEXPECTED


@pytest.mark.parametrize("words", [*WORDS.values(), *HTTP_WORDS.values(), UNEXPECTED], ids=lambda words: words.code)
def test_words_are_sentences_with_a_way_on(words: object) -> None:
    """A status of an error, a code, a title without a full stop, sentences, and somewhere to go."""
    assert isinstance(words, type(UNEXPECTED))
    assert 400 <= words.status <= 599
    assert words.code.replace("_", "").isalpha()
    assert not words.title.endswith(".")
    assert words.text.endswith(".")
    assert words.action[1].startswith("/")
    assert (words.retry_after_seconds is not None) == (words.status in (429, 503))


@pytest.mark.parametrize("code", list(RefusalCode))
def test_a_refused_operation_says_which_rule_in_its_own_words(code: RefusalCode) -> None:
    """Every refusal code of memory has a sentence."""
    words = words_for(OperationRefused(code))
    assert (words.status, words.code) == (422, code.value)
    assert words.text != WORDS[OperationRefused].text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MessageRefused("empty"), "nothing in it"),
        (MessageRefused("control"), "control characters"),
        (MessageRefused("too_long", 32000, 32001), "32,001 characters, and at most 32,000"),
    ],
)
def test_a_refused_message_says_why(error: MessageRefused, said: str) -> None:
    """Each reason has its sentence, with the numbers where there are any."""
    assert said in words_for(error).text


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ModelBusy(ModelFault.BUSY, retry_after_seconds=17.6), 18),
        (ModelBusy(ModelFault.BUSY, retry_after_seconds=0), 1),
        (ModelBusy(ModelFault.BUSY), 20),
        (TooManySignIns(2.4), 2),
    ],
)
def test_the_wait_is_the_one_the_error_knows(error: Exception, seconds: int) -> None:
    """Retry-After is what the other side said, and at least a second."""
    assert words_for(error).retry_after_seconds == seconds


async def fail(request: Request) -> Response:
    raise ERRORS[request.path_params["name"]]


async def half(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    raise RuntimeError(SENTINEL)


async def gone(_: Request) -> Response:
    raise ClientDisconnect


ERRORS: dict[str, Exception] = {
    "missing": NotFound(),
    "theirs": ConversationNotFound(),
    "turn": TurnNotFound(),
    "needed": SignInNeeded(),
    "storage": StorageFailed("57014"),
    "teapot": HTTPException(418, headers={"X-Brew": "tea"}),
    "bug": RuntimeError(SENTINEL),
}
SITE = ResponseHeaders(
    Starlette(
        routes=[
            Route("/fail/{name}", fail, methods=["GET", "POST"]),
            Route("/v1/fail/{name}", fail),
            Route("/chats/{name}", fail),
            Route("/half", half),
            Route("/gone", gone),
            Route("/well", lambda _: PlainTextResponse("well")),
        ],
        middleware=[Middleware(ServerEdge)],
        exception_handlers=EXCEPTION_HANDLERS,
    ),
    uses_https=False,
)


async def test_a_person_gets_a_page_in_words_with_the_number_of_the_request() -> None:
    """A whole page: what happened, where to go, and the number to quote."""
    async with asking(SITE) as client:
        answer = await client.get("/fail/missing", headers={"Accept": "text/html"})

    assert answer.status_code == 404
    assert "There is nothing at this address" in answer.text
    assert f"Request {answer.headers['x-request-id']}" in answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_an_address_that_does_not_exist_looks_like_one_that_is_somebody_elses() -> None:
    """The two cannot be told apart, but for the number of the request."""
    async with asking(SITE) as client:
        nowhere, hidden = await client.get("/nowhere"), await client.get("/fail/missing")
    pages = [answer.text.replace(answer.headers["x-request-id"], "") for answer in (nowhere, hidden)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("path", ["/fail/missing", "/nowhere", "/chats/missing", "/chats/a/b/c"])
async def test_what_is_said_of_a_missing_page_fits_every_page(path: str) -> None:
    """One sentence for all of them: it speaks of no chat, and says neither that a thing exists nor that it does not."""
    async with asking(SITE) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert "It may have been deleted, the address may be mistyped, or it is not yours to see." in answer.text


async def test_htmx_gets_a_partial_with_the_same_words() -> None:
    """The notice, not a whole page inside the page."""
    async with asking(SITE) as client:
        answer = await client.get("/fail/missing", headers={"HX-Request": "true"})

    assert answer.status_code == 404
    assert answer.text.startswith('<div class="notice')
    assert "There is nothing at this address." in answer.text


@pytest.mark.parametrize(("path", "accept"), [("/fail/storage", "application/json"), ("/v1/fail/storage", "*/*")])
async def test_a_program_gets_json(path: str, accept: str) -> None:
    """Code, message, the number of the request, and when to come back."""
    async with asking(SITE) as client:
        answer = await client.get(path, headers={"Accept": accept})

    error = answer.json()["error"]
    assert answer.status_code == 503
    assert (error["code"], error["requestId"]) == ("storage", answer.headers["x-request-id"])
    assert int(answer.headers["retry-after"]) > 0


async def test_a_page_that_needs_a_person_leads_to_the_sign_in_and_back() -> None:
    """303 with the address the person wanted."""
    async with asking(SITE) as client:
        answer = await client.get("/fail/needed?edit=1&x=a%20b")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=/fail/needed%3Fedit%3D1%26x%3Da%2520b"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("GET", {"HX-Request": "true"}),
        ("POST", {"HX-Request": "true"}),
        ("GET", {"Accept": "application/json"}),
    ],
)
async def test_anything_else_that_needs_a_person_is_a_401_in_words(method: str, headers: dict[str, str]) -> None:
    """No redirect: the page the person sees stays, and what they wrote with it."""
    async with asking(SITE) as client:
        answer = await client.request(method, "/fail/needed", headers=headers)

    assert answer.status_code == 401
    assert "You have been signed out" in answer.text


async def test_the_way_to_the_sign_in_comes_back_to_the_page_in_sight() -> None:
    """After a form: the page that held it, if it was ours."""
    async with asking(SITE) as client:
        ours = await client.post("/fail/needed", headers={"Referer": "http://127.0.0.1:8000/chats/cht_1"})
        evil = await client.post("/fail/needed", headers={"Referer": "http://evil.example//evil.example/x"})

    assert 'href="/sign-in?next=/chats/cht_1"' in ours.text
    assert 'href="/sign-in"' in evil.text


@pytest.mark.parametrize("headers", [{"Accept": "text/html"}, {"HX-Request": "true"}, {"Accept": "application/json"}])
async def test_an_error_nobody_named_shows_nothing_of_itself(
    headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The person gets words and a number; the log gets the number, the class and the place; its text goes nowhere."""
    caplog.set_level(logging.DEBUG)
    async with asking(SITE) as client:
        answer = await client.get("/fail/bug", headers=headers)

    logged = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] in answer.text
    assert SENTINEL not in answer.text + logged
    assert "Traceback" not in answer.text + logged
    assert answer.headers["x-request-id"] in logged
    assert "RuntimeError" in logged


async def test_an_answer_that_had_begun_is_left_unfinished() -> None:
    """No second answer is put behind the first; the server closes the connection."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await SITE(http_scope(path="/half"), receive_of(), send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def test_a_client_that_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is there to read a page, and there is nothing to note."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await SITE(http_scope(path="/gone"), receive_of(), send)
    assert sent == []
    assert caplog.records == []


async def test_a_status_that_starlette_raises_keeps_its_headers() -> None:
    """405 says which methods are allowed, and any other status gets words too."""
    async with asking(SITE) as client:
        teapot, method = await client.get("/fail/teapot"), await client.post("/well")

    assert (teapot.status_code, teapot.headers["x-brew"]) == (418, "tea")
    assert (method.status_code, set(method.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert "does not take that kind of request" in method.text
