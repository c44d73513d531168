"""Who may open the operator's pages: rules over what sign-in proved. To everybody else there is nothing there."""

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.routing import Route

from memory_core.database.tables import web_sessions
from tests.database import rows
from tests.fakes.oidc_provider import CLIENT_ID, ScriptedProvider
from tests.webapp.product import Product, Signed, running_product
from webapp.auth.id_token import identity_from
from webapp.auth.operators import SUBJECT, OperatorRule, is_operator
from webapp.routes.operator import PAGES
from webapp.settings import Command, SettingsError, load_settings

ROLE = OperatorRule("roles", "ops")
ROUTES = [(method, route.path) for route in PAGES if isinstance(route, Route) for method in sorted(route.methods or ())]
WORDS_OF_404 = "There is nothing at this address"


def filled(path: str) -> str:
    """A path with something in each of its places."""
    return re.sub(r"\{(\w+)(:int)?\}", lambda place: "1" if place[2] else f"{place[1]}_x", path)


def without_request_id(page: str) -> str:
    return re.sub(r"[0-9a-f]{4}-[0-9a-f]{4}", "", page)


def test_rules_are_subjects_and_claims(tmp_path: Path) -> None:
    """A comma list; a claim's value may hold an equals sign."""
    environ = {"REMEMBRANCER_OPERATORS": "ada, claim:groups=cn=ops ,claim:https://x.example/admin=true"}
    settings = load_settings(environ, Command.DEV, data_dir=tmp_path)
    assert settings.operators == (
        OperatorRule(SUBJECT, "ada"),
        OperatorRule("groups", "cn=ops"),
        OperatorRule("https://x.example/admin", "true"),
    )


def test_the_operator_of_a_first_run_is_called_so_and_a_server_has_none(tmp_path: Path) -> None:
    """`operator` in dev, nobody in serve."""
    assert load_settings({}, Command.DEV, data_dir=tmp_path).operators == (OperatorRule(SUBJECT, "operator"),)
    assert load_settings({}, Command.MIGRATE, data_dir=tmp_path).operators == ()


@pytest.mark.parametrize("claim", ["email", "name", "preferred_username"])
def test_a_claim_that_people_can_change_is_refused_at_the_start(tmp_path: Path, claim: str) -> None:
    """In words that name the setting and the claim, and do not repeat the value."""
    with pytest.raises(SettingsError, match=f"REMEMBRANCER_OPERATORS must not ask for the claim {claim}") as caught:
        load_settings({"REMEMBRANCER_OPERATORS": f"claim:{claim}=s3ntinel"}, Command.DEV, data_dir=tmp_path)
    assert "s3ntinel" not in str(caught.value)


@pytest.mark.parametrize("rule", ["claim:", "claim:roles", "claim:roles=", "claim:=ops"])
def test_half_a_rule_is_refused(tmp_path: Path, rule: str) -> None:
    """It would otherwise fit nobody, or a subject that is spelt so."""
    with pytest.raises(SettingsError, match="claim:NAME=VALUE"):
        load_settings({"REMEMBRANCER_OPERATORS": rule}, Command.DEV, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("rule", "claims", "fits"),
    [
        (ROLE, {"roles": "ops"}, True),
        (ROLE, {"roles": ["users", "ops"]}, True),
        (ROLE, {"roles": ["users", "Ops"]}, False),
        (ROLE, {"roles": "operators"}, False),
        (ROLE, {}, False),
        (OperatorRule("admin", "true"), {"admin": True}, True),
        (OperatorRule("admin", "true"), {"admin": False}, False),
        (OperatorRule("admin", "true"), {"admin": 1}, False),
        (OperatorRule(SUBJECT, "ada"), {}, True),
        (OperatorRule(SUBJECT, "Ada"), {}, False),
        (OperatorRule(SUBJECT, "eve"), {SUBJECT: "eve"}, False),
    ],
)
def test_a_rule_fits_letter_by_letter(rule: OperatorRule, claims: dict[str, Any], fits: bool) -> None:
    """A text that is equal, a list that holds it, yes or no; the subject is the session's own."""
    assert is_operator([rule], "ada", claims) is fits


