"""Every state has its sentence."""

from datetime import UTC, datetime, timedelta

import pytest

from agent.outcome import Capacity, Ending, MemoryEnding, MemoryOutcome, Outcome, Reason
from memory_core.document import Target
from memory_core.errors import RefusalCode
from memory_core.operations import Change
from webapp import words

NOW = datetime(2026, 11, 30, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize("code", list(RefusalCode))
def test_every_refusal_says_why_and_that_nothing_changed(code: RefusalCode) -> None:
    """A sentence for each code, on receipts and in forms; none shouts."""
    for sentence in (words.refusal(code), words.form_refusal(code), words.undo_refusal(code)):
        assert sentence.endswith(".")
        assert "!" not in sentence


def test_a_full_page_is_told_with_its_numbers() -> None:
    """What it holds, what it can hold, and by how much the change would have made it grow."""
    told = words.refusal(RefusalCode.CAPACITY_EXCEEDED, Capacity(Target.USER, 1368, 1375, 1409))
    assert told == ("The user profile is full (1,368 of 1,375), and this needs 41 more. Nothing in memory changed.")


def test_a_page_with_room_is_not_called_full() -> None:
    """What does not fit may be long: then the room there is, is told."""
    told = words.form_refusal(RefusalCode.CAPACITY_EXCEEDED, Capacity(Target.USER, 239, 1375, 1376))
    assert told == "The user profile has 1,136 characters free, and this needs 1,137."


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.BUSY])
def test_every_reason_of_a_failure_has_a_sentence(reason: Reason) -> None:
    """And each says that nothing was saved, with text and without."""
    for has_text in (True, False):
        title, text = words.halt(reason, has_text)
        assert title.endswith(".")
        assert "was saved to memory." in text


@pytest.mark.parametrize(
    ("retry_at", "told"),
    [
        (NOW + timedelta(seconds=20), "for 20 seconds"),
        (NOW + timedelta(seconds=1), "for 1 second."),
        (NOW - timedelta(seconds=5), "can be sent again"),
        (None, "can be sent again"),
    ],
)
def test_a_busy_model_says_how_long(retry_at: datetime | None, told: str) -> None:
    """As long as it said, and no longer than that is true."""
    assert told in words.busy(retry_at, NOW)


def test_an_ended_answer_is_announced_in_one_sentence_about_memory_too() -> None:
    """Saved only when it was committed."""
    change = (Change(Target.MEMORY, None, "Uses Go."),)

    def said(outcome: Outcome, memory: MemoryEnding) -> str:
        return words.announcement(Ending(outcome, None, None, None, memory))

    committed = MemoryEnding(MemoryOutcome.COMMITTED, changes=change)
    assert said(Outcome.COMPLETED, committed) == "The answer is complete. Saved to Agent memory."
    refused = MemoryEnding(MemoryOutcome.REFUSED, reason=RefusalCode.CHANGED_SINCE)
    assert "Not saved: What it concerns has changed" in said(Outcome.COMPLETED, refused)
    stopped = MemoryEnding(MemoryOutcome.DISCARDED, reason=RefusalCode.STOPPED, changes=change)
    assert said(Outcome.STOPPED, stopped) == "You stopped the answer. Nothing was saved to memory."
