"""People who are signed in: through the local provider and its form, as a browser does it."""

import re
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


def sign_in(address: str, subject: str) -> SignedIn:
    """Sign `subject` in at the application's own provider."""
    with httpx.Client(base_url=address, headers={"origin": address}, follow_redirects=True, trust_env=False) as browser:
        form = browser.get("/auth/start?next=/chats").raise_for_status().text
        fields = {name: unescape(value) for name, value in _HIDDEN.findall(form)}
        action = _ACTION.search(form)
        assert action is not None, "the local provider shows no form"
        page = browser.post(unescape(action.group(1)), data={**fields, "subject": subject}).raise_for_status().text
        token = _CSRF.search(page)
        assert token is not None, "the page after signing in has no form"
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        return SignedIn(cookie, unescape(token.group(1)))
