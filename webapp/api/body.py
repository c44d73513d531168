"""The body of a request: JSON in UTF-8, judged strictly by its model. What is refused is never repeated.

The standard library's parser, because it can be told to refuse what it would else pass over: constants that are no
JSON, and keys that come twice.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from webapp.errors import BodyMalformed, Problem, RequestInvalid

Model = TypeVar("Model", bound=BaseModel)

#: Codes of our own for what the models find most often.
_CODES = {
    "extra_forbidden": "unknown_key",
    "string_too_long": "too_long",
    "string_too_short": "too_short",
    "value_error": "invalid",
    "model_type": "not_an_object",
}
_MESSAGES = {"extra_forbidden": "There is no such key here", "model_type": "Input should be an object"}
#: A problem more does not help anybody, and a body can hold many thousand.
_MOST_PROBLEMS = 20
_MOST_KEY_CHARS = 100


async def read_body(request: Request, model: type[Model]) -> Model:
    """The body as its model. Raises BodyMalformed, BodyTooLarge and RequestInvalid."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise BodyMalformed
    return judge(parse(await request.body()), model)


def parse(body: bytes) -> Any:
    """The value that the body holds. Raises BodyMalformed, also for an object with the same key twice."""
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        pass
    raise BodyMalformed  # outside the `except`: the parser's error holds the body


def judge(value: Any, model: type[Model]) -> Model:
    """The value as its model. Raises RequestInvalid."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [_problem(each) for each in error.errors(include_url=False, include_input=False)[:_MOST_PROBLEMS]]
    raise RequestInvalid(*problems)  # outside the `except`: the validator's error holds the value


def _refuse_constant(name: str) -> None:
    raise ValueError


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _problem(error: ErrorDetails) -> Problem:
    kind = error["type"]
    code = _CODES.get(kind, kind)
    message = _MESSAGES.get(kind, error["msg"].removeprefix("Value error, "))
    return Problem(_path(error["loc"]), code, message)


def _path(location: Sequence[int | str]) -> str:
    """``tools.configs[1].name``. A key that nobody knows is shown as far as it can be, so that it is found."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            shown = step[:_MOST_KEY_CHARS].encode("utf-8", "replace").decode()
            path += f".{shown}" if path else shown
    return path
