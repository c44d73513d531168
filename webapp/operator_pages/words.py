"""What the operator's pages say of a state. Owns the wording; knows no HTML and nobody's words."""

from collections.abc import Mapping

from agent.outcome import MemoryOutcome, Outcome
from memory_core.document import TITLES, Target
from memory_core.errors import RefusalCode
from memory_core.owner import MemoryMode
from webapp.audit import Action
from webapp.auth.api_keys import Scope

OUTCOMES: Mapping[Outcome, str] = {
    Outcome.COMPLETED: "Completed",
    Outcome.STOPPED: "Stopped",
    Outcome.INTERRUPTED: "Interrupted",
    Outcome.FAILED: "Failed",
    Outcome.RUNNING: "Running",
}
MEMORY_OUTCOMES: Mapping[MemoryOutcome, str] = {
    MemoryOutcome.COMMITTED: "Saved",
    MemoryOutcome.PROPOSED: "Waiting for approval",
    MemoryOutcome.REFUSED: "Not saved: refused",
    MemoryOutcome.DISCARDED: "Not saved: ended badly",
    MemoryOutcome.UNAVAILABLE: "Unavailable",
    MemoryOutcome.UNCHANGED: "No change",
    MemoryOutcome.NONE: "Not asked for",
    MemoryOutcome.OFF: "Off",
}
SCOPES: Mapping[Scope, str] = {
    Scope.AGENTS: "Read, create and change agents",
    Scope.MEMORY_SEED: "Seed memory",
    Scope.MEMORY_READ: "Read memory, its words included",
    Scope.SESSIONS: "Hold conversations for a subject",
    Scope.ERASE: "Erase a subject",
}

MEMORY_MODES: Mapping[MemoryMode, str] = {
    MemoryMode.AUTO: "On",
    MemoryMode.ASK: "Asks first",
    MemoryMode.OFF: "Off",
}

#: What was done: the words before what it was done to.
ACTIONS: Mapping[Action, str] = {
    Action.AGENT_CREATED: "Created the agent",
    Action.AGENT_CHANGED: "Changed the agent",
    Action.MEMORY_SEEDED: "Seeded the memory of",
    Action.MEMORY_READ: "Read the memory of",
    Action.MEMORY_IMPORTED: "Imported the memory of",
    Action.MEMORY_REPLACED: "Replaced the memory of",
    Action.MEMORY_EXPORTED: "Exported the memory of",
    Action.SUBJECT_ERASED: "Erased",
    Action.SESSION_DELETED: "Deleted a session of",
    Action.KEY_CREATED: "Created the API key",
    Action.KEY_REVOKED: "Revoked the API key",
}
#: What the numbers of a line are.
DETAILS: Mapping[str, str] = {"scopes": "It may:", "fields": "Changed:", "version": "Now version"}
#: Actions that concern somebody.
PERSONAL = frozenset(
    {
        Action.MEMORY_SEEDED,
        Action.MEMORY_READ,
        Action.MEMORY_IMPORTED,
        Action.MEMORY_REPLACED,
        Action.MEMORY_EXPORTED,
        Action.SUBJECT_ERASED,
        Action.SESSION_DELETED,
    }
)

#: Why an entry is not taken, after "Line 3" or "looks": short for the list above the form, and whole beside its field.
FAULTS: Mapping[RefusalCode, tuple[str, str]] = {
    RefusalCode.ENTRY_SECRET: ("looks like a secret", "Keys and passwords are never stored."),
    RefusalCode.ENTRY_INSTRUCTION: ("reads like an instruction", "Memory holds facts."),
    RefusalCode.ENTRY_RESERVED: (
        "uses signs that mark the pages themselves",
        "A § alone on its line, and the memory block’s own tags and headings, are not stored.",
    ),
    RefusalCode.ENTRY_CONTROL: ("holds invisible or control characters", "Write it again by hand."),
    RefusalCode.CAPACITY_EXCEEDED: ("is longer than the whole page", "Shorten it to one fact."),
    RefusalCode.BATCH_SIZE: ("has more entries than fit", "Shorten the list."),
}
_OTHER_FAULT = ("is not accepted by the rules of memory", "Write it in other words.")

SEED_EMPTY = "Write at least one entry."
SUBJECT_MISSING = "Write the subject: 1 to 255 characters."
AGENT_GONE = "Choose an agent of the list."
ERASE_CONFIRM = "That is not this subject. Nothing was erased. Type it exactly as it stands above."


def fault(code: RefusalCode) -> tuple[str, str]:
    """What is wrong with an entry, and a sentence more."""
    return FAULTS.get(code, _OTHER_FAULT)


def entries_label(target: Target) -> str:
    """What the form calls a document's field."""
    return f"{TITLES[target]} entries"


def characters(count: int) -> str:
    return f"{count:,} {'character' if count == 1 else 'characters'}"


def entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


def turns(count: int) -> str:
    return f"{count:,} {'turn' if count == 1 else 'turns'}"


def things(count: int) -> str:
    """How many faults there are, as a sentence begins."""
    names = ("Nothing", "One thing needs", "Two things need", "Three things need", "Four things need")
    return names[count] if count < len(names) else f"{count:,} things need"
