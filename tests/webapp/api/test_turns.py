"""Messages over HTTP: streams, JSON, keys that name a turn, callers who go away, keys that are revoked."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text as sql

from agent.discard import stop_api_key
from agent.outcome import Outcome
from memory_core.database.transaction import transaction
from tests.fakes.model_server import Gate, ModelServer, Step, error_status, finish, gate, text, tool
from tests.webapp.api.calling import Caller, caller
from tests.webapp.api.test_memory import talk_in_background
from tests.webapp.product import Product
from tests.webapp.waiting import until
from webapp.auth.api_keys import revoke_key

ADD_TEA = {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}


def turns(product: Product) -> list[tuple[str, str]]:
    with product.services.engine.begin() as connection:
        found = connection.execute(sql("SELECT outcome, memory_outcome FROM remembrancer.turns ORDER BY started_at"))
        return [(row.outcome, row.memory_outcome) for row in found]


def play_staging(model: ModelServer, *then: Step) -> None:
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(*then)


def test_a_stream_tells_of_the_turn_in_order(product: Product, model: ModelServer) -> None:
    """Started, the tool, what is staged (counts, no words), the text, and the end with the receipt; numbered from 1."""
    me = caller(product)
    session = me.open_session("ada")
    play_staging(model, text("Noted", "."), finish("stop"))
    told = me.stream(session, "I like green tea")
    names = [name for name, _ in told if name != "message.delta"]
    assert names == ["turn.started", "tool.started", "memory.staged", "turn.ended"]
    assert [data["sequence"] for _, data in told] == list(range(1, len(told) + 1))
    assert len({data["turnId"] for _, data in told}) == 1
    by_name = dict(told)
    assert by_name["turn.started"]["sessionId"] == session
    assert by_name["tool.started"]["tool"] == "memory_update"
    staged, ended = by_name["memory.staged"], by_name["turn.ended"]
    assert (staged["operationCount"], staged["targets"]) == (1, {"user": 1, "memory": 0})
    assert "green tea" not in json.dumps([data for name, data in told if name != "message.delta"])
    assert "".join(data["text"] for name, data in told if name == "message.delta") == "Noted."
    assert (ended["outcome"], ended["finishReason"], ended["memory"]["outcome"]) == ("completed", "stop", "committed")
    assert ended["memory"]["targets"] == {"user": 1, "memory": 0}
    assert ended["memory"]["userCharacters"] == len("Likes green tea.")
    assert ended["memory"]["undoUntil"].endswith("Z")
    assert me.ok("GET", me.memory_path("ada"))["stores"][0]["entries"] == ["Likes green tea."]


def test_json_is_the_data_of_the_end_and_the_text(product: Product, model: ModelServer) -> None:
    """The same keys as `turn.ended`, and `text`; the turn read afterwards says the same."""
    me = caller(product)
    session = me.open_session("ada")
    play_staging(model, text("Noted."), finish("stop"))
    [*_, (_, ended)] = me.stream(session, "I like green tea")
    model.play(text("Hello", "."), finish("stop"))
    told = me.say(session, "Hello")
    assert set(told) == {*ended, "text"}
    assert (told["outcome"], told["text"], told["memory"]["outcome"]) == ("completed", "Hello.", "none")
    turn = me.ok("GET", f"/v1/turns/{told['turnId']}")
    assert {key: turn[key] for key in told if key in turn} == {key: told[key] for key in told if key in turn}
    assert (turn["id"], turn["sessionId"]) == (told["turnId"], session)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ((error_status(500),), "model_unreachable"),
        ((text("Half"), finish("length")), "too_long"),
        ((text("Half"),), "cut_off"),
    ],
)
def test_a_turn_that_fails_says_so_in_both_forms(
    product: Product, model: ModelServer, script: tuple[Step, ...], reason: str
) -> None:
    """As a stream `error` comes before the end; JSON is a 200 with the outcome *failed*."""
    me = caller(product)
    session = me.open_session("ada")
    model.choose = lambda request: script
    told = me.stream(session, "Hello")
    assert [name for name, _ in told][-2:] == ["error", "turn.ended"]
    assert (told[-2][1]["code"], told[-1][1]["outcome"]) == (reason, "failed")
    answer = me.say(session, "Hello")
    assert answer["outcome"] == "failed"
    assert me.ok("GET", f"/v1/turns/{answer['turnId']}")["reason"] == reason


@pytest.mark.parametrize("content", ["", "  ", "a\0b", "\ud800", "x" * 32_001, None, 7])
def test_a_message_that_cannot_be_sent_is_refused(product: Product, content: Any) -> None:
    """422, and no turn began."""
    me = caller(product)
    session = me.open_session("ada")
    answer = me.call("POST", f"/v1/sessions/{session}/messages", {"content": content})
    assert (answer.status_code, turns(product)) == (422, [])


def test_a_second_message_meanwhile_is_refused(product: Product, model: ModelServer) -> None:
    """409 in the same session; a fourth at once for one subject is 429 with Retry-After."""
    me = caller(product)
    sessions = [me.open_session("ada") for _ in range(4)]
    for number, session in enumerate(sessions[:3]):
        model.play(gate(Gate()))
        talk_in_background(me, session)
        model.wait_reached(open=number + 1)
    again = me.call("POST", f"/v1/sessions/{sessions[0]}/messages", {"content": "And?"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "turn_in_progress")
    crowd = me.call("POST", f"/v1/sessions/{sessions[3]}/messages", {"content": "And?"})
    assert (crowd.status_code, crowd.json()["error"]["code"]) == (429, "too_many_turns")
    assert int(crowd.headers["retry-after"]) > 0
    for session in sessions:
        me.ok("POST", f"/v1/sessions/{session}/cancel")


@pytest.mark.invariant("I24")
def test_the_same_key_ten_times_at_once_runs_the_model_once(product: Product, model: ModelServer) -> None:
    """One answers; the others are told that it runs, or its outcome if they come late."""
    me = caller(product)
    session = me.open_session("ada")
    go_on = Gate()
    model.play(text("Hello."), gate(go_on), finish("stop"))
    path, headers = f"/v1/sessions/{session}/messages", {"idempotency-key": "once"}
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(me.call, "POST", path, {"content": "Hello"}, headers) for _ in range(10)]
        until(lambda: sum(each.done() for each in asked) == 9)
        go_on.open()
    answers = [each.result() for each in asked]
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409} == {"turn_in_progress"}
    [first] = [answer.json() for answer in answers if answer.status_code == 200]
    assert me.say(session, "Hello", "once") == {**first, "sequence": 3}
    assert model.counters.requests == 1
    assert turns(product) == [("completed", "none")]


@pytest.mark.invariant("I24")
@pytest.mark.parametrize(
    "script", [(text("Half"), finish("length")), (error_status(500),), (text("Hello."), finish("stop"))]
)
def test_a_key_is_told_its_outcome_again(product: Product, model: ModelServer, script: tuple[Step, ...]) -> None:
    """Also a failed one; as JSON, or as a stream of three events; the model is not asked again."""
    me = caller(product)
    session = me.open_session("ada")
    model.play(*script)
    first = me.say(session, "Hello", "k")
    asked = model.counters.requests
    assert me.say(session, "Hello", "k") == {**first, "sequence": 3}
    (started, delta, ended) = me.stream(session, "Hello", "k")
    assert (started[0], delta[0], ended[0]) == ("turn.started", "message.delta", "turn.ended")
    assert delta[1]["text"] == first["text"]
    assert ended[1] == {**{key: value for key, value in first.items() if key != "text"}, "sequence": 3}
    assert model.counters.requests == asked


@pytest.mark.invariant("I24")
def test_a_stopped_turn_is_told_again_as_stopped(product: Product, model: ModelServer) -> None:
    """The key of a cancelled message never runs it a second time."""
    me = caller(product)
    session = me.open_session("ada")
    model.play(text("It is half "), gate(Gate()))
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(me.say(session, "Hello", "k")))
    thread.start()
    model.wait_reached(open=1)
    until(lambda: me.ok("POST", f"/v1/sessions/{session}/cancel")["cancelled"])
    thread.join(20)
    assert answers[0]["outcome"] == "stopped"
    assert me.say(session, "Hello", "k") == {**answers[0], "sequence": 3}
    assert model.counters.requests == 1


def test_a_key_belongs_to_one_body_and_one_session(product: Product, model: ModelServer) -> None:
    """Another body with it is 422; in another session, also the same subject's, it is another key."""
    me = caller(product)
    first, second = me.open_session("ada"), me.open_session("ada")
    model.choose = lambda request: (text("Hello."), finish("stop"))
    one = me.say(first, "Hello", "k")
    other = me.call("POST", f"/v1/sessions/{first}/messages", {"content": "Bye"}, {"idempotency-key": "k"})
    assert (other.status_code, other.json()["error"]["code"]) == (422, "key_reused")
    assert me.say(second, "Hello", "k")["turnId"] != one["turnId"]
    for wrong in ("", "x" * 256, "a\tb"):
        answer = me.call("POST", f"/v1/sessions/{first}/messages", {"content": "Hello"}, {"idempotency-key": wrong})
        assert answer.status_code == 422


