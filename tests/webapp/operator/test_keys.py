"""API keys by page: shown once, listed without what opens anything, revoked for good."""

import re
import threading
from html import unescape

import pytest
import sqlalchemy as sa

from memory_core.database.tables import api_keys, audit_log, turns
from memory_core.database.transaction import transaction
from tests.database import make_organization, rows, tables_holding
from tests.fakes.model_server import ModelServer, finish, gate, text
from tests.webapp.product import Product, Signed
from webapp.auth.api_keys import Scope, authenticate, create_key
from webapp.operator_pages.keys import EXPIRIES

_KEY = re.compile(r"rk_[0-9a-f]{16}_[0-9a-f]{64}")


def make(operator: Signed, *, name: str = "The shop", expires: str = "90", scopes: str = "sessions") -> str:
    """A new key by the form; its text."""
    fields = {"name": name, "scopes": scopes, "expires": expires}
    answer = operator.post_form("/operator/keys", fields, script=False)
    assert answer.status_code == 201
    [key] = set(_KEY.findall(answer.text))
    return str(key)


def id_of(key: str) -> str:
    return key.split("_")[1]


def is_live(product: Product, key: str) -> bool:
    services = product.services
    found = transaction(services.engine, lambda unit: authenticate(unit, services.organization.id, key))
    return found is not None


@pytest.mark.invariant("I31")
def test_a_key_is_shown_once_and_kept_nowhere(product: Product) -> None:
    """It stands on one answer that nobody keeps; no later page and no table holds its secret."""
    operator = product.sign_in("operator")
    key = make(operator)
    assert is_live(product, key)
    secret = key.rsplit("_", 1)[1]
    for path in ("/operator/keys", f"/operator/keys/{id_of(key)}", "/operator/audit"):
        assert secret not in operator.get(path).text
    assert tables_holding(product.services.engine, secret) == set()
    [line] = rows(product.services.engine, sa.select(audit_log))
    assert line["detail"] == {"key": id_of(key), "scopes": ["sessions"]}


@pytest.mark.parametrize(("value", "label"), [(value, label) for value, label, _ in EXPIRIES])
def test_a_key_lives_as_long_as_was_chosen(product: Product, value: str, label: str) -> None:
    """By the database's clock."""
    make(product.sign_in("operator"), expires=value)
    lifetime = sa.func.extract("epoch", api_keys.c.expires_at - api_keys.c.created_at) / 86400
    [row] = rows(product.services.engine, sa.select(sa.cast(lifetime, sa.Float).label("days")))
    assert row["days"] is None if value == "none" else round(row["days"] or 0) == int(value)
    assert label


def test_several_scopes_are_kept(product: Product) -> None:
    """Every box that was ticked, and no other."""
    operator = product.sign_in("operator")
    fields = {"csrf_token": operator.csrf_token, "name": "All", "expires": "30"}
    answer = operator.post("/operator/keys", {**fields, "scopes": [str(scope) for scope in Scope]})
    assert answer.status_code == 201
    [row] = rows(product.services.engine, sa.select(api_keys.c.scopes))
    assert row["scopes"] == sorted(Scope)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "  "}, "Write what the key is for"),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"name": "a\0b"}, "no control characters"),
        ({"scopes": ""}, "Choose at least one thing"),
        ({"scopes": "everything"}, "Choose at least one thing"),
        ({"expires": "1000000"}, "Choose how long"),
    ],
)
def test_a_form_that_is_not_whole_comes_back(product: Product, changes: dict[str, str], said: str) -> None:
    """With words, with what was typed, and without a key."""
    operator = product.sign_in("operator")
    fields = {"name": "The shop", "scopes": "erase", "expires": "30", **changes}
    answer = operator.post_form("/operator/keys", fields, script=False)
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert rows(product.services.engine, sa.select(api_keys)) == []


def test_a_revoked_key_opens_nothing_and_its_turns_stop(product: Product, model: ModelServer) -> None:
    """The turn that it began ends as stopped; the page says what was done."""
    operator, ada = product.sign_in("operator"), product.sign_in("ada")
    key, go_on = make(operator), threading.Event()
    model.play(text("It is half "), gate(go_on), text("whole."), finish("stop"))
    talking = threading.Thread(target=lambda: ada.say("Hello"))
    talking.start()
    model.wait_reached(open=1)
    with product.services.engine.begin() as connection:  # as if the key had begun it
        connection.execute(sa.update(turns).values(api_key_id=id_of(key)))
    answer = operator.post_form(f"/operator/keys/{id_of(key)}/revocations", {}, script=False)
    go_on.set()
    talking.join(20)
    assert f'Revoked the API key <a href="/operator/keys/{id_of(key)}"' in answer.text
    assert not is_live(product, key)
    [turn] = rows(product.services.engine, sa.select(turns.c.outcome))
    assert turn["outcome"] == "stopped"
    assert "Revoke key" not in operator.get(f"/operator/keys/{id_of(key)}").text


def test_a_key_without_a_name_goes_by_its_id(product: Product) -> None:
    """The command line may leave the name out: the list and the key's own page still have words to click and read."""
    organization = product.services.organization.id
    made = transaction(product.services.engine, lambda unit: create_key(unit, organization, "", [Scope.ERASE]))
    key = id_of(made.text)
    operator = product.sign_in("operator")
    assert f'href="/operator/keys/{key}" dir="auto">{key}</a>' in operator.get("/operator/keys").text
    assert f'<h1 dir="auto">{key}</h1>' in operator.get(f"/operator/keys/{key}").text


@pytest.mark.invariant("I26")
def test_another_organizations_key_does_not_exist(product: Product) -> None:
    """Not in the list, not on a page, and not to be revoked."""
    other = make_organization(product.services.engine, "other")
    made = transaction(product.services.engine, lambda unit: create_key(unit, other.id, "Theirs", [Scope.ERASE]))
    operator = product.sign_in("operator")
    assert "Theirs" not in operator.get("/operator/keys").text
    assert operator.get(f"/operator/keys/{made.key.id}").status_code == 404
    revoked = operator.post_form(f"/operator/keys/{made.key.id}/revocations", {}, script=False)
    assert revoked.status_code == 404
    found = transaction(product.services.engine, lambda unit: authenticate(unit, other.id, made.text))
    assert found is not None
