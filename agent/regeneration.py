"""An answer written again: the question it answers, and how what its earlier answers saved is taken back first (R24).

Every new answer to a question takes back what the one before it had saved, and says so in its own receipt; so the
receipts of one question are a chain, and its whole inverse leads to memory as it was before the question was answered
at all. It is staged as the first batch of the new turn and commits with the new answer or not at all.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from agent.errors import ConversationWentOn, TurnInProgress, TurnNotFound
from agent.outcome import Outcome
from agent.transcript import storable
from memory_core.database.rows import Record
from memory_core.database.tables import messages, turns
from memory_core.database.transaction import Unit
from memory_core.document import Snapshot
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Operation, apply_operations, ensure_unchanged_since, inverse_operations
from memory_core.receipts import Receipt, find_receipts, mark_undone
from memory_core.store import read_snapshot


def find_regenerated(
    unit: Unit, conversation_id: str | None, turn_id: str | None, *, last_only: bool = False
) -> Record | None:
    """The turn whose question is asked again; None if none is. Raises ``TurnNotFound`` unless it is this owner's and of
    this conversation, ``TurnInProgress`` while it runs, ``ConversationWentOn`` if only the last question may be asked
    again and this one is not.
    """
    if turn_id is None:
        return None
    row = unit.connection.execute(
        sa.select(turns).where(
            turns.c.id == storable(turn_id),
            turns.c.owner_id == unit.locked_owner.id,
            turns.c.conversation_id == storable(conversation_id or ""),
        )
    ).first()
    if row is None:
        raise TurnNotFound
    if row.outcome == Outcome.RUNNING:
        raise TurnInProgress
    later = sa.exists().where(
        turns.c.conversation_id == row.conversation_id,
        turns.c.question_place > row.question_place,
        ~turns.c.superseded,
    )
    if last_only and unit.connection.execute(sa.select(later)).scalar():
        raise ConversationWentOn
    return row


def question_at(unit: Unit, conversation_id: str, place: int) -> str:
    """The question that stands at a place of the log."""
    question: str = unit.connection.execute(
        sa.select(messages.c.content).where(messages.c.conversation_id == conversation_id, messages.c.place == place)
    ).scalar_one()
    return question


def inverse_of_answers(
    unit: Unit, earlier: Record | None, snapshot: Snapshot | None
) -> tuple[tuple[Operation, ...], str | None]:
    """The batch that takes back what the answers to a turn's question have saved, and the receipt it begins with.

    Nothing, and None, if there is nothing to take back or not all of it can be: memory cannot be read now, its time is
    over, or an entry is no longer as the answer left it.
    """
    if earlier is None or snapshot is None:
        return (), None
    return _inverse_of_question(unit, earlier.conversation_id, earlier.question_place, snapshot)


def take_back(
    unit: Unit, conversation_id: str, question_place: int, batch: Sequence[Operation], receipt_id: str
) -> None:
    """Under the lock, before the batch is applied: mark its receipt undone, if the batch still is what takes it back.

    Raises OperationRefused (`changed_since`) when it is not. The batch alone would not notice: the words of an entry
    that was edited meanwhile can stand in the new one, and then a match by a part would find them there.
    """
    snapshot = read_snapshot(unit.connection, unit.locked_owner.id)
    if _inverse_of_question(unit, conversation_id, question_place, snapshot) != (tuple(batch), receipt_id):
        raise OperationRefused(RefusalCode.CHANGED_SINCE)
    mark_undone(unit, receipt_id)


def _inverse_of_question(
    unit: Unit, conversation_id: str, question_place: int, snapshot: Snapshot
) -> tuple[tuple[Operation, ...], str | None]:
    answers = sa.select(turns.c.id).where(
        turns.c.conversation_id == conversation_id, turns.c.question_place == question_place
    )
    found = find_receipts(
        unit.connection, unit.locked_owner.id, turn_ids=unit.connection.execute(answers).scalars().all()
    )
    newest = next((receipt for receipt in reversed(found) if receipt.can_be_undone), None)
    if newest is None:
        return (), None
    try:
        return _inverse(newest, {receipt.id: receipt for receipt in found}, snapshot), newest.id
    except OperationRefused:
        return (), None


def _inverse(newest: Receipt, receipts: dict[str, Receipt], snapshot: Snapshot) -> tuple[Operation, ...]:
    """The inverses of a chain of receipts, one after the other. Raises OperationRefused."""
    operations: tuple[Operation, ...] = ()
    receipt: Receipt | None = newest
    while receipt is not None:
        if not receipt.changes:  # its words are no longer kept
            raise OperationRefused(RefusalCode.CHANGED_SINCE)
        ensure_unchanged_since(snapshot, receipt.changes)
        inverse = inverse_operations(receipt.changes)
        snapshot = apply_operations(snapshot, inverse)
        operations += inverse
        receipt = receipts.get(receipt.undoes_id or "")
    return operations
