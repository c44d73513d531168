"""The API's description, for programs and for people. Open to everybody: it holds nothing but the table of routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webapp.api.description import ABOUT, about, describe
from webapp.api.outputs import EVENTS
from webapp.api.router import OpenPage
from webapp.api.table import ApiRoute
from webapp.render import render

DOCUMENT_PATH = "/v1/openapi.json"
_REF = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class FieldView:
    """A line of a table: a field, what it holds, whether it must be sent."""

    name: str
    kind: str
    required: bool
    about: list[tuple[bool, str]]


def pages(table: Sequence[ApiRoute]) -> Mapping[str, OpenPage]:
    """The pages of this table, by path."""
    document = describe(table)
    content = orjson.dumps(document)
    context = {
        "about": _spans(ABOUT),
        "document_path": DOCUMENT_PATH,
        "groups": _groups(table, document),
        "events": [
            {"name": name, "fields": fields(document, model.__name__), "about": _spans(about(model))}
            for name, model in EVENTS.items()
        ],
    }

    async def page(request: Request) -> Response:
        return render(request, "api/page.html", context)

    async def openapi(request: Request) -> Response:
        return Response(content, media_type="application/json")

    return {"/v1": page, DOCUMENT_PATH: openapi}


def fields(document: Mapping[str, Any], model: str) -> list[FieldView]:
    """The fields of a model, as the document describes it."""
    schema = document["components"]["schemas"][model]
    required = schema.get("required", ())
    return [
        FieldView(name, _kind(each), name in required, _spans(each.get("description", "")))
        for name, each in schema.get("properties", {}).items()
    ]


def _groups(table: Sequence[ApiRoute], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for route in table:
        groups.setdefault(_group(route), []).append(_call(route, document))
    return [{"title": title, "calls": calls} for title, calls in groups.items()]


def _group(route: ApiRoute) -> str:
    """What a call is about: the word that its path ends with, but for a person's."""
    if "users" in route.template or "memories" in route.template:
        return "Memory"
    return route.template[1].capitalize()


def _call(route: ApiRoute, document: Mapping[str, Any]) -> dict[str, Any]:
    operation = document["paths"][route.path][route.method.lower()]
    takes = route.takes.__name__ if route.takes is not None else None
    return {
        "method": route.method,
        "path": route.path,
        "summary": route.summary,
        "about": _spans(route.about),
        "scope": route.scope,
        "parameters": [each for each in operation["parameters"] if each["in"] != "path"],
        "fields": fields(document, takes) if takes else [],
        "answers": [(status, HTTPStatus(status).phrase, _gives(model)) for status, model in route.gives.items()],
        "refusals": ", ".join(map(str, route.refusals)),
    }


def _gives(model: type[Any] | None) -> list[tuple[bool, str]]:
    return _spans(about(model)) if model is not None else []


def _spans(text: str) -> list[tuple[bool, str]]:
    """A text with `code` in it, as parts: whether code, and the words."""
    return [(number % 2 == 1, part) for number, part in enumerate(text.split("`")) if part]


def _kind(schema: Mapping[str, Any]) -> str:
    """What a field holds, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "enum" in schema or "const" in schema:
        return ", ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any")
