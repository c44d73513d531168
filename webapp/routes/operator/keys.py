"""API keys: which there are, a new one (shown once), and the end of one."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent.discard import stop_api_key
from agent.outcome import Outcome
from memory_core.database.transaction import Unit
from webapp.audit import Action
from webapp.auth.api_keys import ApiKey, NewApiKey, create_key, list_keys, revoke_key
from webapp.auth.person import Person, require_operator
from webapp.errors import NotFound
from webapp.operator_pages.frame import auditor, operator_page
from webapp.operator_pages.keys import KeyForm, key_view, read_key_form
from webapp.routes.forms import text
from webapp.services import services_of

TAB = "/operator/keys"


async def page(request: Request) -> Response:
    """Every key there was, and the form for a new one."""
    return await _page(request, await require_operator(request), KeyForm())


async def create(request: Request) -> Response:
    """A new key. It stands on this answer and nowhere else."""
    operator, services = await require_operator(request), services_of(request)
    sent = await request.form()
    scopes = [scope for scope in sent.getlist("scopes") if isinstance(scope, str)]
    form = read_key_form(text(sent, "name"), scopes, text(sent, "expires"))
    if not form.is_good:
        return await _page(request, operator, form, status=422)

    def work(unit: Unit) -> NewApiKey:
        made = create_key(unit, services.organization.id, form.name, form.scopes, expires_in=form.expires_in)
        auditor(services, operator).record(
            unit.connection, Action.KEY_CREATED, key=made.key.id, scopes=sorted(made.key.scopes)
        )
        return made

    made = await services.change(work)
    view = {"key": key_view(made.key), "text": made.text}
    return await operator_page(request, operator, "key_made", view, tab=TAB, status=201)


async def show(request: Request) -> Response:
    """One key, and the question whether to revoke it."""
    operator = await require_operator(request)
    key = next((key for key in await _keys(request) if key.id == request.path_params["key"]), None)
    if key is None:
        raise NotFound
    return await operator_page(request, operator, "key", {"key": key_view(key)}, tab=TAB)


async def revoke(request: Request) -> Response:
    """The end of a key, and of every turn that was begun with it."""
    operator, services = await require_operator(request), services_of(request)
    key_id = request.path_params["key"]
    if all(key.id != key_id for key in await _keys(request)):
        raise NotFound

    def work(unit: Unit) -> int | None:
        if not revoke_key(unit, services.organization.id, key_id):
            return None
        return auditor(services, operator).record(unit.connection, Action.KEY_REVOKED, key=key_id)

    line = await services.change(work)
    for turn_id in await services.workers.run(lambda: stop_api_key(services.engine, key_id)):
        services.running.interrupt(turn_id, Outcome.STOPPED)
    return RedirectResponse(f"{TAB}?done={line or ''}", status_code=303)


async def _keys(request: Request) -> tuple[ApiKey, ...]:
    services = services_of(request)
    return await services.read(lambda connection: list_keys(connection, services.organization.id))


async def _page(request: Request, operator: Person, form: KeyForm, *, status: int = 200) -> Response:
    view = {"keys": [key_view(key) for key in await _keys(request)], "form": form}
    return await operator_page(request, operator, "keys", view, tab=TAB, status=status)
