"""Several agents: each has its own memory of a person; a chat stays with the agent it began with."""

import re

import pytest
import sqlalchemy as sa

from agent.configuration import AgentVersion, Configuration, create_agent
from agent.errors import SessionEnded
from agent.places import open_conversation
from memory_core.database.tables import agents, organizations, owners
from memory_core.database.transaction import Unit, transaction
from memory_core.ids import new_id
from memory_core.owner import Owner
from tests.fakes.model_server import ModelServer, finish, text, tool
from tests.webapp.product import Product
from webapp.auth.person import Person

TEA = "Likes green tea."


@pytest.fixture
def gardener(product: Product) -> AgentVersion:
    """A second agent of the organization."""
    services = product.services
    configuration = Configuration("Gardener", instructions="You know plants.")
    return transaction(services.engine, lambda unit: create_agent(unit, services.organization.id, configuration))


@pytest.fixture
def foreign(product: Product) -> str:
    """Another organization's agent."""
    with product.services.engine.begin() as connection:
        there, agent = new_id("org"), new_id("agt")
        connection.execute(sa.insert(organizations).values(id=there, slug="other", digest_key=b"k" * 32))
        connection.execute(sa.insert(agents).values(id=agent, organization_id=there, name="Foreign"))
    return agent


def remembers_tea(model: ModelServer) -> None:
    batch = {"operations": [{"target": "user", "action": "add", "content": TEA}]}
    model.play(tool("memory_update", batch), finish("tool_calls"))
    model.play(text("I will keep that in mind."), finish("stop"))


def owners_of(product: Product) -> list[tuple[str, str]]:
    with product.services.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.select(owners.c.agent_id, owners.c.subject))]


def chosen(page: str) -> list[str]:
    """What the combobox *Agent* shows as chosen, and what the forms beside it will send."""
    return re.findall(r'<option value="[^"]*" selected>([^<]*)', page)


@pytest.mark.invariant("I25")
def test_each_agent_has_a_memory_of_its_own(product: Product, model: ModelServer, gardener: AgentVersion) -> None:
    """What one learned is in its panel, on its page and in its next prompt, and nowhere with the other."""
    ada = product.sign_in("ada")
    remembers_tea(model)
    said = ada.say("I like green tea.", agent=gardener.agent_id)
    assert said.ended["memory"] == "committed"
    assert 'What <strong dir="auto">Gardener</strong> remembers' in said.body

    assert TEA in ada.get(f"/memory?agent={gardener.agent_id}").text
    assert TEA not in ada.get("/memory").text
    assert TEA not in ada.get("/chats").text

    model.play(text("Hello."), finish("stop"))
    ada.say("And now?", said.started["conversationId"], agent=gardener.agent_id)
    prompt = model.requests[-1].messages[0]["content"]
    assert prompt.startswith("You know plants.")
    assert TEA in prompt
    model.play(text("Hello."), finish("stop"))
    ada.say("Who am I?")
    assert TEA not in model.requests[-1].messages[0]["content"]


def test_a_chat_stays_with_its_agent(product: Product, model: ModelServer, gardener: AgentVersion) -> None:
    """Its page sends the agent with every form; sent to another agent, its messages find no such chat."""
    ada = product.sign_in("ada")
    model.play(text("Hello."), finish("stop"))
    chat = ada.say("Hello", agent=gardener.agent_id).started["conversationId"]
    page = ada.get(f"/chats/{chat}").text
    assert set(re.findall(r'name="agent" value="([^"]*)"', page)) == {gardener.agent_id}
    assert ada.say("Hello", chat).status == 404
    assert f"/chats/{chat}" in ada.get("/chats").text


def test_the_agent_is_chosen_on_a_new_chat_and_on_the_memory_page(product: Product, gardener: AgentVersion) -> None:
    """The combobox is there where there is a choice, shows whose pages stand below it, and works without script."""
    ada = product.sign_in("ada")
    for path in ("/chats", "/memory"):
        assert chosen(ada.get(path).text) == ["Remembrancer"]
        page = ada.get(f"{path}?place=new&agent={gardener.agent_id}").text
        assert chosen(page) == ["Gardener"]
        assert set(re.findall(r'name="agent" value="([^"]*)"', page)) == {gardener.agent_id}


