"""Agents and their versions over HTTP."""

from typing import Any

import pytest

from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.api.calling import Caller, caller
from tests.webapp.product import Product


def toolset(**switches: bool) -> dict[str, Any]:
    return {"type": "agent_toolset", "configs": [{"name": name, "enabled": on} for name, on in switches.items()]}


def off(agent: Any) -> list[str]:
    return [config["name"] for config in agent["tools"]["configs"] if not config["enabled"]]


def test_an_agent_is_made_read_and_changed(product: Product) -> None:
    """Each change makes a version; what is not sent stays; the versions are all still there, newest first."""
    me = caller(product)
    made = me.ok("POST", "/v1/agents", {"name": "Support", "tools": toolset(skills=False)})
    assert (made["version"], made["isDefault"], off(made)) == (1, False, ["skills"])
    path = f"/v1/agents/{made['id']}"
    assert me.ok("GET", path) == made
    changed = me.ok("PATCH", path, {"instructions": "Be brief.", "model": "big", "fallbackModels": ["small"]})
    assert (changed["version"], changed["name"], changed["instructions"]) == (2, "Support", "Be brief.")
    assert (changed["model"], changed["fallbackModels"], off(changed)) == ("big", ["small"], ["skills"])
    renamed = me.ok("PATCH", path, {"name": "Help", "tools": toolset(memory=False)})
    assert (renamed["version"], off(renamed)) == (3, ["memory"])
    assert me.ok("PATCH", path, {"name": "Help"})["version"] == 3
    assert me.ok("PATCH", path, {})["version"] == 3
    versions = me.ok("GET", f"{path}/versions")
    assert [each["version"] for each in versions["data"]] == [3, 2, 1]
    assert [each["name"] for each in versions["data"]] == ["Help", "Support", "Support"]
    assert versions["nextCursor"] is None


def test_a_toolset_may_stand_in_a_list(product: Product) -> None:
    """Alone in one, it means the same."""
    made = caller(product).ok("POST", "/v1/agents", {"name": "Support", "tools": [toolset(session_search=False)]})
    assert off(made) == ["session_search"]


def test_a_session_keeps_the_version_it_began_with(product: Product, model: ModelServer) -> None:
    """After a change, the old session still has the old instructions; a new one has the new ones."""
    me = caller(product)
    model.choose = lambda request: (text("Hello."), finish("stop"))
    me.ok("PATCH", f"/v1/agents/{me.agent_id}", {"instructions": "Speak Latin."})
    old = me.open_session("ada")
    me.ok("PATCH", f"/v1/agents/{me.agent_id}", {"instructions": "Speak Greek."})
    new = me.open_session("ada")
    for session, words in ((old, "Speak Latin."), (new, "Speak Greek.")):
        me.say(session, "Hello")
        assert model.requests[-1].messages[0]["content"].startswith(words)


def test_a_switched_off_tool_is_absent(product: Product, model: ModelServer) -> None:
    """No memory tool, no block; what was seeded stays and is read all the same."""
    me = caller(product)
    me.seed("ada", "Knows SQL.")
    me.ok("PATCH", f"/v1/agents/{me.agent_id}", {"tools": toolset(memory=False)})
    model.play(text("Hello."), finish("stop"))
    assert me.say(me.open_session("ada"), "Hello")["memory"]["outcome"] == "off"
    assert model.requests[-1].tool_names == []
    assert "Knows SQL." not in model.requests[-1].messages[0]["content"]
    assert me.ok("GET", me.memory_path("ada"))["stores"][0]["entries"] == ["Knows SQL."]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_lists_come_in_parts(product: Product, limit: int) -> None:
    """Every part's cursor leads to the next; together they are the list, each agent once, the default one first."""
    me = caller(product)
    made = [me.ok("POST", "/v1/agents", {"name": f"Agent {number}"})["id"] for number in range(4)]
    assert whole_list(me, "/v1/agents", limit) == [me.agent_id, *made]


def whole_list(me: Caller, path: str, limit: int, key: str = "id") -> list[Any]:
    """A list, part by part."""
    found, cursor = [], ""
    while True:
        part = me.ok("GET", f"{path}?limit={limit}{cursor}")
        assert len(part["data"]) <= limit
        found += [each[key] for each in part["data"]]
        if part["nextCursor"] is None:
            return found
        assert len(part["data"]) == limit
        cursor = f"&cursor={part['nextCursor']}"


def test_versions_come_in_parts(product: Product) -> None:
    """Newest first, whatever the size of a part."""
    me = caller(product)
    path = f"/v1/agents/{me.agent_id}"
    for number in range(4):
        me.ok("PATCH", path, {"name": f"Name {number}"})
    assert whole_list(me, f"{path}/versions", 2, "version") == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({}, "name", "missing"),
        ({"name": ""}, "name", "invalid"),
        ({"name": "x" * 101}, "name", "too_long"),
        ({"name": "a\0"}, "name", "invalid"),
        ({"name": "Support", "skills": []}, "skills", "unknown_key"),
        ({"name": "Support", "fallback_models": []}, "fallback_models", "unknown_key"),
        ({"name": "Support", "fallbackModels": [""]}, "fallbackModels[0]", "invalid"),
        ({"name": "Support", "tools": {"type": "shell", "configs": []}}, "tools.type", "literal_error"),
        ({"name": "Support", "tools": toolset(browser=True)}, "tools.configs[0].name", "literal_error"),
        (
            {"name": "Support", "tools": {"type": "agent_toolset", "configs": [{"name": "memory", "enabled": 1}]}},
            "tools.configs[0].enabled",
            "bool_type",
        ),
        (
            {
                "name": "Support",
                "tools": {"type": "agent_toolset", "configs": [{"name": "memory", "enabled": True}] * 2},
            },
            "tools",
            "invalid",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_with_its_path(
    product: Product, body: Any, path: str, code: str
) -> None:
    """422, for a new agent and for a change alike."""
    me = caller(product)
    for method, where in (("POST", "/v1/agents"), ("PATCH", f"/v1/agents/{me.agent_id}")):
        if body == {} and method == "PATCH":
            continue  # every field of a change may be missing
        answer = me.call(method, where, body)
        assert answer.status_code == 422, answer.text
        assert [(each["path"], each["code"]) for each in answer.json()["error"]["problems"]] == [(path, code)]
    assert me.ok("GET", f"/v1/agents/{me.agent_id}")["version"] == 1


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=-1", "limit=", "cursor=", "cursor=x"])
def test_a_window_that_does_not_fit_is_refused(product: Product, query: str) -> None:
    """422; and a cursor of one list is none of another."""
    assert caller(product).call("GET", f"/v1/agents?{query}").status_code == 422


def test_a_query_that_nobody_knows_is_refused(product: Product) -> None:
    """A misspelt filter would else show everything; and a parameter comes once."""
    me = caller(product)
    me.ok("POST", "/v1/agents", {"name": "Second"})
    cursor = me.ok("GET", "/v1/agents?limit=1")["nextCursor"]
    for path in (
        "/v1/sessions?subject=ada",
        f"/v1/sessions?cursor={cursor}",
        "/v1/agents?limit=1&limit=2",
        "/v1/sessions?agentId=",
    ):
        assert me.call("GET", path).status_code == 422
    assert me.call("GET", f"/v1/agents/{me.agent_id}?limit=1").status_code == 422
