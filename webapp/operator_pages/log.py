"""The audit log in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy.engine import Connection

from agent.configuration import list_agents
from agent.subjects import subjects_of
from memory_core.document import TITLES, Target
from webapp.audit import Action, ActorKind, AuditRecord
from webapp.operator_pages import words

#: More agents than anybody keeps; beyond them a page would be long, not wrong.
AGENTS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: ``who`` did ``what`` to a subject (linked while they are there) or a thing, with an agent, and how."""

    id: int
    at: datetime
    who: str = field(repr=False)
    what: str
    subject: str = field(default="", repr=False)
    owner_id: str = ""
    thing: str = ""
    thing_path: str = ""
    agent: str = ""
    detail: str = ""
    is_about_nobody: bool = False


def read_lines(connection: Connection, organization_id: str, records: Sequence[AuditRecord]) -> tuple[LogLine, ...]:
    """Lines of the log, with the names that their ids stand for."""
    if not records:
        return ()
    names = {
        agent.agent_id: agent.configuration.name for agent in list_agents(connection, organization_id, limit=AGENTS_MAX)
    }
    subjects = subjects_of(connection, organization_id, [record.owner_id for record in records if record.owner_id])
    return tuple(_line(record, names.get(record.agent_id or "", record.agent_id or ""), subjects) for record in records)


def _line(record: AuditRecord, agent: str, subjects: dict[str, str]) -> LogLine:
    subject = subjects.get(record.owner_id or "", "")
    is_personal, is_key = record.action in words.PERSONAL, record.action in (Action.KEY_CREATED, Action.KEY_REVOKED)
    key_id = str(record.detail.get("key", "")) if is_key else ""
    is_agent = record.action in (Action.AGENT_CREATED, Action.AGENT_CHANGED)
    return LogLine(
        id=record.id,
        at=record.at,
        who=_who(record),
        what=words.ACTIONS[record.action],
        subject=subject,
        owner_id=record.owner_id or "" if subject else "",
        thing=key_id or (agent if is_agent else ""),
        thing_path=f"/operator/agents/{record.agent_id}" if is_agent else f"/operator/keys/{key_id}" if key_id else "",
        agent="" if is_agent else agent,
        detail=_detail(record.detail),
        is_about_nobody=is_personal and not subject,
    )


def _who(record: AuditRecord) -> str:
    if record.actor_kind is ActorKind.COMMAND:
        return "The command line"
    if record.actor_kind is ActorKind.KEY:
        return f"API key {record.actor}"
    return record.actor or "An operator who was erased"


def _detail(detail: dict[str, Any]) -> str:
    """Numbers and codes as they were noted, in a row; a key's own id stands before them already."""
    in_order = sorted(detail.items(), key=lambda item: (item[0] != Target.USER, item[0]))
    noted = (_noted(name, value) for name, value in in_order if name != "key" and value is not None)
    return " · ".join(noted)


def _noted(name: str, value: object) -> str:
    if name in (*Target,) and type(value) is int:
        return f"{TITLES[Target(name)]}: {words.entries(value)}"
    if isinstance(value, list):
        value = ", ".join(map(str, value)).replace("_", " ")
    elif type(value) is int:
        value = f"{value:,}"
    return f"{words.DETAILS.get(name, name.replace('_', ' '))} {value}".strip()
