"""Every call of the table, met by those it must refuse. Generated from the table: a new route is here by itself."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_core.database.transaction import transaction
from memory_core.errors import StorageFailed
from tests.database import OrganizationForTests, make_organization
from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.api.calling import Caller, caller, new_key
from tests.webapp.product import Product
from webapp.api.access import WRONG_KEYS_A_MINUTE
from webapp.api.table import ApiRoute
from webapp.auth.api_keys import Scope, create_key, revoke_key
from webapp.routes.v1 import TABLE


def label(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


EACH = pytest.mark.parametrize("route", TABLE, ids=label)

#: A body that each call would accept.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/agents"): {"name": "Support"},
    ("PATCH", "/v1/agents/{agentId}"): {"instructions": "Be brief."},
    ("PUT", "/v1/agents/{agentId}/users/{subjectId}/memory"): {"userMemoryEntries": ["Knows SQL."]},
    ("POST", "/v1/sessions"): {"agentId": "{agentId}", "subjectId": "ada"},
    ("PATCH", "/v1/sessions/{sessionId}"): {"title": "About tea"},
    ("POST", "/v1/sessions/{sessionId}/messages"): {"content": "Hello"},
    ("POST", "/v1/evaluations"): {"agentId": "{agentId}", "messages": [{"role": "user", "content": "Hello"}]},
}


def names_something(route: ApiRoute) -> bool:
    """Whether there is an id in its path or in its body."""
    return bool(route.names) or "{agentId}" in str(BODIES.get((route.method, route.path)))


@pytest.fixture
def other(product: Product) -> OrganizationForTests:
    """Another organization in the same database."""
    return make_organization(product.services.engine, "other")


@pytest.fixture
def names(product: Product, model: ModelServer) -> dict[str, str]:
    """Ids of this organization, for every name that a path can have."""
    me = caller(product)
    me.seed("ada", "Knows SQL.")
    session = me.open_session("ada")
    model.play(text("Hello."), finish("stop"))
    turn = me.say(session, "Hello")["turnId"]
    memory = me.ok("GET", me.memory_path("ada"))["memoryId"]
    return {"agentId": me.agent_id, "subjectId": "ada", "sessionId": session, "turnId": turn, "memoryId": memory}


def filled(value: Any, names: dict[str, str]) -> Any:
    """A body with its names filled in."""
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    return value.format(**names) if isinstance(value, str) else value


def ask(who: Caller, route: ApiRoute, names: dict[str, str]) -> Any:
    body = filled(BODIES[route.method, route.path], names) if route.takes is not None else None
    return who.call(route.method, route.path.format(**names), body)


def refused(answer: Any, status: int, code: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    assert error["requestId"] == answer.headers["x-request-id"]
    assert error["message"]


def wrong_keys(product: Product, other: OrganizationForTests) -> Iterator[str]:
    """Unknown, with a wrong secret, another organization's, revoked, expired, and no key at all."""
    engine, organization = product.services.engine, product.services.organization.id
    right = new_key(product)
    revoked = transaction(engine, lambda unit: create_key(unit, organization, "gone", list(Scope)))
    transaction(engine, lambda unit: revoke_key(unit, organization, revoked.key.id))
    yield f"rk_{'0' * 16}_{'0' * 64}"
    yield right[:-1] + ("0" if right[-1] != "0" else "1")
    yield new_key(product, organization_id=other.id)
    yield revoked.text
    yield new_key(product, expires_in=timedelta(seconds=-1))
    yield right.removeprefix("rk_")


@pytest.mark.invariant("I26")
@EACH
def test_a_call_without_a_live_key_of_this_organization_is_refused(
    product: Product, other: OrganizationForTests, names: dict[str, str], route: ApiRoute
) -> None:
    """401 alike, whatever is wrong with the key, and nothing is told about what would be there."""
    answers = [ask(Caller(product, None), route, names)]
    answers += [ask(Caller(product, key), route, names) for key in wrong_keys(product, other)]
    for answer in answers:
        refused(answer, 401, "api_key_refused")
        assert "x-api-key" in answer.headers["www-authenticate"]
    assert len({answer.json()["error"]["message"] for answer in answers}) == 1


@EACH
def test_the_scope_decides(product: Product, model: ModelServer, names: dict[str, str], route: ApiRoute) -> None:
    """403 that names it for a key with all the other scopes; with this one alone the call is answered as described."""
    others = [scope for scope in Scope if scope is not route.scope]
    answer = ask(caller(product, *others), route, names)
    refused(answer, 403, "scope_missing")
    assert f"scope {route.scope}." in answer.json()["error"]["message"]
    model.play(text("Hello."), finish("stop"))
    answer = ask(caller(product, route.scope), route, {**names, "subjectId": "eve"} if route.takes else names)
    assert answer.status_code in route.gives, answer.text


@pytest.mark.invariant("I26")
@pytest.mark.parametrize("route", [route for route in TABLE if names_something(route)], ids=label)
def test_what_is_another_organizations_does_not_exist(
    product: Product, other: OrganizationForTests, names: dict[str, str], route: ApiRoute
) -> None:
    """Its ids and ids that nobody has are not found, and the two cannot be told apart."""
    messages = set()
    for ids in (foreign_names(product, other), {**dict.fromkeys(names, "nobody"), "subjectId": "ada"}):
        answer = ask(caller(product), route, ids)
        refused(answer, 404, "not_found")
        messages.add(answer.json()["error"]["message"])
    assert len(messages) == 1


