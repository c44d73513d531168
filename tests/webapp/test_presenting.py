"""From the domain's values to what the templates show."""

from datetime import UTC, datetime, timedelta

from agent.outcome import Capacity, Ending, MemoryEnding, MemoryOutcome, Outcome, Reason
from memory_core.document import Snapshot, Target
from memory_core.errors import RefusalCode
from memory_core.operations import Change
from webapp import presenting, words
from webapp.views import ChatLink, EntryForm, ReceiptState

NOW = datetime(2026, 11, 30, 14, 12, tzinfo=UTC)
TOMORROW = NOW + timedelta(days=1)
ADDED = Change(Target.USER, None, "Uses Go.")
REMOVED = Change(Target.MEMORY, "Uses Bun.", None)
SIZES = {Target.USER: (0, 8)}


def digest(target: Target, text: str) -> str:
    return f"{target}:{text}"


def test_a_receipt_that_was_committed_can_be_undone_while_its_words_are_kept() -> None:
    """Without them it still says what it did to which page, and offers nothing."""
    kept = presenting.saved("trn_a", "rcp_a", (ADDED,), SIZES, TOMORROW)
    assert (kept.title, kept.lead, kept.can_undo, kept.can_forget) == ("Saved", "to", True, True)
    gone = presenting.saved("trn_a", "rcp_a", None, SIZES, None)
    assert (gone.title, gone.can_undo, gone.can_forget, gone.changes) == ("Saved", False, False, ())
    assert gone.documents == (("user", "User profile"),)
    assert gone.note == words.WORDS_GONE
    same_size = presenting.saved("trn_a", "rcp_a", None, {}, None)
    assert (same_size.lead, same_size.documents) == ("", ())


def test_a_change_made_by_hand_says_what_was_done() -> None:
    """Its receipt has no turn: its key is its own id."""
    view = presenting.saved("rcp_a", "rcp_a", (REMOVED,), {Target.MEMORY: (9, 0)}, TOMORROW)
    assert (view.title, view.lead) == ("Removed", "from")


def test_only_a_committed_turn_says_saved() -> None:
    """Each outcome of memory has its receipt, or none."""
    states = {
        outcome: presenting.turn_receipt(
            "trn_a", MemoryEnding(outcome, reason=RefusalCode.STOPPED, changes=(ADDED,), receipt_id="rcp_a"), SIZES
        )
        for outcome in MemoryOutcome
    }
    shown = {outcome: view.state for outcome, view in states.items() if view is not None}
    assert shown == {
        MemoryOutcome.COMMITTED: ReceiptState.SAVED,
        MemoryOutcome.REFUSED: ReceiptState.REFUSED,
        MemoryOutcome.DISCARDED: ReceiptState.REFUSED,
        MemoryOutcome.UNAVAILABLE: ReceiptState.UNAVAILABLE,
    }


def test_what_was_forgotten_with_everything_else_is_not_called_saved() -> None:
    """Its receipt is gone; the turn remembers only that there was one."""
    view = presenting.turn_receipt("trn_a", MemoryEnding(MemoryOutcome.COMMITTED), {})
    assert view is not None
    assert (view.state, view.title, view.lead) == (ReceiptState.UNDONE, "Forgotten", "with everything else")


def test_a_refused_receipt_never_shows_the_words() -> None:
    """Whatever was staged."""
    memory = MemoryEnding(MemoryOutcome.REFUSED, reason=RefusalCode.ENTRY_SECRET, changes=(ADDED,))
    view = presenting.turn_receipt("trn_a", memory, {})
    assert view is not None
    assert view.changes == ()


def test_a_full_page_leads_to_itself() -> None:
    """The receipt links the page that was full."""
    view = presenting.not_saved("trn_a", RefusalCode.CAPACITY_EXCEEDED, Capacity(Target.MEMORY, 2190, 2200, 2260))
    assert (view.link, view.link_text) == ("/memory#sheet-memory", "Open Agent memory")


def test_an_answer_that_is_whole_needs_no_notice_and_every_other_has_one() -> None:
    """Of every outcome and every reason."""
    for outcome in Outcome:
        for reason in (None, *Reason):
            ending = Ending(outcome, reason, None, None, MemoryEnding(MemoryOutcome.NONE))
            view = presenting.ended(ending, NOW, ended_at=NOW, has_text=True, can_regenerate=True)
            assert (view is None) == (outcome in (Outcome.COMPLETED, Outcome.RUNNING))


def test_a_form_knows_how_much_room_its_text_has() -> None:
    """An edit may use what is free and what it had; a new entry pays for its separator."""
    snapshot = Snapshot(user=("abc", "de"))  # 3 + 3 + 2 of 1,375
    edited = presenting.sheet(
        Target.USER, snapshot, digest, opened=("user:abc", EntryForm.EDIT), draft="abcd", problem="No."
    )
    assert [(entry.form, entry.room, entry.draft, entry.problem) for entry in edited.entries] == [
        (EntryForm.EDIT, 1370, "abcd", "No."),
        (EntryForm.NONE, 1369, None, ""),
    ]
    added = presenting.sheet(Target.USER, snapshot, digest, is_adding=True)
    assert added.adding is not None
    assert added.adding.room == 1375 - 8 - 3
    first = presenting.sheet(Target.MEMORY, snapshot, digest, is_adding=True)
    assert first.adding is not None
    assert first.adding.room == 2200


def test_the_rule_changes_its_colour_where_the_meter_does() -> None:
    """Filling above 85 %, full above 98.5 %; shut when no character fits beside its separator."""

    def sheet(chars: int) -> tuple[bool, bool, bool]:
        view = presenting.sheet(Target.USER, Snapshot(user=("a" * chars,)), digest)
        return view.is_filling, view.is_full, view.is_shut

    assert sheet(1168) == (False, False, False)
    assert sheet(1169) == (True, False, False)
    assert sheet(1354) == (True, False, False)
    assert sheet(1355) == (False, True, False)
    assert sheet(1371) == (False, True, False)
    assert sheet(1372) == (False, True, True)


def test_chats_are_grouped_by_day_in_their_order() -> None:
    """Today, yesterday, the week, then months."""
    ages = (0, 1, 6, 7, 45, 400)
    links = [ChatLink(f"c{days}", "t", NOW - timedelta(days=days)) for days in ages]
    labels = [group.label for group in presenting.group_chats(links, NOW)]
    assert labels == ["Today", "Yesterday", "Last seven days", "November", "October", "October 2025"]