def test_only_the_claims_that_rules_name_are_kept() -> None:
    """From the signed token alone: what the userinfo endpoint adds makes nobody an operator."""
    claims = {"sub": "ada", "roles": ["ops", 7, "nul\0"], "admin": True, "phone": "0123", "deep": {"roles": "ops"}}
    rules = (ROLE, OperatorRule("admin", "true"), OperatorRule("deep", "ops"), OperatorRule("level", "9"))
    identity = identity_from(claims, {"sub": "ada", "level": "9"}, rules)
    assert identity.claims == {"admin": True, "roles": ["ops"]}
    assert identity_from(claims, {}).claims == {}


@pytest.mark.invariant("I26")
def test_to_everybody_else_there_is_nothing(product: Product) -> None:
    """Every route, every other method and every made-up address below: the page of an address that does not exist."""
    ada = product.sign_in("ada")
    nowhere = without_request_id(ada.get("/nowhere").text)
    for method, path in [*ROUTES, ("PUT", "/operator"), ("DELETE", "/operator/keys"), ("GET", "/operator/no/such")]:
        headers = {"Origin": product.url, "X-CSRF-Token": ada.csrf_token}
        answer = ada.http.request(method, filled(path), headers=headers, follow_redirects=False)
        assert answer.status_code == 404, (method, path)
        if method == "GET":
            assert without_request_id(answer.text) == nowhere, path


def test_a_stranger_is_led_to_sign_in(product: Product) -> None:
    """A page leads there and back; anything else is a 401."""
    stranger = Signed(product.url)
    product.browsers.append(stranger)
    for method, path in ROUTES:
        answer = stranger.http.request(method, filled(path), headers={"Origin": product.url}, follow_redirects=False)
        if method in ("GET", "HEAD"):
            assert answer.status_code == 303, path
            assert answer.headers["location"] == f"/sign-in?next={filled(path)}"
        else:
            assert answer.status_code == 401, path


def test_every_post_needs_the_token(product: Product) -> None:
    """Also an operator's."""
    operator = product.sign_in("operator")
    for method, path in ROUTES:
        if method == "POST":
            assert operator.post(filled(path), {}).status_code == 403, path


def test_the_navigation_leads_operators_there_and_nobody_else(product: Product) -> None:
    """The link stands on their pages only."""
    link = 'href="/operator"'
    assert link in product.sign_in("operator").get("/chats").text
    assert link not in product.sign_in("ada").get("/chats").text


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"roles": ["users", "ops"]}, 200),
        ({"roles": "ops"}, 200),
        ({"roles": ["users"]}, 404),
        ({"roles": ["nul\0", {"ops": "ops"}]}, 404),
        ({"email": "operator", "name": "operator", "preferred_username": "operator"}, 404),
        ({"sub": "operator"}, 404),
    ],
)
def test_a_claim_of_the_id_token_makes_an_operator(
    database_url: str, tmp_path: Path, claims: dict[str, Any], status: int
) -> None:
    """From a real sign-in to the page: what the provider signed decides, and what it says elsewhere does not."""
    with ScriptedProvider() as provider:
        provider.claims, provider.userinfo = claims, {"sub": "ada", "roles": ["ops"]}
        environ = {
            "REMEMBRANCER_OPERATORS": "claim:roles=ops",
            "REMEMBRANCER_OIDC_ISSUER": provider.issuer,
            "REMEMBRANCER_OIDC_CLIENT_ID": CLIENT_ID,
        }
        with running_product(database_url, tmp_path, environ=environ) as product:
            browser = Signed(product.url)
            product.browsers.append(browser)
            asked = browser.begin("/operator")
            provider.nonce = asked["nonce"]
            page = browser.get(f"/auth/callback?code=any&state={asked['state']}")
            assert (page.url.path, page.status_code) == ("/operator", status)
            kept = rows(product.services.engine, sa.select(web_sessions.c.claims))
            assert set(kept[0]["claims"]) <= {"roles"}


def test_the_rules_of_now_decide_at_each_request(database_url: str, tmp_path: Path) -> None:
    """Whoever was signed in already is an operator from the start with the new rule on, and none without it."""
    cookie = ""
    for rules, status in (("operator", 404), ("ada", 200), ("operator", 404)):
        with running_product(database_url, tmp_path, environ={"REMEMBRANCER_OPERATORS": rules}) as product:
            name = product.app.state.auth.session_cookie.name
            cookie = cookie or product.sign_in("ada").cookies()[name]
            ada = Signed(product.url)
            product.browsers.append(ada)
            ada.http.cookies.set(name, cookie, domain="127.0.0.1")
            assert ada.step("/operator").status_code == status
