"""``memory_update``: the one way a model can ask for a change. It stages; it never writes.

The tool has no field for a person: whose memory it is was decided by sign-in before the model was asked. Arguments are
untrusted; every rule is judged by ``memory_core``. A refusal teaches (code, sizes, the entries the model already sees);
a success is short and says *staged*.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from agent.outcome import Capacity
from agent.prompt import HELD_BACK, is_held_back
from memory_core.document import LIMITS, Snapshot, Target, usage
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.ledger import MemoryLedger, stage_operations
from memory_core.operations import parse_operations

NAME = "memory_update"
#: Refused batches a turn may mend; the next one is told to carry on.
REFUSAL_BUDGET = 3

SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": (
            "Stage changes to what is remembered about this person. One ordered batch, all or nothing. The changes are "
            "kept only if your answer ends well."
        ),
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["operations"],
            "properties": {
                "operations": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 20,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["target", "action"],
                        "properties": {
                            "target": {
                                "type": "string",
                                "enum": [str(target) for target in Target],
                                "description": "user: the user profile. memory: the agent memory.",
                            },
                            "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                            "match": {
                                "type": ["string", "null"],
                                "description": "replace, remove: the entry, or a piece that no other entry holds.",
                            },
                            "content": {
                                "type": ["string", "null"],
                                "description": "add, replace: the complete new entry, one plain statement.",
                            },
                        },
                    },
                }
            },
        },
    },
}

STAGED_NOTE = "Staged, not saved. It is kept only if your answer ends well; the page tells the person. Answer them now."
NOTHING = "nothing"
ADVICE: dict[RefusalCode, str] = {
    RefusalCode.FIELDS_INVALID: "Each operation has target and action; add: content; remove: match; replace: both.",
    RefusalCode.BATCH_SIZE: "Send one batch of 1 to 20 operations.",
    RefusalCode.ENTRY_EMPTY: "An entry needs words. To delete one, use remove.",
    RefusalCode.ENTRY_RESERVED: "Leave out separators, tags, headers and role markers; write one plain statement.",
    RefusalCode.ENTRY_CONTROL: "Leave out control and invisible characters.",
    RefusalCode.ENTRY_SECRET: "Secrets are never stored. Carry on without it.",
    RefusalCode.ENTRY_INSTRUCTION: "Write a plain statement about the person or the work, not an instruction.",
    RefusalCode.ENTRY_DUPLICATE: "That entry exists already. Remove the old one instead of making a second.",
    RefusalCode.MATCH_MISSING: "Quote a piece of the entry in match.",
    RefusalCode.MATCH_NOT_FOUND: "No entry holds that match. Quote one of the entries below exactly.",
    RefusalCode.MATCH_AMBIGUOUS: "More than one entry holds that match. Quote more of the one you mean.",
    RefusalCode.CAPACITY_EXCEEDED: "It does not fit. Shorten, merge or remove entries in the same batch, then add.",
    RefusalCode.MEMORY_UNAVAILABLE: "Memory cannot be read in this turn and nothing was written. Answer without it.",
    RefusalCode.GIVE_UP: "Carry on without it and answer the person. Do not call this tool again in this turn.",
}


@dataclass
class MemoryTool:
    """The tool as one turn holds it. ``ledger`` is None when memory could not be read: every call is then refused.

    ``refused`` and ``capacity`` keep the code and counts of the last refusal, for the person's receipt; never words.
    """

    ledger: MemoryLedger | None
    refused: RefusalCode | None = None
    capacity: Capacity | None = None
    _refusals: int = 0

    def call(self, arguments: object) -> tuple[str, str]:
        """Judge and stage one batch. ``arguments`` is what the model sent, decoded.

        Returns JSON for the model, and the code that is kept: ``staged`` or a refusal's.
        """
        if self.ledger is None:
            return self._refuse(OperationRefused(RefusalCode.MEMORY_UNAVAILABLE))
        if self._refusals > REFUSAL_BUDGET:
            return self._refuse(OperationRefused(RefusalCode.GIVE_UP))
        try:
            stage_operations(self.ledger, parse_operations(arguments))
        except OperationRefused as refusal:
            return self._refuse(refusal)
        self.refused = self.capacity = None
        return _json({"status": "staged", **_sizes(self.ledger.snapshot), "note": STAGED_NOTE}), "staged"

    def _refuse(self, refusal: OperationRefused) -> tuple[str, str]:
        self._refusals += 1
        spent = self._refusals > REFUSAL_BUDGET and refusal.code is not RefusalCode.MEMORY_UNAVAILABLE
        code = RefusalCode.GIVE_UP if spent else refusal.code
        if code is not RefusalCode.GIVE_UP:
            self.refused, self.capacity = code, capacity_of(refusal)
        answer: dict[str, Any] = {"status": "refused", "code": code, "operation": refusal.operation, "applied": NOTHING}
        if self.ledger is not None:
            answer |= _sizes(self.ledger.snapshot)
            answer["entries"] = {str(target): _visible(self.ledger.snapshot, target) for target in Target}
        return _json(answer | {"advice": ADVICE[code]}), str(code)


def capacity_of(refusal: OperationRefused) -> Capacity | None:
    """The counts of a refusal for want of room; None for any other refusal."""
    if refusal.code is not RefusalCode.CAPACITY_EXCEEDED or refusal.target is None:
        return None
    return Capacity(refusal.target, refusal.used or 0, refusal.limit or LIMITS[refusal.target], refusal.needed or 0)


def _sizes(snapshot: Snapshot) -> dict[str, str]:
    return {str(target): f"{usage(snapshot, target).used}/{LIMITS[target]}" for target in Target}


def _visible(snapshot: Snapshot, target: Target) -> list[str]:
    return [HELD_BACK if is_held_back(entry) else entry for entry in snapshot.of(target)]


def _json(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()
