"""What all models of the API have in common: camelCase outside, strict inside, texts that can be stored.

Models of what is sent in refuse unknown keys and convert nothing. Models of what goes out are what the description
shows; a test holds every response against them.
"""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from memory_core.owner import SUBJECT_MAX_CHARS


class Input(BaseModel):
    """Something a caller sends. Unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        hide_input_in_errors=True,
    )


class Output(BaseModel):
    """Something a caller is sent. Every field is always there; what is not known is null."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        hide_input_in_errors=True,
        json_schema_serialization_defaults_required=True,
    )


def _storable(text: str) -> str:
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("holds U+0000 or an unpaired surrogate")
    return text


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("holds nothing but white space")
    return text


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


#: A text that PostgreSQL can keep as it is.
Text = Annotated[str, AfterValidator(_storable)]
#: The same, with something in it. In the description a pattern says so.
Words = Annotated[Text, AfterValidator(_said), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]
#: Whose memory: compared letter by letter.
Subject = Annotated[
    Text,
    Field(
        min_length=1,
        max_length=SUBJECT_MAX_CHARS,
        description="Any string its operator chose, compared letter by letter. No U+0000, no unpaired surrogate.",
    ),
]
#: ISO 8601, UTC, milliseconds.
Moment = Annotated[
    datetime,
    PlainSerializer(_iso, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
