"""Every sentence that depends on a state. Owns the wording; knows no HTML, no HTTP and nobody's remembered words.

A message says what happened, what was and was not saved, and what to do next. Numbers are written ``1,375``.
"""

from datetime import datetime

from agent.outcome import Capacity, Ending, MemoryOutcome, Outcome, Reason
from memory_core.document import TITLES, Target
from memory_core.errors import RefusalCode

NOTHING_CHANGED = "Nothing in memory changed."

#: *Not saved*, and why. Each sentence stands alone on the receipt.
REFUSALS: dict[RefusalCode, str] = {
    RefusalCode.FIELDS_INVALID: f"The change was not put in the right form. {NOTHING_CHANGED}",
    RefusalCode.BATCH_SIZE: f"Too many changes came at once. {NOTHING_CHANGED}",
    RefusalCode.ENTRY_EMPTY: f"There was nothing in it to remember. {NOTHING_CHANGED}",
    RefusalCode.ENTRY_RESERVED: "It uses signs that mark the pages themselves, such as a line with only §. "
    f"{NOTHING_CHANGED}",
    RefusalCode.ENTRY_CONTROL: f"It holds invisible or control characters. {NOTHING_CHANGED}",
    RefusalCode.ENTRY_SECRET: "It looks like a password or a key, and those are never stored. "
    f"{NOTHING_CHANGED} The words are not repeated here.",
    RefusalCode.ENTRY_INSTRUCTION: f"It reads like an instruction, not a fact. {NOTHING_CHANGED}",
    RefusalCode.ENTRY_DUPLICATE: f"The same words are there already. {NOTHING_CHANGED}",
    RefusalCode.MATCH_MISSING: f"It does not say which entry it means. {NOTHING_CHANGED}",
    RefusalCode.MATCH_NOT_FOUND: f"The entry it means is not there. {NOTHING_CHANGED}",
    RefusalCode.MATCH_AMBIGUOUS: f"More than one entry matches. {NOTHING_CHANGED}",
    RefusalCode.CAPACITY_EXCEEDED: f"The page is full, and this does not fit. {NOTHING_CHANGED}",
    RefusalCode.MEMORY_UNAVAILABLE: f"Memory could not be read, so nothing was written over it. {NOTHING_CHANGED}",
    RefusalCode.MEMORY_OFF: f"Memory is switched off. {NOTHING_CHANGED}",
    RefusalCode.GIVE_UP: f"The agent tried several times, and no try could be accepted. {NOTHING_CHANGED}",
    RefusalCode.STOPPED: "The answer was stopped, so nothing was saved.",
    RefusalCode.INTERRUPTED: "The connection was lost before the answer ended, so nothing was saved.",
    RefusalCode.CUT_OFF: "The answer was cut off before its end, so nothing was saved.",
    RefusalCode.FAILED: "The answer failed, so nothing was saved.",
    RefusalCode.STORAGE: f"It could not be written in time. {NOTHING_CHANGED}",
    RefusalCode.CHANGED_SINCE: "What it concerns has changed in the meantime, so this no longer fits.",
    RefusalCode.PROPOSALS_FULL: f"Too many changes wait for an answer already. {NOTHING_CHANGED}",
}

#: Where the form shows the words anyway, or the person is the one who wrote them.
FORM_REFUSALS: dict[RefusalCode, str] = {
    RefusalCode.ENTRY_EMPTY: "Write something first.",
    RefusalCode.ENTRY_SECRET: f"It looks like a password or a key, and those are never stored. {NOTHING_CHANGED}",
    RefusalCode.MATCH_NOT_FOUND: "This entry was changed or removed in the meantime. What you wrote is kept here.",
    RefusalCode.CHANGED_SINCE: "This entry was changed or removed in the meantime. What you wrote is kept here.",
}

