"""Clients that go away, people who stop or sign out, and messages that cannot be sent."""

import secrets
import socket
import threading
from contextlib import ExitStack
from urllib.parse import urlencode

import pytest
from sqlalchemy import text as sql

from tests.fakes.model_server import ModelServer, Step, finish, gate, text, tool
from tests.webapp.product import Product, Signed
from tests.webapp.waiting import until

ADD_TEA = {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}


def open_message(person: Signed, message: str, key: str, *, script: bool) -> socket.socket:
    """Send a message over a socket of its own, so that the test can leave as abruptly as it likes."""
    host, port = person.url.removeprefix("http://").split(":")
    body = urlencode({"csrf_token": person.csrf_token, "message": message, "key": key}).encode()
    cookies = "; ".join(f"{name}={value}" for name, value in person.cookies().items())
    head = (
        f"POST /chats HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {person.url}\r\nCookie: {cookies}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
        f"{'HX-Request: true' if script else 'Accept: text/html'}\r\n\r\n"
    )
    line = socket.create_connection((host, int(port)), timeout=20)
    line.sendall(head.encode() + body)
    return line


def turns(product: Product) -> list[tuple[str, str]]:
    with product.services.engine.begin() as connection:
        found = connection.execute(sql("SELECT outcome, memory_outcome FROM remembrancer.turns ORDER BY started_at"))
        return [(row.outcome, row.memory_outcome) for row in found]


def play_staging(model: ModelServer, *then: Step) -> None:
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(*then)


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_client_that_goes_in_mid_answer_ends_its_turn(product: Product, model: ModelServer, script: bool) -> None:
    """The turn is interrupted, the model's connection is closed, nothing is saved; streamed or not."""
    ada = product.sign_in("ada")
    play_staging(model, text("It is half "), gate(threading.Event()))
    line = open_message(ada, "I like green tea", "k", script=script)
    model.wait_reached(requests=2)
    line.close()
    model.wait_reached(aborted=1, open=0)
    until(lambda: turns(product) == [("interrupted", "discarded")])
    assert "Likes green tea." not in ada.memory_page()


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_client_that_goes_before_the_first_byte_ends_its_turn(
    product: Product, model: ModelServer, script: bool
) -> None:
    """Sent and gone at once: either nothing began, or what began is interrupted; no turn is left running."""
    ada = product.sign_in("ada")
    for _ in range(3):
        model.play(gate(threading.Event()))
        open_message(ada, "I like green tea", secrets.token_hex(8), script=script).close()
    until(lambda: product.services.running.ids == () and ("running", "none") not in turns(product))
    assert {outcome for outcome, _ in turns(product)} <= {"interrupted"}
    model.wait_reached(open=0)


@pytest.mark.invariant("I15")
def test_signing_out_stops_what_the_session_runs(product: Product, model: ModelServer) -> None:
    """Sign-out in one tab ends the answer in the other: stopped, and nothing saved."""
    ada = product.sign_in("ada")
    play_staging(model, text("It is half "), gate(threading.Event()))
    line = open_message(ada, "I like green tea", "k", script=True)
    model.wait_reached(requests=2)
    ada.post_form("/sign-out", {})
    model.wait_reached(open=0)
    until(lambda: turns(product) == [("stopped", "discarded")])
    line.close()


@pytest.mark.invariant("I15")
def test_signing_out_while_a_message_waits_to_begin_leaves_nothing_running(
    product: Product, model: ModelServer
) -> None:
    """The message was let in, then its session ended, then it came to the database: it begins nothing any more."""
    ada = product.sign_in("ada")
    model.play(text("Hello."), finish("stop"))
    assert ada.say("Hello").ended["outcome"] == "completed"
    model.play(gate(threading.Event()))
    waiting = sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    with ExitStack() as leaving:
        with product.services.engine.begin() as holds:
            holds.execute(sql("SELECT 1 FROM remembrancer.owners FOR UPDATE"))
            line = leaving.enter_context(open_message(ada, "Are you there?", "k", script=True))
            until(lambda: bool(holds.execute(waiting).scalar()))
            assert "You have signed out" in ada.post_form("/sign-out", {}).text
        assert line.recv(12) == b"HTTP/1.1 401"
    assert [outcome for outcome, _ in turns(product)] == ["completed"]


@pytest.mark.invariant("I26")
def test_stopping_is_for_ones_own_answers(product: Product, model: ModelServer) -> None:
    """Another person's key, and one that nobody used, are not found; the answer goes on."""
    ada, eve = product.sign_in("ada"), product.sign_in("eve")
    written = threading.Event()
    model.play(gate(written), text("Whole."), finish("stop"))
    line = open_message(ada, "Hello", "k", script=True)
    model.wait_reached(open=1)
    for key in ("k", "other"):
        assert eve.post_form("/chats/cancellations", {"key": key}).status_code == 404
    written.set()
    until(lambda: turns(product) == [("completed", "none")])
    line.close()


@pytest.mark.parametrize(
    ("message", "says"),
    [("", "Write something first."), ("a\0b", "remove them first"), ("x" * 32_001, "32,001 characters")],
)
def test_a_message_that_cannot_be_sent_is_answered_in_words(product: Product, message: str, says: str) -> None:
    """422 and the reason; without script the page comes back with what was written."""
    ada = product.sign_in("ada")
    script = ada.post_form("/chats", {"message": message, "key": "k"})
    assert script.status_code == 422
    assert says in script.text
    plain = ada.post_form("/chats", {"message": message, "key": "k"}, script=False)
    assert plain.status_code == 422
    assert says in plain.text
    assert turns(product) == []


def test_a_second_message_while_one_is_answered_is_refused_in_words(product: Product, model: ModelServer) -> None:
    """409, in words, and what was written is kept; a fourth answer at once is too many for one person."""
    ada = product.sign_in("ada")
    lines = []
    for number in range(3):
        model.play(gate(threading.Event()))
        lines.append(open_message(ada, "Hello", f"k{number}", script=True))
        model.wait_reached(open=number + 1)
    with product.services.engine.begin() as connection:
        chat = connection.execute(sql("SELECT conversation_id FROM remembrancer.turns LIMIT 1")).scalar()
    second = ada.post_form(f"/chats/{chat}/turns", {"message": "And?", "key": "more"}, script=False)
    assert second.status_code == 409
    assert ">And?</textarea>" in second.text
    fourth = ada.post_form("/chats", {"message": "And?", "key": "many"})
    assert fourth.status_code == 429
    for line in lines:
        line.close()
    until(lambda: product.services.running.ids == ())


def test_a_page_that_was_left_behind_does_not_take_away_what_was_said_since(
    product: Product, model: ModelServer
) -> None:
    """Two tabs: one goes on, the other still offers to write the answer before again. Refused, and nothing is lost."""
    ada = product.sign_in("ada")
    for said in ("One.", "Two.", "Two again."):
        model.play(text(said), finish("stop"))
    first = ada.say("First?")
    chat = first.started["conversationId"]
    second = ada.say("Second?", chat)
    stale = ada.say("", chat, regenerates=first.started["turnId"])
    assert stale.status == 409
    assert "More was said in this chat since" in stale.body
    page = ada.get(f"/chats/{chat}").text
    assert "Second?" in page
    assert "Two." in page
    assert ada.say("", chat, regenerates=second.started["turnId"]).ended["outcome"] == "completed"
