"""The events of a log, and the frames about its connection, as models. `Event` is their union, discriminated by `type`.

`docs/reference/streams.md` describes each type. What this version does not know never fails: an event of an unknown type, or with
unexpected content, is an `UnknownEvent`; unknown fields are kept.

- `base`    what all events have in common
- `run`     the events of a run
- `work`    plans, operations, consoles, the conversation's context
- `frames`  snapshots, and frames about the connection
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, cast, get_args

from pydantic import Field, ValidationError

from .base import EventModel, RunEvent
from .frames import (
    CaughtUpEvent,
    GapEvent,
    GoawayEvent,
    OpenEvent,
    RewoundEvent,
    SnapshotAgent,
    SnapshotEvent,
    SnapshotToolCall,
    SnapshotTurn,
    UnknownEvent,
)
from .run import (
    AgentStateEvent,
    ClarifyingQuestionsEvent,
    CustomEvent,
    DoneEvent,
    ErrorEvent,
    HandoffEvent,
    LimitEvent,
    MessageEvent,
    MetaEvent,
    OutputEvent,
    QuestionAnsweredEvent,
    QuestionEvent,
    ReasoningEvent,
    ResetEvent,
    SubAgentEvent,
    TokenEvent,
    ToolEvent,
    UsageEvent,
)
from .work import (
    ConsoleCreationEvent,
    ConsoleModificationEvent,
    ContextShiftEvent,
    ContextUsageEvent,
    DebugContextEvent,
    ExecutorEvent,
    FocusEvent,
    LastTurnContextEvent,
    OperationEvent,
    PlanEvent,
    PlanStepEvent,
    TelemetryEvent,
)

Event: TypeAlias = Annotated[
    MessageEvent
    | MetaEvent
    | TokenEvent
    | ReasoningEvent
    | ToolEvent
    | ResetEvent
    | AgentStateEvent
    | UsageEvent
    | HandoffEvent
    | QuestionEvent
    | QuestionAnsweredEvent
    | SubAgentEvent
    | LimitEvent
    | OutputEvent
    | CustomEvent
    | ErrorEvent
    | DoneEvent
    | ClarifyingQuestionsEvent
    | PlanEvent
    | PlanStepEvent
    | ExecutorEvent
    | OperationEvent
    | ContextUsageEvent
    | ContextShiftEvent
    | FocusEvent
    | ConsoleCreationEvent
    | ConsoleModificationEvent
    | LastTurnContextEvent
    | TelemetryEvent
    | DebugContextEvent
    | SnapshotEvent
    | OpenEvent
    | CaughtUpEvent
    | GoawayEvent
    | GapEvent
    | RewoundEvent
    | UnknownEvent,
    Field(discriminator="type"),
]
"""An event of a log, or a frame about its connection. Compare `type`, or use `match`, to get at its fields."""


def _by_type() -> dict[str, type[EventModel]]:
    """Returns the models by the values of their `type`."""
    models: tuple[type[EventModel], ...] = get_args(get_args(Event)[0])
    return {name: model for model in models for name in get_args(model.model_fields["type"].annotation)}


_MODELS = _by_type()


def parse_event(data: Any, seq: int | None = None) -> Event:
    """Returns the event that a frame's JSON describes. `seq` is the frame's id. Never raises: see `UnknownEvent`."""
    if not isinstance(data, Mapping):
        return UnknownEvent(name="", data={"value": data}, seq=seq)
    fields = cast("Mapping[str, Any]", data)
    name = fields.get("type")
    model = _MODELS.get(name) if isinstance(name, str) else None
    if model is not None and model is not UnknownEvent:
        try:
            return cast("Event", model.model_validate({**fields, "seq": seq}))
        except ValidationError:
            pass
    return UnknownEvent(name=str(name), data=dict(fields), seq=seq)


__all__ = [
    "AgentStateEvent",
    "CaughtUpEvent",
    "ClarifyingQuestionsEvent",
    "ConsoleCreationEvent",
    "ConsoleModificationEvent",
    "ContextShiftEvent",
    "ContextUsageEvent",
    "CustomEvent",
    "DebugContextEvent",
    "DoneEvent",
    "ErrorEvent",
    "Event",
    "EventModel",
    "ExecutorEvent",
    "FocusEvent",
    "GapEvent",
    "GoawayEvent",
    "HandoffEvent",
    "LastTurnContextEvent",
    "LimitEvent",
    "MessageEvent",
    "MetaEvent",
    "OpenEvent",
    "OperationEvent",
    "OutputEvent",
    "PlanEvent",
    "PlanStepEvent",
    "QuestionAnsweredEvent",
    "QuestionEvent",
    "ReasoningEvent",
    "ResetEvent",
    "RewoundEvent",
    "RunEvent",
    "SnapshotAgent",
    "SnapshotEvent",
    "SnapshotToolCall",
    "SnapshotTurn",
    "SubAgentEvent",
    "TelemetryEvent",
    "TokenEvent",
    "ToolEvent",
    "UnknownEvent",
    "UsageEvent",
    "parse_event",
]
