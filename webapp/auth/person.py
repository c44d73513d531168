"""Who is asking: the person behind a request, and the demand that there be one."""

from dataclasses import dataclass, field

from starlette.requests import Request

from webapp.auth.operators import is_operator
from webapp.auth.services import auth_services
from webapp.errors import NotFound, SignInNeeded

_STATE_KEY = "person"


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in person. `subject` decides whose memory is meant; `name` is only shown, and may be missing.

    `session_id` names the session in rows and for cancelling; it opens nothing. `csrf_token` goes into every form.
    `is_operator` is judged at each request, by the rules of now over what sign-in proved then.
    """

    subject: str = field(repr=False)
    name: str | None = field(repr=False)
    session_id: str
    csrf_token: str = field(repr=False)
    is_operator: bool = False

    @property
    def label(self) -> str:
        """What to call them on the page."""
        return self.name or self.subject


async def find_person(request: Request) -> Person | None:
    """The person with a live session, or None; looked up once a request. Raises StorageFailed."""
    state = request.scope.setdefault("state", {})
    if _STATE_KEY not in state:
        state[_STATE_KEY] = await _look_up(request)
    person: Person | None = state[_STATE_KEY]
    return person


async def require_person(request: Request) -> Person:
    """The person with a live session. Raises SignInNeeded: a page leads to the sign-in, anything else is a 401."""
    person = await find_person(request)
    if person is None:
        raise SignInNeeded
    return person


async def require_operator(request: Request) -> Person:
    """The operator who asks. Raises SignInNeeded, and NotFound for everybody else: to them there is nothing here."""
    person = await require_person(request)
    if not person.is_operator:
        raise NotFound
    return person


async def _look_up(request: Request) -> Person | None:
    auth = auth_services(request)
    cookie = auth.session_cookie.read(request)
    session = None if cookie is None else await auth.sessions.find(cookie)
    if session is None:
        return None
    runs_it = is_operator(auth.settings.operators, session.subject, session.claims)
    return Person(session.subject, session.name, session.id, session.csrf_token, runs_it)
