"""Snapshots, and the frames about a connection, which have no number."""

from __future__ import annotations

from typing import Any, Literal

from ..model import Model
from ..records import Message
from .base import EventModel
from .run import MetaEvent, QuestionEvent


class SnapshotToolCall(Model):
    """A tool call in a snapshot."""

    call_id: str
    tool: str
    status: str
    input: Any = None
    result: Any = None
    error: str | None = None
    after_text: int = 0
    """The length of the text before it, in UTF-16 units."""


class SnapshotAgent(Model):
    """A sub-agent in a snapshot."""

    run_id: str
    parent_run_id: str | None = None
    agent: str | None = None
    source: str | None = None
    step_number: int | None = None
    status: str
    task: str | None = None
    text: str = ""
    tool_calls: list[SnapshotToolCall] = []
    after_text: int = 0
    """The length of its parent's text before it began, in UTF-16 units."""


class SnapshotTurn(Model):
    """The active turn in a snapshot."""

    run_id: str
    meta: MetaEvent | None = None
    text: str = ""
    reasoning: str = ""
    tool_calls: list[SnapshotToolCall] = []
    agents: list[SnapshotAgent] = []
    questions: list[QuestionEvent] = []


class SnapshotEvent(EventModel):
    """The state of a log at `through`. It stands for all events up to that number."""

    type: Literal["snapshot"] = "snapshot"
    through: int
    messages: list[Message]
    """The newest 200."""
    turn: SnapshotTurn | None = None
    """The turn that is active, or the next one that is queued."""


class OpenEvent(EventModel):
    """The stream has begun."""

    type: Literal["open"] = "open"


class CaughtUpEvent(EventModel):
    """All events that the log had when the reader connected have been sent; the following ones are live."""

    type: Literal["caught_up"] = "caught_up"
    through: int


class GoawayEvent(EventModel):
    """The server is shutting down."""

    type: Literal["goaway"] = "goaway"


class GapEvent(EventModel):
    """The events between the cursor and `oldest` are no longer stored. A `snapshot` follows."""

    type: Literal["gap"] = "gap"
    after: int
    oldest: int


class RewoundEvent(EventModel):
    """The log was taken back before the cursor: the database was restored, or a failover lost its last commits. A `snapshot` follows."""

    type: Literal["rewound"] = "rewound"
    after: int
    last: int


class UnknownEvent(EventModel):
    """An event that this version does not know."""

    type: Literal["unknown"] = "unknown"
    name: str
    """Its `type` on the wire."""
    data: dict[str, Any]
    """The event as the server sent it."""

    @property
    def run_id(self) -> str | None:
        """The run that it comes from, if it has one."""
        run_id = self.data.get("runId")
        return run_id if isinstance(run_id, str) else None
