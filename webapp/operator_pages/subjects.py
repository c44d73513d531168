"""The people an agent knows, by their sizes and states."""

from dataclasses import dataclass, field
from datetime import datetime

from agent.subjects import Activity, Subject
from memory_core.document import LIMITS, TITLES, Target
from memory_core.owner import MemoryMode
from webapp.operator_pages import words
from webapp.views import Metered


@dataclass(frozen=True, slots=True)
class UsageView(Metered):
    """How full a document is; ``used`` None: this release cannot read it."""

    title: str
    used: int | None
    limit: int


@dataclass(frozen=True, slots=True)
class SubjectView:
    """Somebody, without a word of what they said. ``tone`` is that of their state: good, caution, bad or nothing."""

    owner_id: str
    subject: str = field(repr=False)
    agent_id: str
    agent_name: str
    usages: tuple[UsageView, ...]
    state: str
    tone: str
    conversations: int
    last_activity_at: datetime | None
    seeded_at: datetime | None
    first_activity_at: datetime | None
    memory_mode: str
    activity: Activity | None = None


def subject_view(subject: Subject, activity: Activity | None = None) -> SubjectView:
    """A subject for the list, or with ``activity`` for its own page."""
    usages = tuple(UsageView(TITLES[target], subject.sizes[target], LIMITS[target]) for target in Target)
    state, tone = _state(subject, usages)
    return SubjectView(
        owner_id=subject.owner_id,
        subject=subject.subject,
        agent_id=subject.agent_id,
        agent_name=subject.agent_name,
        usages=usages,
        state=state,
        tone=tone,
        conversations=subject.conversations,
        last_activity_at=subject.last_activity_at,
        seeded_at=subject.seeded_at,
        first_activity_at=subject.first_activity_at,
        memory_mode=words.MEMORY_MODES[subject.memory_mode],
        activity=activity,
    )


def same_subject(typed: str, subject: str) -> bool:
    """Whether somebody typed this subject; a field cannot hold a line break, and white space is not told apart."""
    return " ".join(typed.split()) == " ".join(subject.split()) and bool(typed.strip())


def _state(subject: Subject, usages: tuple[UsageView, ...]) -> tuple[str, str]:
    if any(usage.used is None for usage in usages):
        return "Unavailable", "bad"
    if subject.memory_mode is MemoryMode.OFF:
        return "Off", ""
    if any((usage.used or 0) > usage.high for usage in usages):
        return "Full", "caution"
    if subject.first_activity_at is None:
        return ("Seeded, not begun" if subject.seeded_at else "Not begun"), ""
    return ("Asks first" if subject.memory_mode is MemoryMode.ASK else "On"), "good"
