"""Finding: what a screening rule says about a text, without any of the text in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from memory_core.errors import RefusalCode


class Severity(StrEnum):
    """What follows from a finding."""

    REFUSE = "refuse"
    ASK = "ask"


@dataclass(frozen=True)
class Finding:
    """One place where a rule applies.

    `evidence` tells two places of one rule apart, so that an old finding cannot hide a new one. It is Python's own
    salted hash of what matched: good for comparing within one process, and for nothing else.
    """

    code: RefusalCode
    rule: str
    severity: Severity = Severity.REFUSE
    evidence: int = field(default=0, repr=False)