UNDO_GONE = "This can no longer be undone."
UNTITLED = "New chat"
IMPORTED = "Replaced by an operator"
UNDONE = "Undone. Memory holds what it held before."
CHANGED = "Saved."
UNCHANGED = f"It stands there in these words already. {NOTHING_CHANGED}"
WORDS_FORGOTTEN = "The words kept for Undo are deleted."
FORGOTTEN = "Everything is forgotten. Both pages are empty."
SWITCHED_OFF = "Memory is off."
SWITCHED_ON = "Memory is on."
WORDS_GONE = "The exact words are no longer kept."
CHANGED_SINCE = "Changed since, so it can no longer be undone."
FORGOTTEN_SINCE = "with everything else"
UNAVAILABLE = "It could not be read, so this answer was written without it, and nothing was saved."
HELD_BACK = (
    "Held back. It reads like an instruction, so the agent no longer sees it. "
    "It stays here until you remove or reword it."
)
MODE_ON = "The agent reads both pages and may change them. Off: it does neither, and the pages stay as they are."
MODE_NEW = (
    "When something is worth keeping, it appears under the answer as a receipt with Undo. "
    "Turn this off and the agent neither reads nor writes memory; what is there stays."
)
MODE_RESTING = "Memory is switched off for this installation, so the agent neither reads nor writes it."
MEMORY_OFF = "Memory is off. The agent answers without it; the pages stay as they are."
MEMORY_RESTING = (
    "Memory is switched off for this installation. The agent neither reads nor writes these pages. "
    "You can still read, export, remove and forget what is here."
)
TYPE_FORGET = "Type forget, and nothing else, to confirm. Nothing has been forgotten yet."
STILL_WRITING = "An answer is still being written. What you wrote is kept and can be sent when it has ended."
BUSY_ELSEWHERE = "An answer is being written in this chat already, perhaps in another tab. Your message is kept."
MESSAGE_EMPTY = "Write a message first."
STARTERS = (
    "What do you remember about me?",
    "Remember that I prefer metric units.",
    "Explain a bounded memory briefly.",
)
SIGNED_OUT = "You have been signed out. Sign in and send it again."

#: What the agent is doing, in plain words, while a tool runs.
STEPS: dict[str, str] = {"memory_update": "Noting something for memory"}
THINKING = "Reading what is remembered"
THINKING_WITHOUT_MEMORY = "Thinking"


def step(tool: str) -> str:
    """What is said while ``tool`` runs."""
    return STEPS.get(tool, "Working")


def refusal(code: RefusalCode, capacity: Capacity | None = None) -> str:
    """Why a change was not saved, for a receipt."""
    if code is RefusalCode.CAPACITY_EXCEEDED and capacity is not None:
        return f"{full(capacity)} {NOTHING_CHANGED}"
    return REFUSALS[code]


def form_refusal(code: RefusalCode, capacity: Capacity | None = None) -> str:
    """Why a change made by hand was not saved, for the form that still shows it."""
    if code is RefusalCode.CAPACITY_EXCEEDED and capacity is not None:
        return full(capacity)
    return FORM_REFUSALS.get(code) or REFUSALS[code]


def undo_refusal(code: RefusalCode, capacity: Capacity | None = None) -> str:
    """Why *Undo* left everything as it was."""
    return f"Not undone. {refusal(code, capacity)}"


def full(capacity: Capacity) -> str:
    """That a change does not fit: what the page holds, what it can hold, and by how much the change would make it grow.

    Full is a page whose rule is red (98.5 %); one with more room is not called that.
    """
    page, more = TITLES[capacity.target].lower(), capacity.needed - capacity.used
    if capacity.used > capacity.limit * 985 // 1000:
        return f"The {page} is full ({capacity.used:,} of {capacity.limit:,}), and this needs {more:,} more."
    return f"The {page} has {capacity.limit - capacity.used:,} characters free, and this needs {more:,}."


def too_long(limit: int, written: int) -> str:
    """That a message is longer than this installation takes."""
    return f"The message has {written:,} characters, and at most {limit:,} fit. What you wrote is still on the page."


def greeting(name: str) -> str:
    """Without script nobody knows the reader's hour: this fits all of them."""
    return f"Good day, {name}." if name else "Good day."


