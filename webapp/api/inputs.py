"""What callers send: the bodies of the API's requests. Each field's bound stands beside it."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from webapp.api.base import Input, Subject, Text, Words

MAX_INSTRUCTIONS_CHARS = 20_000
MAX_MODEL_CHARS = 200
MAX_FALLBACK_MODELS = 8
MAX_NAME_CHARS = 100
MAX_TITLE_CHARS = 200
MAX_EVALUATION_MESSAGES = 200
#: More than any document holds; how many really fit is the rules' to say.
MAX_SEED_ENTRIES = 2_000
#: More than any installation takes in one message; its own bound is REMEMBRANCER_MESSAGE_CHARS.
MAX_CONTENT_CHARS = 1_000_000

ModelName = Annotated[Words, Field(max_length=MAX_MODEL_CHARS)]


class ToolConfig(Input):
    """One switch."""

    name: Literal["memory", "session_search", "skills"]
    enabled: bool


class ToolsetInput(Input):
    """The switches of an agent's tools. One that is not named is on."""

    type: Literal["agent_toolset"]
    configs: list[ToolConfig] = Field(max_length=3)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({config.name for config in self.configs}) < len(self.configs):
            raise ValueError("names a tool twice")
        return self


def _alone(value: Any) -> Any:
    """A toolset, or a list that holds just one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


Toolset = Annotated[ToolsetInput, BeforeValidator(_alone)]

_Name = Annotated[Words, Field(max_length=MAX_NAME_CHARS)]
_Instructions = Annotated[
    Text,
    Field(max_length=MAX_INSTRUCTIONS_CHARS, description="What the agent is told first. Empty: a helpful assistant."),
]
_Model = Annotated[
    Text, Field(max_length=MAX_MODEL_CHARS, description="Empty: the deployment's model, with its fallbacks.")
]
_Fallbacks = Annotated[
    list[ModelName],
    Field(max_length=MAX_FALLBACK_MODELS, description="Tried in order before the first word, beside a `model` only."),
]


class CreateAgent(Input):
    """A new agent."""

    name: _Name
    instructions: _Instructions = ""
    model: _Model = ""
    fallback_models: _Fallbacks = Field(default_factory=list)
    tools: Toolset = Field(default_factory=lambda: ToolsetInput(type="agent_toolset", configs=[]))


class ChangeAgent(Input):
    """What is to be different in an agent's next version. A field that is not sent stays; one that is, is replaced."""

    name: _Name = ""
    instructions: _Instructions = ""
    model: _Model = ""
    fallback_models: _Fallbacks = Field(default_factory=list)
    tools: Toolset = Field(default_factory=lambda: ToolsetInput(type="agent_toolset", configs=[]))


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
