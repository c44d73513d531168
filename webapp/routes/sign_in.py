"""Signing in and out: to the identity provider and back, and the pages around it."""

import secrets
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from webapp.auth.attempts import Attempt
from webapp.auth.oidc import error_code, new_challenge
from webapp.auth.person import find_person
from webapp.auth.services import AuthServices, auth_services
from webapp.errors import ProviderRefused, SignInUnknown
from webapp.limits import rate_key
from webapp.local_path import local_path
from webapp.render import render

# A state that begins so belongs to a second try; a third is not made by itself.
_AGAIN = "again."


async def sign_in(request: Request) -> Response:
    """The page with the link *Sign in*; who is signed in already goes on."""
    next_path = local_path(request.query_params.get("next"))
    if await find_person(request):
        return RedirectResponse(next_path, status_code=303)
    is_local = auth_services(request).settings.uses_local_provider
    return render(request, "auth/sign_in.html", {"next_path": next_path, "is_local": is_local})


async def start(request: Request) -> Response:
    """To the identity provider, with a state of this sign-in's own that only this browser can bring back."""
    next_path = local_path(request.query_params.get("next"))
    if await find_person(request):
        return RedirectResponse(next_path, status_code=303)
    auth = auth_services(request)
    auth.sign_in_rate.take(rate_key(request))
    challenge = new_challenge(_AGAIN if request.query_params.get("again") else "")
    url = await auth.oidc.authorization_url(challenge)
    browser = auth.browser_cookie.read(request) or secrets.token_urlsafe(32)
    await auth.attempts.begin(challenge, browser, next_path)
    response = RedirectResponse(url, status_code=303)
    auth.browser_cookie.write(response, browser)
    return response


async def callback(request: Request) -> Response:
    """Back from the identity provider: a session, or words about why there is none.

    An answer that fits no sign-in of this browser (another tab, a second visit, cookies cleared, too late) begins a new
    one, once; at most sites the person does not notice.
    """
    auth = auth_services(request)
    state = request.query_params.get("state", "")
    attempt = await auth.attempts.take(state, auth.browser_cookie.read(request))
    if attempt is None or not attempt.in_time:
        return await _once_more(request, state, attempt)
    _raise_if_refused(request)
    code, issuer = request.query_params.get("code", ""), request.query_params.get("iss")
    proof = await auth.oidc.finish(code, attempt.challenge, issuer=issuer)
    earlier = auth.session_cookie.read(request)
    cookie, ended = await auth.sessions.begin(proof.identity, proof.id_token, replaces=earlier)
    if ended is not None:
        await auth.on_session_ended(ended)
    response = RedirectResponse(attempt.next_path, status_code=303)
    auth.session_cookie.write(response, cookie)
    return response


async def sign_out(request: Request) -> Response:
    """End the session and what runs in it, here and, where it offers that, at the identity provider."""
    auth = auth_services(request)
    person = await find_person(request)
    url = "/signed-out" if person is None else await _end(auth, person.session_id)
    response = RedirectResponse(url, status_code=303)
    auth.session_cookie.erase(response)
    return response


async def signed_out(request: Request) -> Response:
    """The page after signing out; who is signed in (again) is not told otherwise."""
    if await find_person(request):
        return RedirectResponse("/", status_code=303)
    return render(request, "auth/signed_out.html", {})


async def _once_more(request: Request, state: str, attempt: Attempt | None) -> Response:
    """Raises SignInUnknown for a second try, and ProviderRefused where the provider said no and forgot the state."""
    next_path = attempt.next_path if attempt else "/"
    if await find_person(request):
        return RedirectResponse(next_path, status_code=303)
    _raise_if_refused(request)
    if state.startswith(_AGAIN):
        raise SignInUnknown
    return RedirectResponse(f"/auth/start?{urlencode({'next': next_path, 'again': '1'})}", status_code=303)


def _raise_if_refused(request: Request) -> None:
    error = request.query_params.get("error")
    if error is not None:
        raise ProviderRefused(error_code(error))


async def _end(auth: AuthServices, session_id: str) -> str:
    """Revoke the session, then tell those who run turns in it; returns where the browser goes next."""
    id_token = await auth.sessions.end(session_id)
    await auth.on_session_ended(session_id)
    return await auth.oidc.sign_out_url(id_token) or "/signed-out"


ROUTES = [
    Route("/sign-in", sign_in),
    Route("/auth/start", start),
    Route("/auth/callback", callback),
    Route("/sign-out", sign_out, methods=["POST"]),
    Route("/signed-out", signed_out),
]
