"""The manifest of what must never break: every invariant with its sentence and where it comes from.

Source: D the design article this program follows, H the page on a hosted service's memory, + our own; several may stand
together. An invariant is due when what it speaks of is built: from then on the run fails without a test that is tagged
with it (tests/manifest_plugin.py). `due=False` says that it is waiting for its feature, nothing else.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Invariant:
    """One thing that must never break."""

    id: str
    sentence: str
    source: str
    due: bool = True


INVARIANTS: tuple[Invariant, ...] = (
    # Rules (pure)
    Invariant(
        "I01",
        "The tool has no field for an identity; one that is sent anyway is refused and changes nothing.",
        source="D",
    ),
    Invariant(
        "I02",
        "add, replace and remove obey their field contracts; null means absent; unknown keys are refused.",
        source="D",
    ),
    Invariant(
        "I03",
        "A whole-entry match wins; otherwise a match identifies exactly one entry or the batch is refused.",
        source="D+",
    ),
    Invariant(
        "I04",
        "An exact duplicate add is a no-op; a replace that would make a duplicate is refused.",
        source="D",
    ),
    Invariant(
        "I05",
        "Normalisation comes before length, matching and duplicates: no spelling of a line break or white "
        "space changes a count.",
        source="D",
    ),
    Invariant(
        "I06",
        "Control characters, the delimiter, reserved markers and invisible text are refused on every path "
        "that writes; emoji, Persian, Hindi and Arabic text pass.",
        source="D",
    ),
    Invariant(
        "I07",
        "A refused batch changes nothing: the snapshot is identical, the ledger too, and the reply says so.",
        source="D",
    ),
    Invariant(
        "I08",
        "Capacity is judged after the whole batch: a full document can be consolidated in one batch; the "
        "limit itself fits, one more does not.",
        source="D",
    ),
    Invariant(
        "I09",
        "parse(render(snapshot)) == snapshot for every snapshot the rules can reach; n entries in, n entries out.",
        source="D+",
    ),
    Invariant(
        "I10",
        "After any accepted batch each document is within its limit, or smaller than it was; the page, the "
        "API, the prompt and the store count alike.",
        source="+",
    ),
    # Turn and transaction
    Invariant(
        "I11",
        "A request's ledger, prompt and identity never reach a concurrent request (two people, hundreds of "
        "interleaved turns, proven overlap).",
        source="D",
    ),
    Invariant(
        "I12",
        "A failed, stopped, cancelled or interrupted turn commits no memory, streamed, JSON or without "
        "script: killed at every event boundary and every database step.",
        source="D",
    ),
    Invariant(
        "I13",
        "A disconnected stream (DESIGN R1: *gone*) commits nothing, also when the client goes during begin or "
        "before the first byte; the model connection is closed within two seconds; no turn is left running.",
        source="D",
    ),
    Invariant(
        "I14",
        "Answer, memory and turn outcome are one transaction: after any crash they agree.",
        source="+",
    ),
    Invariant(
        "I15",
        "Cancel and commit race to one winner, also from another process; both sides report the same outcome.",
        source="+",
    ),
    Invariant(
        "I16",
        "Concurrent writers of one owner: all valid changes are kept or the loser is clearly refused; none is lost.",
        source="D",
    ),
    Invariant(
        "I17",
        "A deadlock or serialization failure replays the complete transaction, within its limit; validation "
        "and unknown errors are never retried.",
        source="D",
    ),
    Invariant(
        "I18",
        "The cancel event is obeyed before the query, before persistence and before commit; the worker is "
        "awaited, its outcome is known.",
        source="D",
    ),
    Invariant(
        "I19",
        "A memory read failure: the answer still comes, status unavailable, writes off for that turn, stored "
        "bytes untouched.",
        source="D",
    ),
    Invariant(
        "I20",
        "After a staged mutation no fallback model runs in that turn; a restarted turn starts with a new ledger.",
        source="D",
    ),
    Invariant(
        "I21",
        "Only a good end commits: `length`, `content_filter`, no finish reason, an error inside a 200, an "
        "empty answer and the step cap do not.",
        source="+",
    ),
    Invariant(
        "I22",
        '"Saved" appears if and only if the row changed.',
        source="+",
    ),
    Invariant(
        "I23",
        "After any end, in any phase, the stored history is a valid next request and holds no tool argument or result.",
        source="+",
    ),
    Invariant(
        "I37",
        "No wait is unbounded: a lock, a slow statement or a dead database never holds a cancelled request or "
        "a shutdown beyond its timeout.",
        source="+",
    ),
    Invariant(
        "I38",
        "Modes and the flag are judged at commit: memory switched to off or ask in mid-turn is obeyed.",
        source="+",
    ),
    Invariant(
        "I39",
        "An erased subject is not brought back by a turn, review, undo, approval or sweep that was under way.",
        source="+",
    ),
    Invariant(
        "I40",
        "Undo and approval have one winner, apply whole or not at all, and are refused when what they touch "
        "has changed.",
        source="+",
    ),
    Invariant(
        "I24",
        "One POST runs the model once: no reconnect, double click or retry of ours runs it twice (idempotency key).",
        source="+",
    ),
    # Isolation
    Invariant(
        "I25",
        "The owner is the exact (organization, agent, `sub`): never e-mail, never a name; differing case is a "
        "different person.",
        source="D",
    ),
    Invariant(
        "I26",
        "Another person's conversation, message, turn, memory, skill, file, proposal or search hit is *not "
        "found*, by every route and every search path.",
        source="+",
    ),
    Invariant(
        "I27",
        "Evaluation and other memory-free routes have no block, no tool, no identity; both agents are built "
        "once even under a cold stampede, and closed at shutdown.",
        source="D",
    ),
    Invariant(
        "I28",
        "With the flag off: no block, no tool, no write; rows stay; on again, they are back.",
        source="D",
    ),
    Invariant(
        "I29",
        "Seeding is create-only: memory or any earlier activity gives 409 and changes nothing; of two at once "
        "exactly one succeeds.",
        source="H",
    ),
    Invariant(
        "I30",
        "Files under `memories/USER.md` and `memories/MEMORY.md` cannot be written through files.",
        source="H",
        due=False,
    ),
    # Telemetry and removal
    Invariant(
        "I31",
        "No sentinel from memory, tool arguments or results, messages or database errors is found in any log "
        "(storable and refused sentinels alike; all loggers at DEBUG, `OPENAI_LOG=debug`), span, metric or "
        "audit row.",
        source="D",
    ),
    Invariant(
        "I32",
        "The capture flag adds content to its listed fields only, and opens no framework log or span.",
        source="D",
        due=False,
    ),
    Invariant(
        "I33",
        "A refused secret is not found in any memory table, receipt, proposal, log, span or response "
        "afterwards (the person's own message stays in their conversation).",
        source="+",
        due=False,
    ),
    Invariant(
        "I34",
        "A removed entry is gone from the next memory block, from the panel in another tab after refresh, and "
        "from every memory table once its undo time is over; no review of what was said before brings it "
        "back.",
        source="+",
    ),
    Invariant(
        "I35",
        "Erasing (agent, subject) leaves no row anywhere that holds the owner's id; its web sessions are dead.",
        source="+",
    ),
    Invariant(
        "I36",
        "Migrations only expand; a downgrade refuses to drop a table that holds rows; the previous release "
        "works on the new schema; `probe` and readiness leave nothing.",
        source="D",
    ),
)
