"""The seeding form: one entry a line, judged and counted as the rules do it. Pure, but for reading the form.

The rules stop at the first fault; somebody who fills in a form wants all of them at once, each with its line. A fault
is told by its line and its kind, never by its words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from memory_core.document import LIMITS, LINE_BREAKS, TITLES, Snapshot, Target, count, normalize
from memory_core.errors import OperationRefused, RefusalCode
from memory_core.operations import Action, Operation, apply_operations
from memory_core.seeding import MAX_ENTRIES
from webapp.operator_pages import words
from webapp.views import AgentChoice, Metered

#: Faults that are listed; more are counted.
SHOWN_FAULTS: Final = 12
FIELDS: Final[Mapping[Target, str]] = {Target.USER: "user_entries", Target.MEMORY: "agent_entries"}


@dataclass(frozen=True, slots=True)
class Line:
    """An entry as it was typed, and the line it stands on, counted from 1."""

    number: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: with a line of a document (``line`` 0: with all of it), or with another field."""

    field: str
    label: str
    short: str
    whole: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class DocumentField(Metered):
    """One document's field with its meter."""

    name: str
    id: str
    label: str
    title: str
    used: int
    limit: int
    entry_count: int
    text: str = field(repr=False)
    faults: tuple[Fault, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.used > self.limit


@dataclass(frozen=True, slots=True)
class SeedView:
    """The form, with what was typed and what is wrong with it. ``begun_id``: who has begun already."""

    agents: tuple[AgentChoice, ...]
    subject: str = field(repr=False)
    documents: tuple[DocumentField, ...]
    faults: tuple[Fault, ...] = ()
    begun: bool = False
    begun_id: str = ""
    rests: bool = False

    def faults_of(self, name: str) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.field == name)

    @property
    def shown_faults(self) -> tuple[Fault, ...]:
        return self.faults[:SHOWN_FAULTS]

    @property
    def more_faults(self) -> int:
        return max(0, len(self.faults) - SHOWN_FAULTS)

    @property
    def fault_title(self) -> str:
        things = words.things(len(self.faults))
        return f"{things} a change."


def entries_of(text: str) -> tuple[Line, ...]:
    """The entries of a field. A blank line is none; a tab is a space to whoever types it."""
    for line_break in LINE_BREAKS:
        text = text.replace(line_break, "\n")
    lines = (Line(number, normalize(line)) for number, line in enumerate(text.replace("\t", " ").split("\n"), 1))
    return tuple(line for line in lines if line.text)


def used_chars(lines: Sequence[Line]) -> int:
    """Code points of the document that these lines would make: the same entry twice is one entry."""
    return count(tuple(dict.fromkeys(line.text for line in lines)))


def document_field(target: Target, text: str, faults: Sequence[Fault] = ()) -> DocumentField:
    """A document's field as the page shows it."""
    lines = entries_of(text)
    name = FIELDS[target]
    return DocumentField(
        name=name,
        id=name.replace("_", "-"),
        label=words.entries_label(target),
        title=TITLES[target],
        used=used_chars(lines),
        limit=LIMITS[target],
        entry_count=len({line.text for line in lines}),
        text=text,
        faults=tuple(fault for fault in faults if fault.field == name),
    )


def find_faults(documents: Mapping[Target, Sequence[Line]], refusal: OperationRefused) -> tuple[Fault, ...]:
    """Everything that stands in the way of a seed that was refused; at least what it was refused for."""
    found = tuple(fault for target, lines in documents.items() for fault in _faults_of(target, lines))
    if found:
        return found
    if not any(documents.values()):
        return (_fault(Target.USER, "is empty", words.SEED_EMPTY),)
    target = refusal.target or Target.USER
    return (_refused(target, refusal.code),)


def field_fault(name: str, label: str, sentence: str) -> Fault:
    """A fault of another field."""
    return Fault(name, label, sentence[0].lower() + sentence[1:].rstrip("."), sentence)


def _faults_of(target: Target, lines: Sequence[Line]) -> Iterator[Fault]:
    if len(lines) > MAX_ENTRIES[target]:
        yield _refused(target, RefusalCode.BATCH_SIZE)
        return
    is_clean = True
    for line in lines:
        # One that is too long by itself makes the whole too long, which is told with its number.
        if (code := _judge(target, [line])) not in (None, RefusalCode.CAPACITY_EXCEEDED):
            is_clean = False
            yield _refused(target, code, line.number)
    over = used_chars(lines) - LIMITS[target]
    if over > 0:
        yield _fault(
            target,
            f"{words.characters(over)} too many",
            f"{words.characters(over)} over. Entries are counted with the § lines between them.",
        )
    elif is_clean and lines and (code := _judge(target, lines)) is not None:
        yield _refused(target, code)


def _judge(target: Target, lines: Sequence[Line]) -> RefusalCode | None:
    """Why these entries would be refused by themselves."""
    try:
        apply_operations(Snapshot(), [Operation(target, Action.ADD, content=line.text) for line in lines])
    except OperationRefused as refusal:
        return refusal.code
    return None


def _refused(target: Target, code: RefusalCode, line: int = 0) -> Fault:
    short, more = words.fault(code)
    whole = f"{f'Line {line}' if line else 'All of it together'} {short}. {more}"
    return _fault(target, short if line or code is RefusalCode.BATCH_SIZE else f"taken together, {short}", whole, line)


def _fault(target: Target, short: str, whole: str, line: int = 0) -> Fault:
    label = words.entries_label(target)
    return Fault(FIELDS[target], f"{label}, line {line}" if line else label, short, whole, line)