def test_where_there_is_one_agent_nobody_is_asked(product: Product) -> None:
    """No combobox, and no word about whose memory it is."""
    ada = product.sign_in("ada")
    for path in ("/chats", "/memory"):
        assert "<select" not in ada.get(path).text


def test_an_agent_beyond_the_list_is_there_all_the_same(product: Product) -> None:
    """Its pages open, and say whose they are."""
    services = product.services

    def create_many(unit: Unit) -> AgentVersion:
        names = [f"Agent {number}" for number in range(101)]
        return [create_agent(unit, services.organization.id, Configuration(name)) for name in names][-1]

    last = transaction(services.engine, create_many)
    ada = product.sign_in("ada")
    for path in ("/chats", "/memory"):
        assert chosen(ada.get(f"{path}?agent={last.agent_id}").text) == ["Agent 100"]


def test_a_receipt_is_undone_with_the_agent_it_belongs_to(product: Product, gardener: AgentVersion) -> None:
    """The form of *Undo* names the receipt only."""
    ada = product.sign_in("ada")
    fields = {"target": "user", "content": TEA, "agent": gardener.agent_id, "place": "page"}
    receipt = ada.post_form("/memory/entries", fields).text.split('name="receipt" value="')[1].split('"')[0]
    assert TEA in ada.get(f"/memory?agent={gardener.agent_id}").text
    assert ada.post_form("/memory/undos", {"receipt": receipt}).status_code == 200
    assert TEA not in ada.get(f"/memory?agent={gardener.agent_id}").text


def test_a_chat_without_a_message_has_a_name(product: Product, model: ModelServer) -> None:
    """One that was opened over HTTP: a link that can be read, and a title of its own with the first message."""
    ada = product.sign_in("ada")
    services = product.services
    opened = transaction(
        services.engine,
        lambda unit: open_conversation(unit, unit.locked_owner),
        owner=Owner(services.organization.id, services.organization.default_agent_id, "ada"),
        create_owner=True,
    )
    assert re.search(rf'href="/chats/{opened.id}"[^>]*>New chat<', ada.get("/chats").text)
    assert "<h1" in ada.get(f"/chats/{opened.id}").text
    model.play(text("Hello."), finish("stop"))
    ada.say("Good morning", opened.id)
    assert re.search(rf'href="/chats/{opened.id}"[^>]*>Good morning<', ada.get("/chats").text)


@pytest.mark.invariant("I26")
def test_another_organizations_agent_does_not_exist(product: Product, model: ModelServer, foreign: str) -> None:
    """Neither its pages nor a first word to it; and nobody comes into being with it."""
    ada = product.sign_in("ada")
    for agent in (foreign, "agt_none", "\0"):
        assert ada.http.get("/memory", params={"agent": agent}).status_code == 404
        assert ada.http.get("/chats", params={"agent": agent}).status_code == 404
        assert ada.http.get("/memory/export", params={"agent": agent}).status_code == 404
        assert ada.http.get("/memory/panel", params={"agent": agent}).status_code == 404
        said = ada.say("Hello", agent=agent)
        assert said.status == 404
        assert "erased" not in said.body
        for path, fields in (
            ("/memory/entries", {"target": "user", "content": TEA}),
            ("/memory/modes", {"memory": "off"}),
            ("/memory/forgettings", {"confirmation": "forget"}),
        ):
            assert ada.post_form(path, {**fields, "agent": agent}).status_code == 404
    assert owners_of(product) == []
    assert model.requests == []


@pytest.mark.invariant("I39")
async def test_whoever_was_erased_meanwhile_does_not_come_into_being(product: Product) -> None:
    """A change that would make an owner holds the session it was asked with, and without one makes nobody."""
    services = product.services
    person = Person("ada", None, "a session that is gone", "token")
    with pytest.raises(SessionEnded):
        await services.write(services.owner(person), lambda unit: None, session_id=person.session_id)
    assert owners_of(product) == []
