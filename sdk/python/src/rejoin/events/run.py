"""The events of a run: its text, calls, questions and end."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..records import Message, QuestionOption, Usage
from .base import EventModel, RunEvent


class MessageEvent(EventModel):
    """A message was stored: the user's immediately, the assistant's at the end."""

    type: Literal["message"] = "message"
    run_id: str | None = None
    message: Message


class MetaEvent(RunEvent):
    """The turn begins."""

    type: Literal["meta"] = "meta"
    conversation_id: str | None = None
    agent_definition_id: str | None = None
    model: str
    citations: list[Any] = []
    attempt: int = 1


class TokenEvent(RunEvent):
    """A part of the reply: the increment only."""

    type: Literal["token"] = "token"
    token: str


class ReasoningEvent(RunEvent):
    """A part of the model's reasoning."""

    type: Literal["reasoning"] = "reasoning"
    text: str


class ToolEvent(RunEvent):
    """A tool call begins or ends. `started` precedes the call."""

    type: Literal["mcp_tool"] = "mcp_tool"
    call_id: str
    tool: str
    status: str
    """`started`, `completed` or `error`."""
    input: Any = None
    result: Any = None
    error: str | None = None
    duration_ms: int | None = None


class ResetEvent(RunEvent):
    """A worker was lost in the middle of a step: this run's events after `discard_after` and before this one are void."""

    type: Literal["reset"] = "reset"
    discard_after: int
    attempt: int
    reason: str


class AgentStateEvent(RunEvent):
    """The agent begins to think, or waits."""

    type: Literal["agent_state"] = "agent_state"
    state: str
    """`thinking`, `executing_plan`, `waiting_on_user` or `waiting_on_agents`."""
    details: Any = None
    context_type: str | None = None


class UsageEvent(RunEvent, Usage):
    """Sums over the run so far, after each model call."""

    type: Literal["usage"] = "usage"


class HandoffEvent(RunEvent):
    """Another agent continues the run."""

    type: Literal["handoff"] = "handoff"
    from_agent: str = Field(alias="from")
    to_agent: str = Field(alias="to")
    reason: str | None = None
    agent_definition_id: str | None = None


class QuestionEvent(RunEvent):
    """The run waits for a person, or for its client."""

    type: Literal["question"] = "question"
    question_id: str
    question: str
    options: list[QuestionOption] = []
    interaction_type: str
    """`buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`."""
    call_id: str | None = None
    tool: str | None = None
    input: Any = None


class QuestionAnsweredEvent(RunEvent):
    """A question was answered, expired or was cancelled."""

    type: Literal["question_answered"] = "question_answered"
    question_id: str
    status: str
    answer: Any = None


class SubAgentEvent(RunEvent):
    """A sub-agent was started or has ended: `run_id` is the sub-agent's."""

    type: Literal["sub_agent"] = "sub_agent"
    status: str
    """`started`, `completed`, `failed`, `cancelled` or `paused`."""
    task: str | None = None
    summary: str | None = None
    error: str | None = None
    code: str | None = None
    usage: Usage | None = None


class LimitEvent(RunEvent):
    """A limit was reached."""

    type: Literal["limit"] = "limit"
    limit: str
    message: str


class OutputEvent(RunEvent):
    """The structured output, if a JSON Schema was given."""

    type: Literal["output"] = "output"
    output: dict[str, Any]


class CustomEvent(RunEvent):
    """An event of a program, which it has emitted while it executed a tool or the turn of an agent."""

    type: Literal["custom"] = "custom"
    name: str
    data: Any = None
    call_id: str | None = None
    """The call of the tool. None: the turn of an agent."""


class ErrorEvent(RunEvent):
    """Why the run fails. Always before `done`."""

    type: Literal["error"] = "error"
    error: str
    code: str
    retryable: bool = False


class DoneEvent(RunEvent):
    """The end of a turn: exactly one per turn, after all its other events."""

    type: Literal["done"] = "done"
    status: str
    """`completed`, `failed`, `cancelled` or `paused`."""
    final_message_id: str | None = None
    usage: Usage | None = None


class ClarifyingQuestionsEvent(RunEvent):
    """All questions of a step. Each also comes as a `question`."""

    type: Literal["clarifying_questions"] = "clarifying_questions"
    questions: list[dict[str, Any]]
