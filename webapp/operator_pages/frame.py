"""What stands around every operator page: the chats at the side, the tabs, and what was just done."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse

from agent.transcript import list_conversations
from webapp import presenting
from webapp.audit import ActorKind, Auditor, list_audit
from webapp.auth.person import Person
from webapp.memory_pages import person_view
from webapp.operator_pages.log import LogLine, read_lines
from webapp.render import render
from webapp.services import Services, services_of
from webapp.views import ChatLink, ShellView

#: The pages, in the order of their tabs: a path and what it is called.
TABS = (
    ("/operator", "Overview"),
    ("/operator/seed", "Seed memory"),
    ("/operator/subjects", "Subjects"),
    ("/operator/agents", "Agents"),
    ("/operator/keys", "Keys"),
    ("/operator/health", "Health"),
    ("/operator/audit", "Audit log"),
)


async def operator_page(
    request: Request, operator: Person, name: str, context: Mapping[str, Any], *, tab: str, status: int = 200
) -> HTMLResponse:
    """Render ``operator/<name>.html``. ``?done=`` shows a line of the audit log, if it is this operator's own."""
    services = services_of(request)
    done_id = request.query_params.get("done", "")

    def read(connection: Connection) -> tuple[ShellView, LogLine | None]:
        return _shell(connection, services, operator), find_done(connection, services, operator, done_id)

    shell, done = await services.read(read)
    around = {"shell": shell, "tabs": TABS, "tab": tab, "done": done, "request_id": request_id(request)}
    return render(request, f"operator/{name}.html", {**around, **context}, status)


def auditor(services: Services, operator: Person) -> Auditor:
    """Who writes the audit log when this operator acts."""
    return Auditor(services.organization.id, ActorKind.OPERATOR, operator.subject)


def find_done(connection: Connection, services: Services, operator: Person, line: str) -> LogLine | None:
    """What this operator did, by the number of its line; None for every other text."""
    if not (line.isascii() and line.isdigit() and len(line) < 19):
        return None
    organization_id = services.organization.id
    records = list_audit(connection, organization_id, limit=1, before=int(line) + 1)
    mine = [record for record in records if record.id == int(line) and record.actor == operator.subject]
    return next(iter(read_lines(connection, organization_id, mine)), None)


def request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def _shell(connection: Connection, services: Services, operator: Person) -> ShellView:
    chats = list_conversations(connection, services.owner(operator))
    links = (ChatLink(chat.id, chat.title, chat.updated_at) for chat in chats)
    return ShellView(
        person=person_view(operator, services.settings.secret_key),
        groups=presenting.group_chats(links, datetime.now(UTC)),
        here="operator",
        is_rehearsal=services.settings.uses_rehearsal_model,
    )
