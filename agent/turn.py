"""run_turn: begin → compile → stream → stage → commit or discard.

A turn has begun when it comes here: its question and its row *running* are stored. From here one of two things happens.

    the model ends well    → commit: the answer, the memory and the outcome, in one transaction
    anything else happens  → discard: the text so far is kept and marked; memory is not touched

There is no third way out, and nothing before ``commit`` writes memory: the model's tool only stages, in a ledger that
lives and dies with this request. Ending a turn is a claim in the database, so a Stop and a commit at the same moment
have one winner, and both sides are told the same truth.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from agent import telemetry
from agent.begin import BegunTurn
from agent.conversation import Limits, converse
from agent.errors import EndedBadly, ModelError, TurnClaimed, TurnInterrupted
from agent.events import TurnEnded, TurnEvent, TurnStarted
from agent.interruption import Interruption
from agent.outcome import Outcome
from agent.reply import Reply
from agent.runtime import AgentRuntime
from agent.turn_desk import TurnDesk
from memory_core.errors import OwnerGone, StorageFailed, TransactionCancelled


async def run_turn(
    turn: BegunTurn, agents: AgentRuntime, desk: TurnDesk, limits: Limits, interruption: Interruption
) -> AsyncGenerator[TurnEvent, None]:
    """Answer one message. Yields ``TurnStarted``, text, tools and stagings as they come, and last ``TurnEnded``.

    ``interruption`` is how a Stop, a lost client or a closing process reaches the turn. Closing the generator, or
    cancelling its task, interrupts the turn too: it is recorded before the cancellation goes on its way. A cancellation
    that comes while the end is being recorded comes too late.
    """
    reply = Reply.to(turn)
    try:
        yield TurnStarted(turn.id, turn.conversation_id)
        async with interruption:
            agent = await agents.authenticated(turn.owner.agent_id, turn.agent_version)
            async with aclosing(converse(agent.for_turn(turn, reply), limits)) as said:
                async for event in said:
                    yield event
            ending = await desk.commit(turn, reply)
    except (TurnInterrupted, TurnClaimed, TransactionCancelled):
        ending = await desk.discard(turn, reply, interruption.outcome or Outcome.INTERRUPTED)
    except (ModelError, EndedBadly, TimeoutError, StorageFailed, OwnerGone) as failure:
        ending = await desk.discard(turn, reply, Outcome.FAILED, failure)
    except (asyncio.CancelledError, GeneratorExit):
        await desk.discard(turn, reply, interruption.outcome or Outcome.INTERRUPTED)
        raise
    except Exception as fault:  # noqa: BLE001 - the turn's boundary: it ends in good order, whatever it was
        telemetry.fault("turn_fault", fault, turn_id=turn.id)
        ending = await desk.discard(turn, reply, Outcome.FAILED, fault)
    yield TurnEnded(turn.id, ending)
