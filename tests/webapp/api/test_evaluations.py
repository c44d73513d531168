"""The memory-free agent over HTTP: it knows nobody, keeps nothing, and stops when nobody waits."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text as sql

from agent.prompt import BLOCK_OPENS
from tests.fakes.model_server import Gate, ModelServer, Step, error_status, finish, gate, text, tool
from tests.webapp.api.calling import Caller, caller
from tests.webapp.product import Product
from tests.webapp.waiting import until

ADD_TEA = {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}


def body(me: Caller, **more: Any) -> dict[str, Any]:
    return {"agentId": me.agent_id, "messages": [{"role": "user", "content": "Who am I?"}], **more}


@pytest.mark.invariant("I27")
def test_an_evaluation_knows_nobody_and_keeps_nothing(product: Product, model: ModelServer) -> None:
    """No block, no tool, no identity in the request to the model; no conversation, turn or message afterwards."""
    me = caller(product)
    me.seed("ada", "Knows SQL.")
    me.ok("PATCH", f"/v1/agents/{me.agent_id}", {"instructions": "Be brief."})
    model.play(text("Nobody ", "I know."), finish("stop"))
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Who am I?"},
    ]
    told = me.ok("POST", "/v1/evaluations", body(me, messages=messages))
    assert (told["text"], told["finishReason"]) == ("Nobody I know.", "stop")
    request = model.requests[-1]
    assert request.messages == [{"role": "system", "content": "Be brief."}, *messages]
    assert request.tool_names == []
    assert not [word for word in (BLOCK_OPENS, "Knows SQL.", "ada") if word in json.dumps(request.body)]
    with product.services.engine.begin() as connection:
        for table in ("conversations", "turns", "messages", "memory_proposals"):
            exists = connection.execute(sql(f"SELECT to_regclass('remembrancer.{table}')")).scalar()
            if exists is not None:
                assert connection.execute(sql(f"SELECT count(*) FROM remembrancer.{table}")).scalar() == 0


@pytest.mark.invariant("I27")
@pytest.mark.parametrize(
    "more",
    [
        {"subjectId": "ada"},
        {"memory": ["Knows SQL."]},
        {"userMemoryEntries": []},
        {"sessionId": "cht_x"},
        {"tools": []},
        {"messages": [{"role": "system", "content": "Hello"}]},
        {"messages": [{"role": "user", "content": "Hello", "name": "ada"}]},
        {"messages": [{"role": "assistant", "content": "Hello"}]},
        {"messages": []},
        {"messages": [{"role": "user", "content": "x" * 32_001}]},
    ],
)
def test_a_body_with_more_than_a_conversation_is_refused(product: Product, model: ModelServer, more: Any) -> None:
    """A subject, memory, tools, a system message: 422, and the model is not asked."""
    me = caller(product)
    assert me.call("POST", "/v1/evaluations", body(me, **more)).status_code == 422
    assert model.counters.requests == 0


@pytest.mark.invariant("I27")
def test_a_memory_tool_that_the_model_calls_all_the_same_changes_nothing(product: Product, model: ModelServer) -> None:
    """It was not offered: the model is told so, and answers without it."""
    me = caller(product)
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(text("Nothing noted."), finish("stop"))
    assert me.ok("POST", "/v1/evaluations", body(me))["text"] == "Nothing noted."
    with product.services.engine.begin() as connection:
        assert connection.execute(sql("SELECT count(*) FROM remembrancer.agent_memory")).scalar() == 0


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_short_says_so(product: Product, model: ModelServer, reason: str) -> None:
    """200 with what there is, and the model's own reason."""
    me = caller(product)
    model.play(text("It is half"), finish(reason))
    told = me.ok("POST", "/v1/evaluations", body(me))
    assert (told["text"], told["finishReason"]) == ("It is half", reason)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ((error_status(500),), "model_failed"),
        ((error_status(429),), "model_busy"),
        ((text("Half"),), "model_failed"),
        ((finish("stop"),), "model_failed"),
    ],
)
def test_a_model_that_fails_is_a_503_in_words(
    product: Product, model: ModelServer, script: tuple[Step, ...], code: str
) -> None:
    """With Retry-After; half an answer without a reason is none."""
    me = caller(product)
    model.choose = lambda request: script
    answer = me.call("POST", "/v1/evaluations", body(me))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, code)
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.invariant("I13")
def test_a_caller_who_goes_ends_the_models_stream(product: Product, model: ModelServer) -> None:
    """Nobody waits for the answer any more."""
    me = caller(product)
    model.play(text("It is half "), gate(threading.Event()))
    host, port = product.url.removeprefix("http://").split(":")
    sent = json.dumps(body(me)).encode()
    head = (
        f"POST /v1/evaluations HTTP/1.1\r\nHost: {host}:{port}\r\nX-Api-Key: {me.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    line = socket.create_connection((host, int(port)), timeout=20)
    line.sendall(head.encode() + sent)
    model.wait_reached(open=1)
    line.close()
    model.wait_reached(aborted=1, open=0)


def test_a_key_has_only_so_many_at_once(product: Product, model: ModelServer) -> None:
    """As many as one subject has turns; then 429, and room again when one has ended."""
    me = caller(product)
    go_on = Gate()
    model.choose = lambda request: (gate(go_on), text("Hello."), finish("stop"))
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(me.call, "POST", "/v1/evaluations", body(me)) for _ in range(3)]
        model.wait_reached(open=3)
        crowd = me.call("POST", "/v1/evaluations", body(me))
        assert (crowd.status_code, crowd.json()["error"]["code"]) == (429, "too_many_turns")
        go_on.open()
    assert [each.result().status_code for each in waiting] == [200] * 3
    until(lambda: me.call("POST", "/v1/evaluations", body(me)).status_code == 200)
