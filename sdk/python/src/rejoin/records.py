"""What the API stores and returns: conversations, messages, runs, questions, files, models, agents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, Field, field_validator

from .model import Model

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Page(Model, Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = None
    """Start of the next page. None: this is the last one."""


class Accepted(Model):
    """The response to a message: it is stored."""

    conversation_id: str
    message_id: str
    run_id: str
    cursor: int
    """The whole turn comes after this event number."""


class FileRef(Model):
    """A reference to a file, in messages and events."""

    file_id: str
    name: str
    media_type: str
    size_bytes: int
    sha256: str


class File(Model):
    """A stored file."""

    id: str
    name: str
    media_type: str
    """Detected from its content."""
    kind: str | None = None
    """How models read it: `image`, `pdf`, `audio` or `text`. None: they can't."""
    size_bytes: int
    sha256: str
    """The SHA-256 of its content, in hexadecimal digits."""
    content_url: str
    run_id: str | None = None
    """The run whose tool created it."""
    created_at: datetime


class Message(Model):
    """A message of a conversation."""

    id: str
    role: str
    """`user`, `assistant`, `system`; `tool`, if a list includes the results of tools."""
    content: str
    created_at: datetime
    conversation_id: str | None = None
    seq: int | None = None
    """The number of its event, in lists and snapshots."""
    attachments: list[FileRef] = []
    """The files that came with it."""
    citations: list[Any] | None = None
    attached_context: Any = None
    """The consoles, databases and other context that came with it."""
    retrieval_context: dict[str, Any] | None = None
    """Of an assistant's message: `agent_run_id` is the run that wrote it."""
    metadata: dict[str, Any] | None = None
    run_id: str | None = None
    """In snapshots, of a user's message: the run that answers it."""
    run_state: str | None = None
    """In snapshots: the state of that run."""
    tool_call_id: str | None = None
    tool_name: str | None = None

    @field_validator("attachments", mode="before")
    @classmethod
    def _files(cls, value: Any) -> Any:
        """Lists name a file's fields differently than events do, and contain other context, too."""
        if not isinstance(value, list):
            return value or []
        files = (_file(item) for item in cast("Iterable[Any]", value))
        return [file for file in files if file is not None]


def _file(item: Any) -> Any:
    """Returns the reference to a file with the names that events use. None: the item is no file."""
    if not isinstance(item, dict):
        return item
    fields = cast("dict[str, Any]", item)
    if "fileId" not in fields and "file_id" not in fields:
        return None
    metadata: dict[str, Any] = fields.get("metadata") or {}
    named = {"name": fields.get("title"), "sha256": metadata.get("sha256")}
    return {**{field: value for field, value in named.items() if value is not None}, **fields}


class Conversation(Model):
    """A conversation."""

    id: str
    title: str
    agent_definition_id: str | None = None
    metadata: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime


class Usage(Model):
    """Sums over a run: tokens, dollars, and the number of model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    context_tokens: int | None = None
    """The input of the last model call."""
    cost_usd: float | None = None
    steps: int = 0


class Failure(Model):
    """Why a run has failed."""

    error: str
    code: str
    retryable: bool = False


class Run(Model):
    """A run: one execution of an agent."""

    id: str
    state: str
    """`queued`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled`."""
    conversation_id: str | None = None
    root_run_id: str
    parent_run_id: str | None = None
    agent: str | None = None
    agent_definition_id: str | None = None
    model: str | None = None
    attempt: int
    total_steps: int
    usage: Usage = Usage()
    input: str = ""
    summary: str | None = None
    """The run's answer."""
    output: dict[str, Any] | None = None
    """The answer as data, if a schema was given."""
    error: str | None = None
    error_code: str | None = None
    message_id: str | None = None
    final_message_id: str | None = None
    children: list[str] = []
    cursor: int = 0
    """All its events come after this number."""
    done_seq: int | None = None
    """The number of its `done`."""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class QuestionOption(Model):
    """A possible answer."""

    label: str
    value: str
    description: str | None = None


class Question(Model):
    """A question of a run to a person, or a call that the run's client executes."""

    id: str
    run_id: str
    kind: str
    """`ask`, `confirm`, `plan` or `client_tool`."""
    question: str
    options: list[QuestionOption] = []
    interaction_type: str
    """`buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`."""
    status: str
    """`pending`, `answered`, `expired` or `cancelled`."""
    answer: Any = None
    created_at: datetime
    answered_at: datetime | None = None


class Cancelled(Model):
    """The response to a cancellation."""

    run_id: str
    state: str
    """Its current state: `running`, until its worker has stopped it."""


class Steered(Model):
    """The response to a message to an active run."""

    run_id: str
    message_id: str
    seq: int
    """The number of the message's event."""


class Resumed(Model):
    """The response to the resumption of a paused run."""

    run_id: str
    cursor: int
    """The whole new turn comes after this event number."""


class ListedAgent(Model):
    """An agent that the key's user can choose."""

    id: str
    name: str
    description: str
    flow_type: str
    """`single`, `sequential`, `loop`, `parallel`, `discussion` or `function`."""
    is_default: bool = False


class ModelPrice(Model):
    """Prices in dollars per million tokens."""

    input_usd: float
    output_usd: float
    cached_usd: float | None = None
    cache_write_usd: float | None = None


class CatalogueModel(Model):
    """A language model of the catalogue."""

    name: str
    """With its provider, such as `openai:gpt-6-sol`: the value of a definition's `model.name`."""
    provider: str
    has_key: bool | None = None
    """Whether the server has a key for its provider; None: unknown."""
    is_default: bool = False
    is_retired: bool = False
    can: list[str] | None = None
    """Capabilities, such as `tools` or `images`; None: unknown."""
    price: ModelPrice | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    retires_on: str | None = None
    successor: str | None = None


class Caller(Model):
    """The user and the project of the key."""

    user_id: str
    handle: str
    project_id: str
    role: str
    scopes: list[str]


class TurnResult(BaseModel):
    """How a turn has ended."""

    run_id: str
    conversation_id: str | None
    status: str
    """`completed`, `failed`, `cancelled` or `paused`."""
    text: str
    """The stored answer. Of a run that failed or was cancelled: what it had written."""
    message: Message | None = None
    """The stored message, if it was part of what was read."""
    output: dict[str, Any] | None = None
    """The answer as data, if `output_schema` was given."""
    usage: Usage = Field(default_factory=Usage)
    error: Failure | None = None

    def parse(self, model: type[M]) -> M:
        """Returns `output` as an instance of a pydantic model.

        Raises `pydantic.ValidationError` if it does not fit, or there is none.
        """
        return model.model_validate(self.output)
