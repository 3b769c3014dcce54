"""The state of one turn, folded from its events. `Transcript` finds the turn of each event; here the turn takes it in.

A turn keeps its events until it ends. A `reset` drops those that it names and folds the others again. Invariant: after a reset, a turn is
what it would be without the void events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .events import (
    AgentStateEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    HandoffEvent,
    LimitEvent,
    MetaEvent,
    OutputEvent,
    QuestionAnsweredEvent,
    QuestionEvent,
    ReasoningEvent,
    ResetEvent,
    RunEvent,
    SubAgentEvent,
    TokenEvent,
    ToolEvent,
    UsageEvent,
)
from .records import Failure, Message, QuestionOption, Usage

OVER = ("completed", "failed", "cancelled", "paused")


class TextPart:
    """A continuous piece of the reply (`type` is `text`) or of the model's reasoning (`reasoning`)."""

    def __init__(self, type: Literal["text", "reasoning"]) -> None:  # noqa: A002
        self.type: Literal["text", "reasoning"] = type
        self._pieces: list[str] = []

    def append(self, piece: str) -> None:
        """Adds an increment."""
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def __repr__(self) -> str:
        return f"TextPart({self.type!r}, {self.text!r})"


@dataclass
class ToolCall:
    """A tool call."""

    call_id: str
    tool: str
    status: str
    """`started`, `completed` or `error`."""
    input: Any = None
    result: Any = None
    error: str | None = None
    duration_ms: int | None = None
    type: Literal["tool"] = "tool"


@dataclass
class AgentPart:
    """A sub-agent, or a separate run of a plan's step, at the place where it was started."""

    turn: TurnState
    type: Literal["agent"] = "agent"


@dataclass
class ReceivedPart:
    """A message that the run received while it was active."""

    message: Message
    type: Literal["message"] = "message"


@dataclass
class HandoffPart:
    """From here on another agent answers."""

    from_agent: str
    to_agent: str
    reason: str | None = None
    type: Literal["handoff"] = "handoff"


Part: TypeAlias = TextPart | ToolCall | AgentPart | ReceivedPart | HandoffPart


@dataclass
class OpenQuestion:
    """A question of the turn, and what has become of it."""

    question_id: str
    run_id: str
    question: str
    options: list[QuestionOption]
    interaction_type: str
    status: str = "pending"
    """`pending`, `answered`, `expired` or `cancelled`."""
    answer: Any = None
    call_id: str | None = None
    tool: str | None = None
    input: Any = None


@dataclass(eq=False)
class Content:
    """What the events of a turn make of it."""

    status: str = "queued"
    agent: str | None = None
    agent_definition_id: str | None = None
    model: str | None = None
    attempt: int = 1
    parts: list[Part] = field(default_factory=list[Part])
    questions: list[OpenQuestion] = field(default_factory=list[OpenQuestion])
    citations: list[Any] = field(default_factory=list[Any])
    usage: Usage | None = None
    output: dict[str, Any] | None = None
    limits: list[LimitEvent] = field(default_factory=list[LimitEvent])
    errors: list[Failure] = field(default_factory=list[Failure])
    task: str | None = None
    summary: str | None = None


