"""The API described as OpenAPI 3.1, made from the table of routes and their models, and from nothing else."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from webapp.api.base import Input, Output
from webapp.api.outputs import EVENTS, Error
from webapp.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from webapp.api.table import ApiRoute
from webapp.auth.api_keys import Scope

TITLE = "Remembrancer"
VERSION = "1"
_REF = "#/components/schemas/{model}"

ABOUT = (
    "Agents, seeded memory, sessions and streaming turns. Every call needs an API key with the scope that it names, in "
    "the header `x-api-key`. JSON in camelCase; unknown keys are refused. Times are ISO 8601, UTC. Lists are asked for "
    "in parts: `limit`, and `cursor` with the `nextCursor` of the part before."
)
_IDS: Mapping[str, str] = {
    "agentId": "An agent's id.",
    "subjectId": "Percent-encoded UTF-8, `/` as `%2F`: any string of 1 to 255 characters without U+0000.",
    "sessionId": "A session's id.",
    "memoryId": "A memory's id.",
    "turnId": "A turn's id.",
}
_REFUSED: Mapping[int, str] = {
    400: "The body is not one JSON object in UTF-8, sent as `application/json`.",
    401: "No valid key. Unknown, wrong, expired, revoked and other organizations' keys are refused alike.",
    403: "The key lacks the scope.",
    404: "There is nothing by this name, or it is another organization's.",
    409: "Something else was there first: `memory_already_initialized`, `turn_in_progress`.",
    413: "The body is over the limit.",
    422: "Something in the request does not fit; `problems` says what, and never repeats it.",
    429: "Too many wrong keys from one address, or too many turns at once.",
    503: "The database or the model does not answer right now.",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def describe(table: Sequence[ApiRoute]) -> dict[str, Any]:
    """The whole document."""
    refs, schemas = _schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION, "description": ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "x-api-key"}},
            "schemas": schemas,
        },
        "x-scopes": [str(scope) for scope in Scope],
    }


def about(model: type[BaseModel]) -> str:
    """What a model says of itself, on one line. A list says what every list does."""
    doc = next(kind.__doc__ for kind in model.__mro__ if kind.__doc__)
    return " ".join(doc.split())


def _schemas(table: Sequence[ApiRoute]) -> tuple[Mapping[type[BaseModel], Any], dict[str, Any]]:
    """Where each model is described, and the descriptions."""
    taken: list[type[Input]] = [route.takes for route in table if route.takes is not None]
    given: list[type[Output]] = [model for route in table for model in route.gives.values() if model is not None]
    given += [Error, *EVENTS.values()]
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        *[_in_mode(model, "validation") for model in dict.fromkeys(taken)],
        *[_in_mode(model, "serialization") for model in dict.fromkeys(given)],
    ]
    found, whole = models_json_schema(wanted, ref_template=_REF)
    return {model: found[model, mode] for model, mode in wanted}, whole["$defs"]


def _in_mode(model: type[BaseModel], mode: JsonSchemaMode) -> tuple[type[BaseModel], JsonSchemaMode]:
    return model, mode


def _operation(route: ApiRoute, refs: Mapping[type[BaseModel], Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "tags": [route.template[1]],
        "summary": route.summary,
        "description": f"{route.about}\n\nScope: `{route.scope}`.".strip(),
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _given(route, model, refs) for status, model in route.gives.items()},
            **{str(status): _refused(status, refs) for status in route.refusals},
            "500": {"description": "A fault of ours.", "content": _json(refs[Error])},
        },
    }
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": _json(refs[route.takes])}
    return operation


def _operation_id(route: ApiRoute) -> str:
    """``get_agents_agentId_versions``: the method and the path."""
    parts = [part.strip("{}") for part in route.template[1:]]
    return "_".join((route.method.lower(), *parts))


def _parameters(route: ApiRoute) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": _IDS[name], "schema": _name_schema(name)}
        for name in route.names
    ]
    if route.is_list:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        cursor = {"type": "string", "minLength": 1, "maxLength": 512}
        found.append({"name": "limit", "in": "query", "description": "How many at most.", "schema": limit})
        found.append(
            {"name": "cursor", "in": "query", "description": "The part before's nextCursor.", "schema": cursor}
        )
    for name, about in route.filters.items():
        found.append({"name": name, "in": "query", "description": about, "schema": _name_schema(name)})
    if route.streams:
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
        about = "The same key and body within 24 hours are the same turn."
        found.append({"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema})
    return found


def _name_schema(name: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, **({"maxLength": 255} if name == "subjectId" else {})}


def _given(route: ApiRoute, model: type[Output] | None, refs: Mapping[type[BaseModel], Any]) -> dict[str, Any]:
    if model is None:
        return {"description": "Done."}
    described: dict[str, Any] = {"description": about(model), "content": _json(refs[model])}
    if route.streams:
        described["content"]["text/event-stream"] = {
            "schema": {
                "type": "string",
                "description": "Server-sent events: `event:` names one of those in `x-events`, `data:` is its JSON. A "
                "comment comes at least every 15 seconds. After a failure `error` comes before `turn.ended`.",
            },
            "x-events": {name: refs[event] for name, event in EVENTS.items()},
        }
    return described


def _refused(status: int, refs: Mapping[type[BaseModel], Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": _REFUSED.get(status, HTTPStatus(status).phrase),
        "content": _json(refs[Error]),
    }
    if status in (429, 503):
        described["headers"] = _RETRY
    return described


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
