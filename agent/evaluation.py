"""An answer of the memory-free agent to a conversation that somebody sends whole. Nothing is read of anybody, nothing
is stored, and no tool is offered.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from agent.conversation import Limits, RoundRequest, converse
from agent.errors import EndedBadly
from agent.events import TextDelta
from agent.outcome import MemoryStatus, Reason
from agent.prompt import compile_prompt
from agent.reply import Reply
from agent.runtime import Agent
from agent.tools.memory_update import MemoryTool

#: Ends that cut an answer short and yet leave one.
_CUT_SHORT = frozenset({Reason.TOO_LONG, Reason.FILTERED})


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the model said, why it stopped, and which model it was."""

    text: str = field(repr=False)
    finish_reason: str
    model: str


async def evaluate(agent: Agent, messages: Sequence[Mapping[str, str]], limits: Limits) -> Evaluated:
    """Ask a memory-free agent. An answer that was cut short is one; its finish reason says so.

    Raises EndedBadly and ModelError; ValueError for an agent that knows people. A cancelled call closes the model's
    stream.
    """
    if agent.policy is not None or agent.tools:
        raise ValueError("only the memory-free agent evaluates")
    reply = Reply(None, MemoryTool(None), MemoryStatus.OFF)
    prompt = {"role": "system", "content": compile_prompt(agent.instructions, None, None)}
    request = RoundRequest(agent.client, agent.models, (prompt, *messages), (), reply)
    try:
        async with aclosing(converse(request, limits)) as said:
            text = "".join([event.text async for event in said if isinstance(event, TextDelta)])
    except TimeoutError:
        raise EndedBadly(Reason.TIME_LIMIT) from None
    except EndedBadly as end:
        text = reply.text
        if end.reason not in _CUT_SHORT or not text:
            raise
    return Evaluated(text, reply.last_round.finish_reason or "stop", reply.model or agent.models[0])
