"""Agents: built once, also in a stampede; frozen; one kind with memory and one that has none; closed at the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from agent.configuration import AgentVersion, Configuration, load_configuration
from agent.errors import AgentNotFound
from agent.models.protocol import ModelRequest
from agent.outcome import MemoryOutcome, MemoryStatus, Outcome
from agent.prompt import BLOCK_OPENS, DEFAULT_INSTRUCTIONS
from agent.reply import Reply
from agent.runtime import AgentRuntime
from memory_core.database.tables import agents
from memory_core.errors import StorageFailed
from tests.agent.turning import POLICY, House, adding, remember, says, soon, stages


class Client:
    """A model nobody asks; counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    @asynccontextmanager
    async def open(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield pytest.fail("asked")

    async def close(self) -> None:
        self.closed += 1


class Workshop:
    """A runtime, and what it had built."""

    def __init__(self, **configuration: Any) -> None:
        self.clients: list[Client] = []
        self.loads: list[tuple[str, int]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.fails = False
        self._configuration = configuration
        self.runtime = AgentRuntime(
            self._connect, self._load, model="first", fallback_models=("second",), policy=POLICY
        )

    async def _connect(self) -> Client:
        await self.may_go_on.wait()
        self.clients.append(Client())
        return self.clients[-1]

    async def _load(self, agent_id: str, version: int) -> AgentVersion:
        self.loads.append((agent_id, version))
        await self.may_go_on.wait()
        if self.fails:
            raise StorageFailed
        made = Configuration("Remembrancer", **self._configuration)
        return AgentVersion(agent_id, version, made, True, datetime.now(UTC), datetime.now(UTC))


@pytest.mark.invariant("I27")
async def test_a_cold_stampede_builds_one_of_each_kind() -> None:
    """A hundred first requests at once, for both kinds: each is built once, on one connection to the model."""
    workshop = Workshop()
    workshop.may_go_on.clear()
    wanted = [
        asyncio.ensure_future(kind("agt_1", 1))
        for _ in range(50)
        for kind in (workshop.runtime.authenticated, workshop.runtime.memory_free)
    ]
    await asyncio.sleep(0)
    assert not any(one.done() for one in wanted)
    workshop.may_go_on.set()

    built = await soon(asyncio.gather(*wanted))

    assert len({id(agent) for agent in built}) == 2
    assert len(workshop.clients) == 1
    assert workshop.loads == [("agt_1", 1)] * 2


@pytest.mark.invariant("I27")
async def test_the_memory_free_kind_has_no_policy_and_no_memory_tool() -> None:
    """And cannot be given them: whatever is stored for whoever asks, its prompt is its instructions."""
    workshop = Workshop(instructions="Be kind.")

    free = await workshop.runtime.memory_free("agt_1", 1)
    with_memory = await workshop.runtime.authenticated("agt_1", 1)

    assert (free.policy, free.tools) == (None, ())
    assert with_memory.policy is POLICY
    assert [tool["function"]["name"] for tool in with_memory.tools] == ["memory_update"]


@pytest.mark.invariant("I27")
async def test_the_memory_free_kind_shows_nothing_of_a_person(house: House) -> None:
    """Even when it is handed a turn of somebody who has a memory."""
    remember(house.engine, house.owner(), "Likes tea.")
    turn = await house.begin()
    agent = await house.agents.memory_free(house.organization.agent_id, 1)

    request = agent.for_turn(turn, Reply.to(turn))

    assert request.tools == ()
    assert request.messages[0] == {"role": "system", "content": DEFAULT_INSTRUCTIONS}
    await house.desk.discard(turn, Reply.to(turn), Outcome.INTERRUPTED)


@pytest.mark.invariant("I11")
async def test_an_agent_is_frozen_and_a_request_is_a_copy(house: House) -> None:
    """Nothing of one person's turn stays in the agent that another's is made from."""
    remember(house.engine, house.owner("ada"), "Likes tea.")
    turns = [await house.begin(subject=subject) for subject in ("ada", "bob")]
    agent = await house.agents.authenticated(house.organization.agent_id, 1)
    with pytest.raises(FrozenInstanceError):
        agent.instructions = "Something else."  # type: ignore[misc]  # the very thing that is tested

    ada, bob = [agent.for_turn(turn, Reply.to(turn)) for turn in turns]

    assert "Likes tea." in ada.messages[0]["content"]
    assert "Likes tea." not in bob.messages[0]["content"]
    assert BLOCK_OPENS in bob.messages[0]["content"]
    assert ada.reply is not bob.reply
    for turn in turns:
        await house.desk.discard(turn, Reply.to(turn), Outcome.INTERRUPTED)


@pytest.mark.invariant("I28")
async def test_an_agent_whose_memory_is_switched_off_offers_no_tool(house: House) -> None:
    """Its configuration has no memory: no policy, no block, no tool, whatever the person's mode says."""
    house.change_agent(tools=frozenset())
    remember(house.engine, house.owner(), "Likes tea.")
    stages(house.model, adding("Likes jazz."))

    told = await house.say()

    assert told.turn.agent_version == 2
    assert told.turn.memory_status is MemoryStatus.OFF
    assert told.ending.memory.outcome is MemoryOutcome.OFF
    assert told.staged is None
    assert "tools" not in house.model.requests[0].body
    assert BLOCK_OPENS not in house.model.requests[0].messages[0]["content"]


@pytest.mark.parametrize(
    ("configured", "models"),
    [
        ({}, ("first", "second")),
        ({"model": "mine"}, ("mine",)),
        ({"model": "mine", "fallback_models": ("other",)}, ("mine", "other")),
    ],
    ids=["the deployment's", "its own", "its own with one to fall back on"],
)
async def test_an_agent_has_its_own_models_or_the_deployments(
    configured: dict[str, Any], models: tuple[str, ...]
) -> None:
    """The deployment's fallbacks are not another model's."""
    agent = await Workshop(**configured).runtime.authenticated("agt_1", 1)
    assert agent.models == models


async def test_versions_are_kept_apart() -> None:
    """A conversation goes on with the version it began with, beside one that began with the next."""
    workshop = Workshop()

    one, two, again = [await workshop.runtime.authenticated("agt_1", version) for version in (1, 2, 1)]

    assert (one.version, two.version) == (1, 2)
    assert again is one


async def test_what_could_not_be_loaded_is_tried_again() -> None:
    """A database that was away for a moment leaves no broken agent behind."""
    workshop = Workshop()
    workshop.fails = True
    with pytest.raises(StorageFailed):
        await workshop.runtime.authenticated("agt_1", 1)
    workshop.fails = False

    assert (await workshop.runtime.authenticated("agt_1", 1)).id == "agt_1"


@pytest.mark.invariant("I27")
async def test_closing_closes_the_models_connections_once() -> None:
    """At shutdown; again does nothing, and before anything was built there is nothing to close."""
    workshop = Workshop()
    await workshop.runtime.close()
    await workshop.runtime.authenticated("agt_1", 1)
    await workshop.runtime.close()
    await workshop.runtime.close()

    assert [client.closed for client in workshop.clients] == [1]


async def test_a_configuration_that_does_not_exist_is_not_found(house: House) -> None:
    """No such agent, no such version; the current version is the default."""
    with house.engine.connect() as connection:
        assert load_configuration(connection, house.organization.agent_id).version == 1
        for agent_id, version in ((house.organization.agent_id, 9), ("agt_none", None)):
            with pytest.raises(AgentNotFound):
                load_configuration(connection, agent_id, version)


async def test_a_turn_whose_agent_is_gone_has_failed(house: House) -> None:
    """The conversation names a version that is not there: the turn ends in good order."""
    house.model.play(*says("never said"))
    with house.engine.begin() as connection:
        connection.execute(sa.update(agents).values(current_version=9))
    told = await house.say()
    house.model._scripts.clear()

    assert told.ending.outcome is Outcome.FAILED
    assert told.turn.memory_status is MemoryStatus.AVAILABLE
    assert house.model.counters.requests == 0
