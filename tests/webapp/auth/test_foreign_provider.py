"""Signing in and out with an identity provider of another make, on loopback."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from sqlalchemy.engine import Engine

from tests.webapp.auth.site import Browser, Site, running_site

pytestmark = pytest.mark.postgres


@pytest.fixture
def abroad(engine: Engine, tmp_path: Path, foreign_issuer: str) -> Iterator[Site]:
    environ = {"REMEMBRANCER_OIDC_ISSUER": foreign_issuer, "REMEMBRANCER_OIDC_CLIENT_ID": "app"}
    with running_site(engine, tmp_path, {**environ, "REMEMBRANCER_OIDC_CLIENT_SECRET": "secret"}) as running:
        yield running


def authorize(browser: Browser, sub: str) -> httpx2.Response:
    page = browser.get("/auth/start?next=/me")
    return browser.http.post(page.url, data={"sub": sub})


def test_a_person_signs_in_with_a_provider_of_another_make(abroad: Site, foreign_issuer: str) -> None:
    """Discovery, keys, RS256 and claims as somebody else wrote them."""
    httpx2.put(f"{foreign_issuer}/users/ada", json={"name": "Ada Wren", "email": "ada@example.org"}, trust_env=False)
    browser = abroad.browser()
    end = authorize(browser, "ada")
    assert str(end.url) == f"{abroad.url}/me"
    assert (end.json()["subject"], end.json()["name"]) == ("ada", "Ada Wren")


def test_a_person_without_name_and_email_signs_in(abroad: Site, foreign_issuer: str) -> None:
    """Only the subject is needed."""
    httpx2.put(f"{foreign_issuer}/users/Bare|1", json={}, trust_env=False)
    found = authorize(abroad.browser(), "Bare|1").json()
    assert (found["subject"], found["name"]) == ("Bare|1", None)


def test_a_sign_in_that_is_denied_there_says_so(abroad: Site) -> None:
    """Words and a way to try again; nobody is signed in."""
    browser = abroad.browser()
    page = browser.get("/auth/start")
    end = browser.http.post(page.url, data={"action": "deny"})
    assert end.status_code == 403
    assert "You were not signed in" in end.text
    assert browser.me() is None


def test_signing_out_leads_to_the_other_provider_and_back(abroad: Site, foreign_issuer: str) -> None:
    """Its page knows where to send the browser afterwards."""
    browser = abroad.browser()
    signed_in = authorize(browser, "ada")
    page = browser.post("/sign-out", {"csrf_token": signed_in.json()["csrf_token"]})
    assert f"form-action 'self' {foreign_issuer};" in signed_in.headers["content-security-policy"]
    assert str(page.url).startswith(f"{foreign_issuer}/oauth2/end_session?")
    assert f"{abroad.url}/signed-out" in page.text
    assert browser.me() is None
