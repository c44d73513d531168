"""People who are signed in: through the local provider and its form, as a browser does it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape

import httpx

_HIDDEN = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')
_ACTION = re.compile(r'<form[^>]*action="([^"]*)"')
_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')


@dataclass(frozen=True)
class SignedIn:
    """What a browser holds after signing in."""

    cookie: str
    csrf_token: str


def sign_in(address: str, subjects: Iterable[str]) -> list[SignedIn]:
    """Sign everybody in at the application's own provider, each in a browser of their own."""
    with httpx.HTTPTransport() as transport:
        return [_sign_in(address, subject, transport) for subject in subjects]


def _sign_in(address: str, subject: str, transport: httpx.HTTPTransport) -> SignedIn:
    browser = httpx.Client(
        base_url=address, headers={"origin": address}, follow_redirects=True, transport=transport, trust_env=False
    )
    form = browser.get("/auth/start?next=/chats").raise_for_status().text
    fields = {name: unescape(value) for name, value in _HIDDEN.findall(form)}
    action = _ACTION.search(form)
    assert action is not None, "the local provider shows no form"
    page = browser.post(unescape(action.group(1)), data={**fields, "subject": subject}).raise_for_status().text
    token = _CSRF.search(page)
    assert token is not None, "the page after signing in has no form"
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    return SignedIn(cookie, unescape(token.group(1)))
