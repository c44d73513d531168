"""Whatever is sent, the answer is one that the description knows: no fault of ours, no status and no shape besides."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.model_server import ModelServer, finish, text
from tests.webapp.api.calling import Answer, Caller, caller, events
from tests.webapp.api.test_refusals import names
from tests.webapp.product import Product
from webapp.api.description import describe
from webapp.api.outputs import EVENTS, Error
from webapp.api.table import ApiRoute
from webapp.routes.v1 import TABLE

__all__ = ["names"]

SCHEMAS = describe(TABLE)["components"]["schemas"]
#: Characters that have made trouble before: NUL, surrogates, separators, combining marks, what URLs and SQL mean.
CHARACTERS = st.one_of(st.characters(), st.sampled_from("\0\ud800\udfff\u2028%/?#&=.;'\"\\§😀\u0308 "))
TEXTS = st.text(CHARACTERS, max_size=40)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """What a schema of ours allows, and now and then what it does not."""
    return st.one_of(_fitting(schema), _fitting(schema), _fitting(schema), _fitting(schema), JUNK)


def _fitting(schema: Any) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _fitting(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    if "anyOf" in schema:
        return st.one_of([_fitting(each) for each in schema["anyOf"]])
    match schema.get("type"):
        case "string":
            return st.one_of(st.sampled_from(["Hello", "ada", "{agentId}"]), TEXTS)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(fitting(schema["items"]), max_size=4)
        case "object":
            fields = {name: fitting(each) for name, each in schema["properties"].items()}
            needed = {name: fields.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=fields)
    raise AssertionError(schema)


@st.composite
def calls(draw: st.DrawFn) -> tuple[ApiRoute, dict[str, bytes | None], str, bytes | None, dict[str, str]]:
    """A route, what stands for its names (None: the right one), a query, a body, and headers."""
    route = draw(st.sampled_from(TABLE))
    segments = st.one_of(st.just(None), st.just(None), TEXTS.map(_quoted), st.binary(max_size=6).map(_quoted_bytes))
    ids = {name: draw(segments) for name in route.names}
    query = draw(
        st.sampled_from(["", "", "", "?limit=1", "?limit=0", "?cursor=W10", "?subjectId=%FF", "?x=1", "?limit"])
    )
    headers = {"accept": draw(st.sampled_from(["application/json", "text/event-stream", "*/*"]))}
    if draw(st.integers(0, 3)) == 0:
        headers["idempotency-key"] = draw(st.sampled_from(["k", "k", "x" * 300, "~"]))
    if route.takes is None:
        return route, ids, query, None, headers
    headers["content-type"] = draw(st.sampled_from(["application/json"] * 6 + ["text/plain", "application/json; x=y"]))
    body = draw(fitting({"$ref": f"#/{route.takes.__name__}"}).map(lambda value: json.dumps(value).encode()))
    return route, ids, query, draw(st.one_of(*[st.just(body)] * 6, st.binary(max_size=20))), headers


def _quoted(text: str) -> bytes:
    return quote(text, safe="", errors="surrogatepass").encode()


def _quoted_bytes(raw: bytes) -> bytes:
    return quote(raw, safe="%").encode()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(call=calls())
def test_every_answer_is_in_the_description(
    product: Product, model: ModelServer, names: dict[str, str], call: Any
) -> None:
    """Status and body fit the table; 429 and 503 say when to come back; there is no other 5xx."""
    route, ids, query, body, headers = call
    model.choose = lambda request: (text("Hello."), finish("stop"))
    me = known_caller(product)
    filled = {name: names[name] if value is None else value.decode() for name, value in ids.items()}
    content = body.replace(b"{agentId}", names["agentId"].encode()) if body is not None else None
    answer = me.send(route.method, route.path.format(**filled) + query, content, {"x-api-key": me.key or "", **headers})
    judge(route, answer)


_CALLERS: dict[str, Caller] = {}


def known_caller(product: Product) -> Caller:
    """One key for all the calls of a product."""
    if product.url not in _CALLERS:
        _CALLERS[product.url] = caller(product)
    return _CALLERS[product.url]


def judge(route: ApiRoute, answer: Answer) -> None:
    """Fail unless the table describes this answer."""
    status = answer.status_code
    # A path whose name is empty is another path.
    assert status in route.gives or status in route.refusals or status in (404, 405), answer.text
    if status in route.gives:
        model = route.gives[status]
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert route.streams
            for name, data in events(answer.text):
                EVENTS[name].model_validate(data)
        elif model is None:
            assert answer.content == b""
        else:
            model.model_validate(answer.json())
        return
    Error.model_validate(answer.json())
    assert ("retry-after" in answer.headers) == (status in (429, 503))


def test_the_judge_bites(product: Product) -> None:
    """A status or a field that nobody described would be noticed."""
    route = next(route for route in TABLE if route.path == "/v1/agents" and route.method == "GET")
    with pytest.raises(AssertionError):
        judge(route, Answer(418, {}, b"{}"))
    with pytest.raises(ValueError):
        judge(route, Answer(200, {}, b'{"data": [], "nextCursor": null, "more": 1}'))
    with pytest.raises(AssertionError):
        judge(route, Answer(503, {}, b'{"error": {"code": "x", "message": "x", "requestId": "x"}}'))