class TurnState(Content):
    """One turn: a user's message and all that answers it. It changes as events arrive: copy what you want to keep."""

    def __init__(self, id: str, run_id: str, parent: TurnState | None = None) -> None:  # noqa: A002
        super().__init__()
        self.id: str = id
        """Unique in its transcript: the run's id, with the turn's number from the run's second turn on."""
        self.run_id: str = run_id
        self.parent: TurnState | None = parent
        """The turn that has started this one, if it is a sub-agent's."""
        self.source: str | None = None
        self.step_number: int | None = None
        self.message_id: str | None = None
        """The user's message that it answers, as far as that is known."""
        self.message: Message | None = None
        """The stored answer. After the turn's end, its content equals `text`."""
        self.partial: bool = False
        """Whether the turn ended before the reader came: only its state and the text of its message are known."""
        self.resets: list[ResetEvent] = []
        """The resets: each time, a worker was lost and another one has continued."""
        # What has happened since the snapshot, if there was one: the events, sub-agents' starts and received messages.
        self._kept: list[tuple[int, Event | AgentPart | ReceivedPart]] = []
        self._through = -1
        self._base: Callable[[], None] = self._empty

    @property
    def over(self) -> bool:
        """Whether the turn has ended."""
        return self.status in OVER

    @property
    def root(self) -> TurnState:
        """The turn at the top of the tree."""
        return self.parent.root if self.parent else self

    @property
    def text(self) -> str:
        """The reply so far: all parts of type `text`, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart) and part.type == "text")

    @property
    def reasoning(self) -> str:
        """The model's reasoning so far, where the provider returns it."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart) and part.type == "reasoning")

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of this turn, without those of its sub-agents."""
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def agents(self) -> list[TurnState]:
        """The turns of its sub-agents."""
        return [part.turn for part in self.parts if isinstance(part, AgentPart)]

    @property
    def open_questions(self) -> list[OpenQuestion]:
        """The unanswered questions, including those of its sub-agents."""
        found = [question for question in self.questions if question.status == "pending"]
        for agent in self.agents:
            found.extend(agent.open_questions)
        return found

    def __repr__(self) -> str:
        return f"TurnState({self.id!r}, {self.status}, {len(self.parts)} parts)"

    def take(self, seq: int, event: Event) -> bool:
        """Takes in an event of this run. False: a reset names events that a snapshot contains, so a new snapshot is needed."""
        if isinstance(event, ResetEvent):
            self.resets.append(event)
            if event.discard_after < self._through:
                return False
            self._kept = [kept for kept in self._kept if kept[0] <= event.discard_after or isinstance(kept[1], AgentPart | ReceivedPart)]
            self._kept.append((seq, event))
            self._fold_again()
        else:
            self._kept.append((seq, event))
            self._fold(event)
        if self.over:
            self.settle()
        return True

    def add(self, seq: int, part: AgentPart | ReceivedPart) -> None:
        """Adds a sub-agent, or a message that the run received. No reset removes it."""
        self._kept.append((seq, part))
        self.parts.append(part)

    def fill(self, through: int, base: Callable[[], None]) -> None:
        """Replaces the content by that of a snapshot. `base` fills an empty turn with it."""
        self._through, self._base = through, base
        self._kept.clear()
        self._fold_again()

    def settle(self) -> None:
        """Forgets the events: the turn has ended, and nothing can be discarded."""
        self._kept.clear()

    def append(self, type: Literal["text", "reasoning"], piece: str) -> None:  # noqa: A002
        """Adds to the text or to the reasoning."""
        if not piece:
            return
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, TextPart) or last.type != type:
            last = TextPart(type)
            self.parts.append(last)
        last.append(piece)

    def call(self, call: ToolCall) -> None:
        """Adds a tool call, or what has become of one."""
        known = next((part for part in reversed(self.parts) if isinstance(part, ToolCall) and part.call_id == call.call_id), None)
        if known is None or (call.status == "started" and known.status != "started"):
            self.parts.append(call)
            return
        known.status, known.result, known.error, known.duration_ms = call.status, call.result, call.error, call.duration_ms

    def ask(self, event: QuestionEvent) -> None:
        """Adds an open question."""
        fields = {name: getattr(event, name) for name in ("question_id", "run_id", "question", "options", "interaction_type")}
        question = OpenQuestion(**fields, call_id=event.call_id, tool=event.tool, input=event.input)
        self.questions = [other for other in self.questions if other.question_id != event.question_id]
        self.questions.append(question)

    def _empty(self) -> None:
        """The state before the first event."""

    def _fold_again(self) -> None:
        self.__dict__.update(Content().__dict__)
        self._base()
        for _, kept in self._kept:
            if isinstance(kept, AgentPart | ReceivedPart):
                self.parts.append(kept)
            else:
                self._fold(kept)

    def _fold(self, event: Event) -> None:
        if isinstance(event, RunEvent) and event.parent_run_id and event.agent:
            self.agent = event.agent
        match event:
            case MetaEvent():
                self.status, self.model, self.attempt, self.citations = "running", event.model, event.attempt, event.citations
                self.agent = event.agent or self.agent
                self.agent_definition_id = event.agent_definition_id or self.agent_definition_id
            case TokenEvent():
                self._begin()
                self.append("text", event.token)
            case ReasoningEvent():
                self._begin()
                self.append("reasoning", event.text)
            case ToolEvent():
                self._begin()
                self.call(ToolCall(event.call_id, event.tool, event.status, event.input, event.result, event.error, event.duration_ms))
            case ResetEvent():
                self.status, self.attempt = "running", event.attempt
            case AgentStateEvent():
                self.status = "waiting" if event.state.startswith("waiting") else "running"
            case UsageEvent():
                self.usage = Usage.model_validate(event.model_dump(include=set(Usage.model_fields)))
            case HandoffEvent():
                self.parts.append(HandoffPart(event.from_agent, event.to_agent, event.reason))
                self.agent = event.to_agent
            case QuestionEvent():
                self.ask(event)
            case QuestionAnsweredEvent():
                for question in self.questions:
                    if question.question_id == event.question_id:
                        question.status, question.answer = event.status, event.answer
            case LimitEvent():
                self.limits.append(event)
            case OutputEvent():
                self.output = event.output
            case ErrorEvent():
                self.errors.append(Failure(error=event.error, code=event.code, retryable=event.retryable))
            case SubAgentEvent():
                self.status = "running" if event.status == "started" else event.status
                self.task, self.summary = event.task or self.task, event.summary or self.summary
                self.usage = event.usage or self.usage
                if event.error is not None:
                    self.errors.append(Failure(error=event.error, code=event.code or ""))
            case DoneEvent():
                self.status, self.usage = event.status, event.usage or self.usage
            case _:
                # Events about something else, and those that this version does not know.
                pass

    def _begin(self) -> None:
        if self.status == "queued":
            self.status = "running"