def test_a_key_is_free_again_after_a_day(product: Product, model: ModelServer) -> None:
    """For 24 hours it is the same turn, and then a new one."""
    me = caller(product)
    session = me.open_session("ada")
    model.choose = lambda request: (text("Hello."), finish("stop"))
    first = me.say(session, "Hello", "k")
    age(product, "23 hours 59 minutes")
    assert me.say(session, "Hello", "k")["turnId"] == first["turnId"]
    age(product, "2 minutes")
    assert me.say(session, "Hello", "k")["turnId"] != first["turnId"]


def age(product: Product, by: str) -> None:
    with product.services.engine.begin() as connection:
        connection.execute(sql(f"UPDATE remembrancer.turns SET started_at = started_at - interval '{by}'"))


def test_only_digests_of_the_key_are_kept(product: Product, model: ModelServer) -> None:
    """No table holds it."""
    me = caller(product)
    model.play(text("Hello."), finish("stop"))
    me.say(me.open_session("ada"), "Hello", "quince-zebra-4711")
    with product.services.engine.begin() as connection:
        rows = connection.execute(sql("SELECT turns::text FROM remembrancer.turns")).scalars().all()
    assert rows
    assert "quince" not in "".join(rows)


def open_call(me: Caller, session: str, accept: str) -> socket.socket:
    """Send a message over a socket of its own, so that the test can leave as abruptly as it likes."""
    host, port = me.product.url.removeprefix("http://").split(":")
    body = json.dumps({"content": "I like green tea"}).encode()
    head = (
        f"POST /v1/sessions/{session}/messages HTTP/1.1\r\nHost: {host}:{port}\r\nX-Api-Key: {me.key}\r\n"
        f"Accept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    line = socket.create_connection((host, int(port)), timeout=20)
    line.sendall(head.encode() + body)
    return line


ACCEPTS = pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])