#: How an answer ended that is not whole: the strong words, then what follows them.
HALTS: dict[Reason, tuple[str, str]] = {
    Reason.TOO_LONG: ("Too long.", "The answer reached its limit before its end."),
    Reason.FILTERED: ("Cut off.", "The model’s filter ended this answer early."),
    Reason.CUT_OFF: ("Cut off.", "The model ended this answer before it was whole."),
    Reason.EMPTY: ("No answer.", "The model ended without writing anything. Your message is kept."),
    Reason.STEP_CAP: ("Ended early.", "The agent used all its steps before it wrote an answer."),
    Reason.TIME_LIMIT: ("Out of time.", "The answer took too long and was ended. Your message is kept."),
    Reason.UNREACHABLE: ("The model could not be reached.", "Your message is kept."),
    Reason.REJECTED: ("The model refused the request.", "Your message is kept."),
    Reason.BROKEN: ("The model failed.", "Your message is kept."),
    Reason.STORAGE: ("Not kept.", "The answer could not be stored, and will be gone when you leave this page."),
    Reason.ERASED: ("Erased.", "What belonged to you here was erased while this was written."),
    Reason.INTERNAL: ("Something failed here.", "Your message is kept."),
}
NOTHING_FROM_IT = "Nothing from it was saved to memory."
NOTHING_SAVED = "Nothing was saved to memory."
#: The database went away in the very moment in which the answer was kept, or was not.
NOT_KNOWN = "It is not known yet whether the answer was kept. It shows here as soon as it is."


def halt(reason: Reason | None, has_text: bool) -> tuple[str, str]:
    """The title and the sentence for an answer that failed or came to a halt."""
    title, text = HALTS.get(reason or Reason.INTERNAL, HALTS[Reason.INTERNAL])
    return title, f"{text} {NOTHING_FROM_IT if has_text else NOTHING_SAVED}"


def busy(retry_at: datetime | None, now: datetime) -> str:
    """How long a busy model takes no more messages, as far as it said."""
    seconds = 0 if retry_at is None else round((retry_at - now).total_seconds())
    if seconds <= 0:
        return "The model took no more messages. Your message is kept and can be sent again."
    unit = "second" if seconds == 1 else "seconds"
    return f"The model takes no more messages for {seconds:,} {unit}. Your message is kept and can be sent then."


#: After *Answer*, in the accessible name.
LABELS: dict[Outcome, str] = {
    Outcome.RUNNING: "Answer, being written",
    Outcome.COMPLETED: "Answer",
    Outcome.STOPPED: "Answer, stopped",
    Outcome.INTERRUPTED: "Answer, interrupted",
    Outcome.FAILED: "Answer, not whole",
}


def announcement(ending: Ending) -> str:
    """The one sentence a screen reader hears when an answer has ended."""
    memory = ending.memory
    if ending.outcome is Outcome.RUNNING:
        return NOT_KNOWN
    if ending.outcome is not Outcome.COMPLETED:
        told = {
            Outcome.STOPPED: "You stopped the answer.",
            Outcome.INTERRUPTED: "The answer was interrupted.",
        }.get(ending.outcome, halt(ending.reason, False)[0])
        return f"{told} {NOTHING_SAVED}"
    if memory.outcome is MemoryOutcome.COMMITTED:
        documents = {change.target for change in memory.changes}
        return f"The answer is complete. Saved{f' to {listed(documents)}' if documents else ''}."
    if memory.outcome is MemoryOutcome.REFUSED and memory.reason is not None:
        return f"The answer is complete. Not saved: {refusal(memory.reason, memory.capacity)}"
    if memory.outcome is MemoryOutcome.UNAVAILABLE:
        return "The answer is complete. Memory is unavailable."
    return "The answer is complete."


def listed(targets: set[Target]) -> str:
    """Documents by their titles: "User profile", "User profile and Agent memory"."""
    return " and ".join(TITLES[target] for target in Target if target in targets)
