"""Agents as they run: built once, frozen, and copied for each request.

Two kinds are never mixed. The *authenticated* agent has the memory policy and the memory tool; the *memory-free* agent
has neither and cannot be given them. Both are kept by version behind locks, so that a cold stampede builds one of
each. A request never changes an agent: ``for_turn`` makes a copy with the person's prompt in it, and the copy dies
with the turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.begin import BegunTurn
from agent.configuration import AgentVersion
from agent.conversation import RoundRequest
from agent.models.protocol import ChatModel
from agent.outcome import MemoryStatus
from agent.prompt import Policy, compile_prompt
from agent.reply import Reply
from agent.tools import MEMORY_FREE, WITH_MEMORY


@dataclass(frozen=True, slots=True)
class Agent:
    """A version of an agent, ready to answer. ``policy`` None is the memory-free kind."""

    id: str
    version: int
    instructions: str = field(repr=False)
    models: tuple[str, ...]
    client: ChatModel
    tools: tuple[Mapping[str, Any], ...]
    policy: Policy | None

    def for_turn(self, turn: BegunTurn, reply: Reply) -> RoundRequest:
        """The request-local copy: this person's prompt and this turn's reply, shared with no other request."""
        with_memory = self.policy is not None and turn.memory_status is not MemoryStatus.OFF
        snapshot = reply.ledger.snapshot if reply.ledger is not None else None
        prompt = compile_prompt(self.instructions, self.policy if with_memory else None, snapshot)
        return RoundRequest(
            client=self.client,
            models=self.models,
            messages=({"role": "system", "content": prompt}, *turn.history, {"role": "user", "content": turn.question}),
            tools=self.tools if with_memory else (),
            reply=reply,
        )


class AgentRuntime:
    """Builds agents when they are first needed, keeps them by version, and closes the model's connections at the end.

    ``build_client`` makes the connection to the model's API; it is called once. ``load`` reads a configuration.
    """

    def __init__(
        self,
        build_client: Callable[[], Awaitable[ChatModel]],
        load: Callable[[str, int], Awaitable[AgentVersion]],
        *,
        model: str,
        fallback_models: tuple[str, ...],
        policy: Policy,
    ) -> None:
        self._build_client = build_client
        self._load = load
        self._models = (model, *fallback_models)
        self._policy = policy
        self._client: ChatModel | None = None
        self._agents: dict[tuple[bool, str, int], Agent] = {}
        self._lock = asyncio.Lock()

    @property
    def policy_version(self) -> str:
        return self._policy.version

    async def authenticated(self, agent_id: str, version: int) -> Agent:
        """The agent of a signed-in person. Raises ``AgentNotFound``."""
        return await self._get(True, agent_id, version)

    async def memory_free(self, agent_id: str, version: int) -> Agent:
        """The agent that knows nobody: no policy, no memory block, no memory tool. Raises ``AgentNotFound``."""
        return await self._get(False, agent_id, version)

    async def close(self) -> None:
        """Forget the agents and close the model's connections."""
        async with self._lock:
            self._agents.clear()
            client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _get(self, authenticated: bool, agent_id: str, version: int) -> Agent:
        key = (authenticated, agent_id, version)
        if key not in self._agents:
            async with self._lock:
                if key not in self._agents:
                    self._agents[key] = await self._build(authenticated, agent_id, version)
        return self._agents[key]

    async def _build(self, authenticated: bool, agent_id: str, version: int) -> Agent:
        configuration = (await self._load(agent_id, version)).configuration
        if self._client is None:
            self._client = await self._build_client()
        tools = tuple(
            schema
            for switch, schema in (WITH_MEMORY if authenticated else MEMORY_FREE)
            if switch in configuration.tools
        )
        models = (configuration.model, *configuration.fallback_models) if configuration.model else self._models
        return Agent(
            id=agent_id,
            version=version,
            instructions=configuration.instructions,
            models=models,
            client=self._client,
            tools=tools,
            policy=self._policy if authenticated and "memory" in configuration.tools else None,
        )
