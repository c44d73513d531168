"""What callers send: the bodies of the API's requests. Each field's bound stands beside it."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from agent.configuration import FALLBACKS_MAX, INSTRUCTIONS_MAX_CHARS, MODEL_MAX_CHARS, NAME_MAX_CHARS
from webapp.api.base import Input, Subject, Text, Words

MAX_TITLE_CHARS = 200
MAX_EVALUATION_MESSAGES = 200
#: More than any document holds; how many really fit is the rules' to say.
MAX_SEED_ENTRIES = 2_000
#: More than any installation takes in one message; its own bound is REMEMBRANCER_MESSAGE_CHARS.
MAX_CONTENT_CHARS = 1_000_000

ModelName = Annotated[Words, Field(max_length=MODEL_MAX_CHARS)]


class ToolConfig(Input):
    """One switch."""

    name: Literal["memory", "session_search", "skills"]
    enabled: bool


class Toolset(Input):
    """The switches of an agent's tools. One that is not named is on."""

    type: Literal["agent_toolset"]
    configs: list[ToolConfig] = Field(max_length=3)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({config.name for config in self.configs}) < len(self.configs):
            raise ValueError("names a tool twice")
        return self


class _OrAloneInAList:
    """Lets a value come as it is, or as the only one in a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._alone, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inner = handler(schema)
        return {"anyOf": [inner, {"type": "array", "items": inner, "minItems": 1, "maxItems": 1}]}

    @staticmethod
    def _alone(value: Any) -> Any:
        return value[0] if isinstance(value, list) and len(value) == 1 else value


_Tools = Annotated[
    Toolset,
    _OrAloneInAList(),
    Field(
        default_factory=lambda: Toolset(type="agent_toolset", configs=[]),
        description='`{"type":"agent_toolset","configs":[{"name":"memory","enabled":true}]}`, also alone in a list. '
        "The switches are `memory`, `session_search` and `skills`; one that is not named is on.",
    ),
]

_Name = Annotated[Words, Field(max_length=NAME_MAX_CHARS)]
_Instructions = Annotated[
    Text,
    Field(max_length=INSTRUCTIONS_MAX_CHARS, description="What the agent is told first. Empty: a helpful assistant."),
]
_Model = Annotated[
    Text, Field(max_length=MODEL_MAX_CHARS, description="Empty: the deployment's model, with its fallbacks.")
]
_Fallbacks = Annotated[
    list[ModelName],
    Field(max_length=FALLBACKS_MAX, description="Tried in order before the first word, beside a `model` only."),
]


class CreateAgent(Input):
    """A new agent."""

    name: _Name
    instructions: _Instructions = ""
    model: _Model = ""
    fallback_models: _Fallbacks = Field(default_factory=list)
    tools: _Tools


def _without_defaults(schema: dict[str, Any]) -> None:
    """What is not sent stays as it is: that is no default."""
    for field in schema["properties"].values():
        field.pop("default", None)


class ChangeAgent(Input):
    """What is to be different in an agent's next version. A field that is not sent stays; one that is, is replaced."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    name: _Name = ""
    instructions: _Instructions = ""
    model: _Model = ""
    fallback_models: _Fallbacks = Field(default_factory=list)
    tools: _Tools


SeedEntries = Annotated[
    list[str],
    Field(max_length=MAX_SEED_ENTRIES),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_SEED_ENTRIES}),
]


class SeedMemory(Input):
    """The beginning of a memory: concise facts that an operator wrote. At least one entry."""

    user_memory_entries: SeedEntries = Field(
        default_factory=list, description="For USER.md, who the subject is and how they like to be answered."
    )
    agent_memory_entries: SeedEntries = Field(
        default_factory=list, description="For MEMORY.md, what the agent should know about the work."
    )


class CreateSession(Input):
    """Whom the session is for, and with which agent."""

    agent_id: Words
    subject_id: Subject


class ChangeSession(Input):
    """A session's new title."""

    title: Annotated[Words, Field(max_length=MAX_TITLE_CHARS)]


class SendMessage(Input):
    """The next message of a session."""

    content: Annotated[Words, Field(max_length=MAX_CONTENT_CHARS)]


class EvaluationMessage(Input):
    """One message of the conversation to be judged."""

    role: Literal["user", "assistant"]
    content: Annotated[Words, Field(max_length=MAX_CONTENT_CHARS)]


class Evaluate(Input):
    """A conversation, the last word of which is a user's. It is about nobody: there is no field for a subject."""

    agent_id: Words
    messages: list[EvaluationMessage] = Field(min_length=1, max_length=MAX_EVALUATION_MESSAGES)

    @model_validator(mode="after")
    def _ends_with_a_question(self) -> Self:
        if self.messages[-1].role != "user":
            raise ValueError("must end with a message of the role user")
        return self
