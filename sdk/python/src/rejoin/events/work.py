"""The events about plans, operations, consoles and the conversation's context. Nested objects are left as the server sends them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import EventModel, RunEvent


class PlanEvent(RunEvent):
    """An agent has made a plan, or a draft plan waits for approval or was reviewed."""

    type: Literal["plan_created", "plan_ready_for_review", "plan_review"]
    plan: dict[str, Any]


class PlanStepEvent(RunEvent):
    """A step of the plan begins or has ended."""

    type: Literal["step_start", "step_complete"]
    step: dict[str, Any]


class ExecutorEvent(RunEvent):
    """A separate run executes a step of a plan, or has ended."""

    type: Literal["executor_spawned", "executor_result"]
    executor_id: str
    task: dict[str, Any] | None = None
    result: dict[str, Any] | None = None


class OperationEvent(RunEvent):
    """A tool's operation on an entity, for users."""

    type: Literal["operation"] = "operation"
    operation: dict[str, Any]


class ContextUsageEvent(RunEvent):
    """How full the model's context window is."""

    type: Literal["context_usage"] = "context_usage"
    usage: dict[str, Any]


class ContextShiftEvent(RunEvent):
    """A tool has changed the conversation's context."""

    type: Literal["context_shift"] = "context_shift"
    context_shift: dict[str, Any] = Field(alias="context_shift")


class FocusEvent(EventModel):
    """The conversation's context at the start of the turn, or its change. `focus` None: it has none."""

    type: Literal["focus_active", "focus_changed"]
    run_id: str | None = None
    focus: dict[str, Any] | None = None


class ConsoleCreationEvent(RunEvent):
    """An agent has opened a console."""

    type: Literal["console_creation"] = "console_creation"
    console_id: str
    title: str
    content: str
    version: int


class ConsoleModificationEvent(RunEvent):
    """An agent has changed a console's text, which now has this version."""

    type: Literal["console_modification"] = "console_modification"
    console_id: str
    modification: dict[str, Any]
    version: int


class LastTurnContextEvent(RunEvent):
    """The context of the previous turn; at the end of a turn, of this one."""

    type: Literal["last_turn_context"] = "last_turn_context"
    context: dict[str, Any]


class TelemetryEvent(RunEvent):
    """How something was decided. `routing` describes the assignment of the conversation's agent."""

    type: Literal["telemetry"] = "telemetry"
    name: str
    data: Any = None


class DebugContextEvent(RunEvent):
    """The model's input, if the operator has enabled it."""

    type: Literal["debug_context"] = "debug_context"
    debug: Any = None