def test_lists_hold_nothing_of_another_organization(product: Product, other: OrganizationForTests) -> None:
    """Neither its agents nor its sessions."""
    theirs, me = foreign_names(product, other), caller(product)
    shown = [me.call("GET", "/v1/agents").text, me.call("GET", "/v1/sessions").text]
    shown.append(me.call("GET", f"/v1/sessions?agentId={theirs['agentId']}").text)
    assert not [word for word in theirs.values() for page in shown if word in page]


def test_what_is_refused_before_the_api_is_reached_is_in_the_envelope_too(product: Product) -> None:
    """Another host's name: 421, as JSON. A body over the limit: 413, whatever is in it."""
    me = caller(product)
    refused(me.call("POST", "/v1/agents", {"name": "x"}, {"host": "evil.example"}), 421, "wrong_host")
    refused(me.call("POST", "/v1/agents", {"name": "x" * 1_100_000}), 413, "too_large")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", "application/json"), (b"", "application/json"), (b'{"name": "x"}', "text/plain"), (b'{"name": "x"}', "")],
)
def test_a_body_that_is_not_json_is_malformed(product: Product, content: bytes, kind: str) -> None:
    """400, by its content or by its type."""
    me = caller(product)
    answer = me.send("POST", "/v1/agents", content, {"x-api-key": me.key or "", "content-type": kind})
    refused(answer, 400, "malformed_body")


def test_a_fault_of_ours_is_in_the_envelope_and_says_nothing(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with the number of the request, and none of the error's words."""

    def fail(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("zebra-quince-4711")

    monkeypatch.setattr("webapp.routes.v1.agents.list_agents", fail)
    answer = caller(product).call("GET", "/v1/agents")
    refused(answer, 500, "internal_error")
    assert "zebra" not in answer.text


def test_a_database_that_is_away_is_a_503(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Retry-After; nothing is said of it but that."""

    def fail(*arguments: Any, **named: Any) -> Any:
        raise StorageFailed("57P01")

    monkeypatch.setattr("webapp.routes.v1.agents.list_agents", fail)
    answer = caller(product).call("GET", "/v1/agents")
    refused(answer, 503, "storage")
    assert int(answer.headers["retry-after"]) > 0


def test_no_cookie_is_read_and_no_token_is_asked_for(product: Product) -> None:
    """A signed-in person's browser is nobody here; and a program needs no origin."""
    ada = product.sign_in("ada")
    assert ada.get("/v1/agents").status_code == 401
    assert caller(product).call("POST", "/v1/agents", {"name": "Support"}, {"origin": "http://evil"}).status_code == 201


def test_whoever_guesses_keys_has_to_wait(product: Product) -> None:
    """429 with Retry-After once there were too many wrong keys; before that, right keys are let in."""
    guess, me = Caller(product, f"rk_{'0' * 16}_{'0' * 64}"), caller(product)
    for _ in range(WRONG_KEYS_A_MINUTE - 1):
        refused(guess.call("GET", "/v1/agents"), 401, "api_key_refused")
    me.ok("GET", "/v1/agents")
    guess.call("GET", "/v1/agents")
    answer = guess.call("GET", "/v1/agents")
    refused(answer, 429, "too_many_wrong_keys")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/agents/", 404),
        ("GET", "/v1%2Fagents", 404),
        ("GET", "/v1/../chats", 404),
        ("DELETE", "/v1/agents", 405),
        ("OPTIONS", "/v1/sessions/x", 405),
        ("POST", "/v1/openapi.json", 405),
    ],
)
def test_what_is_not_there_is_refused_in_the_envelope(product: Product, method: str, path: str, status: int) -> None:
    """404 and 405 are JSON too, and 405 says what there is."""
    answer = Caller(product, None).send(method, path)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["requestId"] == answer.headers["x-request-id"]
    assert ("allow" in answer.headers) == (status == 405)
    if path == "/v1/agents":
        assert answer.headers["allow"] == "GET, HEAD, POST"


def foreign_names(product: Product, other: OrganizationForTests) -> dict[str, str]:
    """The same things, of another organization."""
    rows = """
        INSERT INTO remembrancer.owners (id, organization_id, agent_id, subject) VALUES ('own_t', :org, :agent, 'ada');
        INSERT INTO remembrancer.conversations (id, owner_id, agent_version, title) VALUES ('cht_t', 'own_t', 1, 'T');
        INSERT INTO remembrancer.turns (id, owner_id, conversation_id, process_id, key_digest, body_digest, outcome,
                                        question_place, answer_place, agent_version, policy_version)
             VALUES ('trn_t', 'own_t', 'cht_t', 'prc_t', 'k', 'b', 'completed', 1, 2, 1, 'p');
        INSERT INTO remembrancer.messages (id, owner_id, conversation_id, turn_id, place, role, content)
             VALUES ('msg_t', 'own_t', 'cht_t', 'trn_t', 1, 'user', 'Hello');
        INSERT INTO remembrancer.agent_memory (user_id, memory_type, content) VALUES ('own_t', 'user', 'Knows tea.')
    """
    with product.services.engine.begin() as connection:
        for statement in rows.split(";"):
            used = {"org": other.id, "agent": other.agent_id} if ":org" in statement else {}
            connection.execute(sql(statement), used)
    return {
        "agentId": other.agent_id,
        "subjectId": "ada",
        "sessionId": "cht_t",
        "turnId": "trn_t",
        "memoryId": "own_t",
    }