@pytest.mark.invariant("I13")
@ACCEPTS
def test_a_caller_who_goes_ends_the_turn(product: Product, model: ModelServer, accept: str) -> None:
    """Interrupted, the model's connection closed, nothing saved; streamed or not."""
    me = caller(product)
    play_staging(model, text("It is half "), gate(threading.Event()))
    line = open_call(me, me.open_session("ada"), accept)
    model.wait_reached(requests=2)
    line.close()
    model.wait_reached(aborted=1, open=0)
    until(lambda: turns(product) == [("interrupted", "discarded")])
    assert me.ok("GET", me.memory_path("ada"))["stores"][0]["entries"] == []


@pytest.mark.invariant("I13")
@ACCEPTS
def test_a_caller_who_goes_at_once_leaves_nothing_running(product: Product, model: ModelServer, accept: str) -> None:
    """Sent and gone before the first byte: nothing began, or what began is interrupted."""
    me = caller(product)
    for _ in range(3):
        model.play(gate(threading.Event()))
        open_call(me, me.open_session("ada"), accept).close()
    until(lambda: product.services.running.ids == () and ("running", "none") not in turns(product))
    assert {outcome for outcome, _ in turns(product)} <= {"interrupted"}
    model.wait_reached(open=0)


@pytest.mark.invariant("I15")
def test_a_revoked_key_ends_what_it_runs_and_begins_nothing_more(product: Product, model: ModelServer) -> None:
    """Whoever revokes calls `stop_api_key`: stopped, nothing saved; the next call is a 401."""
    me = caller(product)
    session = me.open_session("ada")
    play_staging(model, text("It is half "), gate(Gate()))
    answers = talk_in_background(me, session)
    model.wait_reached(requests=2)
    services, key_id = product.services, str(me.key).split("_")[1]
    transaction(services.engine, lambda unit: revoke_key(unit, services.organization.id, key_id))
    for turn_id in stop_api_key(services.engine, key_id):
        services.running.interrupt(turn_id, Outcome.STOPPED)
    model.wait_reached(open=0)
    until(lambda: bool(answers))
    assert answers[0].json()["outcome"] == "stopped"
    assert turns(product) == [("stopped", "discarded")]
    assert me.call("POST", f"/v1/sessions/{session}/messages", {"content": "Hello"}).status_code == 401
