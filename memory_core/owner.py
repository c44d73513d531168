"""Owner: the only way a person travels through the code, and the words for who acts and in which mode.

Knows nothing of sessions, e-mail addresses or display names; an owner is made from what sign-in or an API key proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

SUBJECT_MAX_CHARS = 255


class MemoryMode(StrEnum):
    """How a person lets the agent use their memory (DESIGN R25)."""

    AUTO = "auto"
    ASK = "ask"
    OFF = "off"


class LearningMode(StrEnum):
    """How a person lets the background review add to their memory (DESIGN R25)."""

    AUTO = "auto"
    ASK = "ask"
    OFF = "off"


class Actor(StrEnum):
    """Who changed memory; written on every receipt."""

    AGENT = "agent"
    PERSON = "person"
    OPERATOR = "operator"
    REVIEW = "review"
    IMPORT = "import"
    UNDO = "undo"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True, repr=False)
class Owner:
    """Whose memory this is: organization, agent and the exact subject, compared code point by code point.

    Raises ValueError for a subject that is not 1 to 255 code points, or that holds U+0000 or a lone surrogate.
    """

    organization_id: str
    agent_id: str
    subject: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.subject) <= SUBJECT_MAX_CHARS:
            raise ValueError(f"a subject has 1 to {SUBJECT_MAX_CHARS} characters, not {len(self.subject)}")
        if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in self.subject):
            raise ValueError("a subject holds no U+0000 and no lone surrogate")

    def __repr__(self) -> str:
        """Show a short digest in place of the subject, so that a log line names nobody."""
        digest = sha256(self.subject.encode()).hexdigest()[:12]
        return f"Owner(organization_id={self.organization_id!r}, agent_id={self.agent_id!r}, subject=#{digest})"
