"""Agents by page: a change makes a version, nobody writes over anybody, and every version can be compared."""

import re
from html import unescape

import pytest
import sqlalchemy as sa

from agent.configuration import INSTRUCTIONS_MAX_CHARS, TOOL_SWITCHES, Configuration
from memory_core.database.tables import agent_versions, audit_log
from tests.database import make_organization, rows, tables_holding
from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.product import Product, Signed
from webapp.operator_pages.agents import diff_of

FIELDS = {"name": "Orders desk", "instructions": "Be brief.", "model": "", "fallback_models": "", "memory": "on"}
SENTINEL = "Answer in the voice of a heron."


def create(operator: Signed, **changes: str) -> str:
    """A new agent by the form; its id."""
    answer = operator.post_form("/operator/agents", {**FIELDS, **changes}, script=False, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return re.split(r"[/?]", answer.headers["location"])[3]


def change(operator: Signed, agent: str, version: int, **changes: str) -> tuple[int, str]:
    fields = {**FIELDS, "version": str(version), **changes}
    answer = operator.post_form(f"/operator/agents/{agent}/versions", fields, script=False)
    return answer.status_code, unescape(answer.text)


def versions(product: Product, agent: str) -> list[dict[str, object]]:
    wanted = sa.select(agent_versions).where(agent_versions.c.agent_id == agent).order_by(agent_versions.c.version)
    return rows(product.services.engine, wanted)


def test_a_change_makes_a_version_and_a_second_one_sees_it(product: Product) -> None:
    """Line breaks are LF, models one a line; tools that the form does not show stay as they were."""
    operator = product.sign_in("operator")
    agent = create(operator)
    fields = {
        "instructions": "Be brief.\r\nBe kind.",
        "model": "gpt-5",
        "fallback_models": " a \r\n\r\nb",
        "memory": "",
    }
    status, page = change(operator, agent, 1, **fields)
    assert status == 200
    assert "Changed the agent" in page
    assert "Save as version 3" in page
    first, second = versions(product, agent)
    assert (first["instructions"], first["tools"]) == ("Be brief.", dict.fromkeys(TOOL_SWITCHES, True))
    assert second["instructions"] == "Be brief.\nBe kind."
    assert second["fallback_models"] == ["a", "b"]
    assert second["tools"] == {**dict.fromkeys(TOOL_SWITCHES, True), "memory": False}


def test_saving_without_a_change_makes_no_version(product: Product) -> None:
    """Nothing is written, and the page says so."""
    operator = product.sign_in("operator")
    agent = create(operator)
    status, page = change(operator, agent, 1)
    assert status == 200
    assert "Done." not in page
    assert "Nothing was changed." in page
    assert len(versions(product, agent)) == 1


def test_nobody_writes_over_a_version_they_have_not_seen(product: Product) -> None:
    """409 with what was typed; saving once more makes the next version of it."""
    operator = product.sign_in("operator")
    agent = create(operator)
    change(operator, agent, 1, instructions="Be kind.")
    status, page = change(operator, agent, 1, instructions=SENTINEL)
    assert status == 409
    assert "Somebody else has changed this agent." in page
    assert SENTINEL in page
    assert len(versions(product, agent)) == 2
    assert 'name="version" value="2"' in page
    assert change(operator, agent, 2, instructions=SENTINEL)[0] == 200
    assert versions(product, agent)[2]["instructions"] == SENTINEL


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": " "}, "Write a name."),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"instructions": "x" * (INSTRUCTIONS_MAX_CHARS + 1)}, "1 characters over 20,000"),
        ({"instructions": "a\0b"}, "control characters"),
        ({"model": "gpt 5"}, "no spaces"),
        ({"fallback_models": "gpt-4.1"}, "name it, or leave these out"),
        ({"model": "gpt-5", "fallback_models": "a\nb c"}, "no spaces"),
        ({"model": "gpt-5", "fallback_models": "\n".join("abcdefghi")}, "At most 8"),
    ],
)
def test_what_does_not_fit_comes_back_with_words(product: Product, changes: dict[str, str], said: str) -> None:
    """For a new agent and for a change; nothing is stored and nothing is lost."""
    operator = product.sign_in("operator")
    agent = create(operator)
    made = operator.post_form("/operator/agents", {**FIELDS, **changes}, script=False)
    status, page = change(operator, agent, 1, **changes)
    for code, answer in ((made.status_code, unescape(made.text)), (status, page)):
        assert code == 422
        assert said in answer
    assert len(versions(product, agent)) == 1


def test_a_conversation_keeps_its_version(product: Product, model: ModelServer) -> None:
    """What began before the change goes on with the old instructions; the next conversation has the new ones."""
    operator, ada = product.sign_in("operator"), product.sign_in("ada")
    agent = product.services.organization.default_agent_id
    model.play(text("Hello."), finish("stop"))
    chat = ada.say("Hello").started["conversationId"]
    assert change(operator, agent, 1, name="Remembrancer", instructions=SENTINEL)[0] == 200
    for here in (chat, None):
        model.play(text("Hello."), finish("stop"))
        ada.say("And now?", here)
    prompts = [request.body["messages"][0]["content"] for request in model.requests]
    assert [SENTINEL in prompt for prompt in prompts] == [False, False, True]


def test_versions_are_compared_line_by_line(product: Product) -> None:
    """What came and what went is said in words too, not in colour alone."""
    operator = product.sign_in("operator")
    agent = create(operator, instructions="One.\nTwo.\nThree.")
    change(operator, agent, 1, instructions="One.\n2.\nThree.\nFour.")
    page = unescape(operator.get(f"/operator/agents/{agent}/versions/2").text)
    for line in ("Removed: </span>Two.", "Added: </span>2.", "Added: </span>Four."):
        assert line in page
    assert "Added: </span>One." not in page
    back = unescape(operator.get(f"/operator/agents/{agent}/versions/1?with=2").text)
    assert "Added: </span>Two." in back
    for missing in ("3", "0", "99999999999999999999"):
        assert operator.get(f"/operator/agents/{agent}/versions/{missing}").status_code == 404


def test_the_first_version_is_all_new() -> None:
    """Beside nothing, every line came; an empty field has none."""
    diffs = {diff.label: diff for diff in diff_of(None, Configuration("Desk", "One.\nTwo."))}
    assert [line.kind for line in diffs["Instructions"].lines] == ["added", "added"]
    assert diffs["Fallback models"].lines == ()
    assert not diffs["Fallback models"].is_changed


@pytest.mark.invariant("I26")
def test_another_organizations_agent_does_not_exist(product: Product) -> None:
    """No page, no version, no change, no place in a list."""
    other = make_organization(product.services.engine, "other")
    operator = product.sign_in("operator")
    for path in (f"/operator/agents/{other.agent_id}", f"/operator/agents/{other.agent_id}/versions/1"):
        assert operator.get(path).status_code == 404
    assert change(operator, other.agent_id, 1)[0] == 404
    assert other.agent_id not in operator.get("/operator/agents").text
    assert len(versions(product, other.agent_id)) == 1


@pytest.mark.invariant("I31")
def test_the_log_names_fields_and_not_their_words(product: Product) -> None:
    """Instructions stand in the versions alone."""
    operator = product.sign_in("operator")
    agent = create(operator)
    change(operator, agent, 1, instructions=SENTINEL, name="The desk")
    assert tables_holding(product.services.engine, SENTINEL) == {"agent_versions"}
    lines = rows(product.services.engine, sa.select(audit_log).order_by(audit_log.c.id))
    assert [line["detail"] for line in lines] == [{"version": 1}, {"version": 2, "fields": ["name", "instructions"]}]
