"""The description and the page are the table: nothing is missing in them, and nothing else is in them."""

import json
import re
from html import unescape
from typing import Any

import pytest

from tests.webapp.api.calling import Caller
from tests.webapp.product import Product
from webapp.api.description import describe
from webapp.api.outputs import EVENTS
from webapp.auth.api_keys import Scope
from webapp.routes.v1 import TABLE
from webapp.routes.v1.memory import SEEDING

DOCUMENT = describe(TABLE)


def references(value: Any) -> set[str]:
    """Every `$ref` in a document."""
    if isinstance(value, dict):
        here = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return here.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_document_is_served_to_everybody(product: Product) -> None:
    """OpenAPI 3.1, no key needed, and exactly what the table makes."""
    answer = Caller(product, None).send("GET", "/v1/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DOCUMENT
    assert answer.json()["openapi"].startswith("3.1")


def test_every_call_is_described_with_its_statuses() -> None:
    """Method, path, parameters, body, each status; and no call that is not in the table."""
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in TABLE}
    assert len(TABLE) == len(described)
    for route in TABLE:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert set(operation["responses"]) == {str(status) for status in (*route.gives, *route.refusals, 500)}
        in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert in_path == re.findall(r"\{(\w+)\}", route.path)
        assert ("requestBody" in operation) == (route.takes is not None)
        assert f"`{route.scope}`" in operation["description"]


def test_operations_have_names_of_their_own() -> None:
    """For those who make a client from it."""
    ids = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids)


def test_every_reference_leads_somewhere_and_every_schema_is_needed() -> None:
    """No dangling `$ref`, no schema that nothing points to."""
    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) == schemas


def test_what_is_sent_in_is_closed_and_what_goes_out_is_whole() -> None:
    """Unknown keys are refused at every level; a response always has each of its fields, but an error's problems."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False, name
    for model in EVENTS.values():
        schema = DOCUMENT["components"]["schemas"][model.__name__]
        assert set(schema["required"]) == set(schema["properties"])


def test_a_change_has_no_defaults() -> None:
    """What is not sent stays: a client made from the document must not fill it in."""
    fields = DOCUMENT["components"]["schemas"]["ChangeAgent"]["properties"]
    assert set(fields) == {"name", "instructions", "model", "fallbackModels", "tools"}
    assert not [name for name, field in fields.items() if "default" in field]


def test_the_stream_names_its_events() -> None:
    """Under the content type of a stream, each event with the schema of its data."""
    operation = DOCUMENT["paths"]["/v1/sessions/{sessionId}/messages"]["post"]
    stream = operation["responses"]["200"]["content"]["text/event-stream"]
    assert set(stream["x-events"]) == set(EVENTS)
    assert "Idempotency-Key" in [each["name"] for each in operation["parameters"]]


def test_seeding_says_what_it_is_for() -> None:
    """Operator-written facts; never raw messages or documents nobody vouches for."""
    operation = DOCUMENT["paths"]["/v1/agents/{agentId}/users/{subjectId}/memory"]["put"]
    assert SEEDING in operation["description"]
    assert "Never send raw messages of end users or documents" in SEEDING


def test_the_page_shows_every_call_without_script(product: Product) -> None:
    """Each method and path, each event, each field of each body; and where the document is."""
    answer = Caller(product, None).send("GET", "/v1")
    page = unescape(answer.text)
    assert answer.headers["content-type"].startswith("text/html")
    assert "<script" not in page
    assert "style=" not in page
    for route in TABLE:
        assert f"<code>{route.method} {route.path}</code>" in page
        for name in (
            DOCUMENT["components"]["schemas"].get(getattr(route.takes, "__name__", ""), {}).get("properties", {})
        ):
            assert f"<code>{name}</code>" in page
    for name in EVENTS:
        assert f"<code>{name}</code>" in page
    assert 'href="/v1/openapi.json"' in page
    assert SEEDING in page
    assert "`" not in page


def test_an_id_on_the_page_is_there_once(product: Product) -> None:
    """Headings name their sections."""
    ids = re.findall(r' id="([^"]+)"', Caller(product, None).send("GET", "/v1").text)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_opens_something(scope: Scope) -> None:
    """None is there for nothing."""
    assert scope in {route.scope for route in TABLE}


def test_the_document_is_json_without_surprises() -> None:
    """It survives a round trip."""
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT
