"""Agents as an operator edits them: the form and its rules, and what changed from one version to another."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final

from agent.configuration import (
    FALLBACKS_MAX,
    INSTRUCTIONS_MAX_CHARS,
    MODEL_MAX_CHARS,
    NAME_MAX_CHARS,
    TOOL_SWITCHES,
    AgentVersion,
    Configuration,
    changed_fields,
)
from memory_core.document import normalize

#: The one switch that does something today; the others are kept as they are.
MEMORY: Final = "memory"

#: What a field of the configuration is called, in the order in which it is shown.
FIELDS: Final = {
    "name": "Name",
    "instructions": "Instructions",
    "model": "Model",
    "fallback_models": "Fallback models",
    "tools": "Tools",
}


@dataclass(frozen=True, slots=True)
class AgentForm:
    """The form of an agent, as it is stored or as it was typed, with what is wrong. ``version``: made from this one."""

    name: str = ""
    instructions: str = field(default="", repr=False)
    model: str = ""
    fallback_models: str = ""
    remembers: bool = True
    version: int = 0
    problems: tuple[tuple[str, str], ...] = ()

    def problem(self, name: str) -> str:
        """What is wrong with a field; nothing, or a sentence."""
        return dict(self.problems).get(name, "")

    @property
    def fallbacks(self) -> tuple[str, ...]:
        return tuple(line for line in map(str.strip, self.fallback_models.splitlines()) if line)

    def changes(self, tools: frozenset[str] = frozenset(TOOL_SWITCHES)) -> dict[str, Any]:
        """The fields of a configuration. ``tools`` are those that were on."""
        return {
            "name": self.name,
            "instructions": self.instructions,
            "model": self.model,
            "fallback_models": self.fallbacks,
            "tools": tools | {MEMORY} if self.remembers else tools - {MEMORY},
        }


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent in its list."""

    id: str
    name: str
    version: int
    model: str
    remembers: bool
    is_default: bool
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version in its list: what it changed of the one before it."""

    number: int
    at: datetime
    changed: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line that is there in both (``same``), only before (``removed``) or only now (``added``)."""

    kind: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DiffView:
    """One field of the configuration, before and now."""

    label: str
    lines: tuple[DiffLine, ...]
    is_changed: bool


def read_agent_form(fields: dict[str, str], version: int = 0) -> AgentForm:
    """What the form brought, judged. Line breaks become LF, as in everything else that is kept."""
    form = AgentForm(
        name=" ".join(fields["name"].split()),
        instructions=normalize(fields["instructions"]),
        model=fields["model"].strip(),
        fallback_models="\n".join(AgentForm(fallback_models=fields["fallback_models"]).fallbacks),
        remembers=bool(fields["memory"]),
        version=version,
    )
    return AgentForm(
        form.name,
        form.instructions,
        form.model,
        form.fallback_models,
        form.remembers,
        version,
        tuple(_problems(form)),
    )


def form_of(agent: AgentVersion) -> AgentForm:
    """The form as the stored version fills it in."""
    kept = agent.configuration
    return AgentForm(
        kept.name,
        kept.instructions,
        kept.model,
        "\n".join(kept.fallback_models),
        MEMORY in kept.tools,
        agent.version,
    )


def agent_view(agent: AgentVersion) -> AgentView:
    kept = agent.configuration
    return AgentView(
        agent.agent_id, kept.name, agent.version, kept.model, MEMORY in kept.tools, agent.is_default, agent.created_at
    )


def version_views(versions: tuple[AgentVersion, ...], shown: int, current: int) -> tuple[VersionView, ...]:
    """Versions, newest first, each told by what it changed; ``versions`` holds one more than is shown, if there is."""
    views = []
    for place, one in enumerate(versions[:shown]):
        before = versions[place + 1] if place + 1 < len(versions) else None
        changed = changed_fields(before.configuration, one.configuration) if before else ()
        told = ", ".join(FIELDS[name].lower() for name in changed) if before else "the beginning"
        views.append(VersionView(one.version, one.created_at, told or "nothing", one.version == current))
    return tuple(views)


def diff_of(before: Configuration | None, after: Configuration) -> tuple[DiffView, ...]:
    """What changed, field by field and line by line. Long texts take a while: for a thread."""
    views = []
    for name, label in FIELDS.items():
        old = _lines(before, name) if before is not None else []
        lines = tuple(_compare(old, _lines(after, name)))
        views.append(DiffView(label, lines, any(line.kind != "same" for line in lines)))
    return tuple(views)


def _lines(configuration: Configuration, name: str) -> list[str]:
    if name == "tools":
        return [f"memory: {'on' if MEMORY in configuration.tools else 'off'}"]
    value = getattr(configuration, name)
    if name == "model":
        return [value or "the deployment’s model"]
    return list(value) if isinstance(value, tuple) else str(value).split("\n") if value else []


def _compare(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            yield from (DiffLine("same", line) for line in before[start:end])
            continue
        yield from (DiffLine("removed", line) for line in before[start:end])
        yield from (DiffLine("added", line) for line in after[new_start:new_end])


def _problems(form: AgentForm) -> Iterator[tuple[str, str]]:
    if not form.name:
        yield "name", "Write a name. People choose the agent by it."
    elif len(form.name) > NAME_MAX_CHARS or _holds_controls(form.name):
        yield "name", f"A name has at most {NAME_MAX_CHARS} characters, and no control characters."
    if len(form.instructions) > INSTRUCTIONS_MAX_CHARS:
        over = len(form.instructions) - INSTRUCTIONS_MAX_CHARS
        yield "instructions", f"The instructions are {over:,} characters over {INSTRUCTIONS_MAX_CHARS:,}."
    elif _holds_controls(form.instructions.replace("\n", "").replace("\t", "")):
        yield "instructions", "The instructions hold control characters that no keyboard makes."
    if _is_no_model(form.model) and form.model:
        yield "model", f"A model’s name has no spaces and at most {MODEL_MAX_CHARS} characters."
    if any(map(_is_no_model, form.fallbacks)):
        yield "fallback_models", f"A model’s name has no spaces and at most {MODEL_MAX_CHARS} characters. One a line."
    elif len(form.fallbacks) > FALLBACKS_MAX:
        yield "fallback_models", f"At most {FALLBACKS_MAX} models can stand in."
    elif form.fallbacks and not form.model:
        yield "fallback_models", "These stand in for the model above, which is empty: name it, or leave these out."


def _holds_controls(text: str) -> bool:
    return any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in text)


def _is_no_model(name: str) -> bool:
    return not name or len(name) > MODEL_MAX_CHARS or any(char.isspace() for char in name) or _holds_controls(name)
