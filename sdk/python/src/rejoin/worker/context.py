"""What a tool's function can know and do about its call: a parameter of type `CallContext`, or `AsyncCallContext` with `async def`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from ..errors import CallCancelledError, StepFailedError
from . import steps
from .answers import Answer, Piece, event_of
from .model_calls import ModelAnswer, Prompt, model_call
from .outcomes import checkpoint_json
from .steps import AgentResult, Ended, Journal, Kind, RecordedStep, Suspend, Wait, result_of


class Link(Protocol):
    """What a context needs of the worker. Thread-safe; neither method waits."""

    def progress(self, message: str) -> None:
        """Sends a message to the readers of the run."""

    def store(self, checkpoint: Any) -> Future[None]:
        """Stores a checkpoint."""
        ...

    def record(self, step: Ended) -> Future[None]:
        """Records a step."""
        ...

    def write(self, piece: Piece) -> Future[None]:
        """Publishes a piece of the answer, or an event."""
        ...


@dataclass
class _Context:
    """What both contexts have. Without arguments it is one for unit tests, which sends nothing."""

    id: str = "call"
    """The call. All its attempts have the same id."""
    attempt: int = 1
    """How often the call was handed out."""
    idempotency_key: str = "call"
    """A key for the systems that the function changes: the same in all attempts."""
    run_id: str | None = None
    """The run of the agent that has called."""
    conversation_id: str | None = None
    """The conversation of that run, if it has one."""
    tool: str = ""
    """The name of the tool."""
    version: str = "1"
    """The version of the tool."""
    timeout_s: float = 60.0
    """Maximum duration of this attempt, in seconds."""
    checkpoint: Any = None
    """What was stored last, by this attempt or an earlier one. None: nothing."""
    cancellation: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set by the worker when the function should stop."""
    link: Link | None = field(default=None, repr=False)
    """Where messages, checkpoints and steps go."""
    journal: Journal = field(default_factory=Journal, repr=False)
    """The steps of this execution. In a unit test: `Journal([RecordedStep(…)])` has the results of waits."""

    def __post_init__(self) -> None:
        self._answer = Answer(None if self.link is None else self.link.write, has_run=self.link is None or self.run_id is not None)

    @property
    def written(self) -> str:
        """What this execution has written of its answer, for unit tests."""
        return self._answer.written

    @property
    def emitted(self) -> list[tuple[str, Any]]:
        """The names and the data of the events that this execution has emitted, for unit tests."""
        return [(event.name, event.data) for event in self._answer.emitted]

    @property
    def cancelled(self) -> bool:
        """Whether the function should stop: its run was cancelled, its time is used up, the worker ends, or another attempt has it."""
        return self.cancellation.is_set()

    def progress(self, message: str) -> None:
        """Shows a message to the readers of the run. It does not wait: if messages follow each other fast, the newest is sent."""
        if self.link is not None:
            self.link.progress(message)

    def _wait(self, kind: Kind, named: Iterable[tuple[str, Mapping[str, Any]]]) -> list[RecordedStep]:
        """Returns what has become of steps that others execute. Leaves the function if one has no record."""
        waits: list[Wait] = []
        known: list[RecordedStep] = []
        for name, what in named:
            number, record = self.journal.next(name, kind)
            if record is None:
                waits.append(Wait(number, name, what))
            else:
                known.append(record)
        if waits:
            self.journal.suspend(waits)
        return known

    def _sleep(self, seconds: float, name: str) -> None:
        self._wait("sleep", [(name, steps.sleep(max(0.0, seconds)))])

    def _event(self, name: str, timeout_s: float | None) -> Any:
        return steps.data_of(name, result_of(self._wait("event", [(name, steps.event(name, timeout_s))])[0]))

    def _agents(
        self, agent: str, tasks: Iterable[str], timeout_s: int | None, output_schema: Mapping[str, Any] | None
    ) -> list[AgentResult]:
        named = [(agent, steps.agent(agent, task, timeout_s, output_schema)) for task in tasks]
        if not named:
            return []
        return [AgentResult.model_validate(result_of(step)) for step in self._wait("agent", named)]

    def _model(self, name: str, call: Mapping[str, Any]) -> ModelAnswer:
        return ModelAnswer.model_validate(result_of(self._wait("model", [(name, call)])[0]))

    def _question(
        self, question: str, options: Iterable[str | Mapping[str, Any]], multiple: bool, placeholder: str | None, max_length: int | None
    ) -> Any:
        what = steps.question(question, options, multiple, placeholder, max_length)
        return steps.answer_of(result_of(self._wait("question", [(question[: steps.NAME_MAX], what)])[0]))


class CallContext(_Context):
    """The context of a call, for functions with `def`.

    Python can't stop a thread. So a function that runs for long looks at `cancelled`, waits with `wait_cancelled`, or calls `progress` or
    `save_checkpoint`, which raise `CallCancelledError` when the function should stop.
    """

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Waits until the function should stop, at most this long. Returns whether it should."""
        return self.cancellation.wait(timeout_s)

    def progress(self, message: str) -> None:
        """Shows a message to the readers of the run. It does not wait: if messages follow each other fast, the newest is sent.

        Raises `CallCancelledError` if the function should stop.
        """
        self._raise_if_cancelled()
        super().progress(message)

    def save_checkpoint(self, value: Any) -> None:
        """Stores any JSON, at most 256 KiB, for the next attempt, and returns when it is stored.

        A call with a checkpoint is handed out again after a lost worker: begin by looking at `checkpoint`, and continue from there.

        Raises `CallCancelledError` if the function should stop, and `ValueError` if the value is too large or is not JSON.
        """
        self._raise_if_cancelled()
        stored = checkpoint_json(value)
        if self.link is not None:
            self.link.store(stored).result()
        self.checkpoint = stored

    def step(self, name: str, function: Callable[[], Any], *, idempotent: bool = False) -> Any:
        """Calls a function once, and returns its result as JSON, at most 256 KiB.

        The result is recorded: when this tool begins again, after a lost worker or a wait, the step returns it. A step that is not
        `idempotent` is recorded before it begins, too: if the worker is lost in between, it is not repeated.

        Raises `StepFailedError` if the function raises, now or in an earlier execution; `StepOutcomeUnknownError` if it may have taken
        effect; and `StepChangedError` if an earlier execution of this call had another step here.
        """
        number, known = self.journal.next(name, "function")
        if known is not None and not (known.status == "begun" and idempotent):
            return result_of(known)
        self._raise_if_cancelled()
        if not idempotent:
            self._record(Ended(number, name, "begun"))
        self._answer.step_begins(number)
        try:
            output = steps.output_json(name, function())
            self._answer.step_ends(number, keep=True).result()
        except CallCancelledError:
            raise
        except (Exception, Suspend) as error:
            self._answer.step_ends(number, keep=False).result()
            message = steps.failure_text(error)
            self._record(Ended(number, name, "error", error=message))
            raise StepFailedError(message) from error
        self._record(Ended(number, name, "completed", output))
        return output

    def write(self, text: str) -> None:
        """Adds text to the answer of an agent (`@agent`): its readers get it at once, as the tokens of a model.

        It is called within a step. What a step has written stays when it completes, and is taken back if it fails or its worker is lost.
        The result of the function follows what was written; it may be None, or the same text.

        Raises `RuntimeError` outside of a step, or while several run; `CallCancelledError` if the function should stop; and `APIError` if
        the function is not that of an agent.
        """
        self._raise_if_cancelled()
        self._answer.write(text).result()

    def emit(self, name: str, data: Any = None) -> None:
        """Puts an event into the log of the run: its readers get it at once, in order with the answer, as `custom`.

        `name`: 1 to 64 letters, digits, `_`, `.`, `:` and `-`. `data`: any JSON, at most 256 KiB. A call of an MCP client has no readers.

        What a function emits again after a lost worker or a wait is not published twice: the n-th event of a step, and the n-th one outside
        of steps, is the same in all executions. In the function of an agent (`@agent`), what a step has emitted is taken back with its text
        if the step fails or its worker is lost.

        Raises `ValueError` if the event can't be sent; `RuntimeError` while several steps run; `CallCancelledError` if the function should
        stop; and `APIError` if the API refuses the event.
        """
        self._raise_if_cancelled()
        self._answer.emit(*event_of(name, data)).result()

    def sleep(self, seconds: float, name: str = "sleep") -> None:
        """Waits, without a slot of a worker: the tool begins again when the time is over. At most a year."""
        self._sleep(seconds, name)

    def wait_for_event(self, name: str, timeout_s: float | None = None) -> Any:
        """Waits until `Client.signal` sends an event of this name to the run, without a slot of a worker, and returns its data.

        Raises `TimeoutError` if it does not come in time.
        """
        return self._event(name, timeout_s)

    def ask_user(
        self,
        question: str,
        options: Iterable[str | Mapping[str, Any]] = (),
        *,
        multiple: bool = False,
        placeholder: str | None = None,
        max_length: int | None = None,
    ) -> Any:
        """Asks the user of the run, waits without a slot of a worker, and returns the answer.

        `options`: texts, or mappings with `label`, `value` and, optionally, `description`. The answer is a text or an option's value; with
        `multiple`, a list of values. Raises `StepFailedError` if there is none in time.
        """
        return self._question(question, options, multiple, placeholder, max_length)

    def model(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        model: str | None = None,
        output_schema: type[BaseModel] | Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        name: str = "model",
    ) -> ModelAnswer:
        """Asks a language model of the server, waits without a slot of a worker, and returns its answer.

        The server's keys, prices, limits and budgets apply; the program needs no key of a provider. Readers get the words at once, as
        those of a sub-agent with the `name`. The answer is recorded: when this tool begins again, the model is not asked again.

        - `prompt`: a text, or messages with `role` (`user` or `assistant`) and `text`, the newest last. Everything together has at most
          256 KiB.
        - `system`: what the model has to do, and how.
        - `model`: `provider:model`, or a well-known name. Default: the model of plain conversations.
        - `output_schema`: a pydantic model or the JSON Schema of an object, which the answer matches: `output`, and `parse(Model)`.
        - `max_tokens`: maximum length of the answer, including reasoning. `temperature`: 0 to 2.

        Raises `StepFailedError`, with the reason, if the model has not answered: there is no such model, it has no key, its provider has
        failed, a limit is reached; and `TypeError` or `ValueError`, with what to change, if it can't be asked this.
        """
        return self._model(name, model_call(prompt, system, model, output_schema, max_tokens, temperature))

    def spawn(self, agent: str, task: str, *, timeout_s: int | None = None, output_schema: Mapping[str, Any] | None = None) -> AgentResult:
        """Starts an agent as a sub-agent of the run, waits without a slot of a worker, and returns its result."""
        return self._agents(agent, [task], timeout_s, output_schema)[0]

    def map(
        self, agent: str, tasks: Iterable[str], *, timeout_s: int | None = None, output_schema: Mapping[str, Any] | None = None
    ) -> list[AgentResult]:
        """Starts an agent for each task, at most 100, in parallel. Returns the results in the order of the tasks."""
        return self._agents(agent, tasks, timeout_s, output_schema)

    def _record(self, step: Ended) -> None:
        if self.link is not None:
            self.link.record(step).result()

    def _raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise CallCancelledError(f"call {self.id} should stop")


class AsyncCallContext(_Context):
    """The context of a call, for functions with `async def`. When the function should stop, its task is cancelled, as with `asyncio`."""

    async def save_checkpoint(self, value: Any) -> None:
        """Stores any JSON, at most 256 KiB, for the next attempt, and returns when it is stored.

        A call with a checkpoint is handed out again after a lost worker: begin by looking at `checkpoint`, and continue from there.

        Raises `CallCancelledError` if another attempt has the call, and `ValueError` if the value is too large or is not JSON.
        """
        stored = checkpoint_json(value)
        if self.link is not None:
            await asyncio.wrap_future(self.link.store(stored))
        self.checkpoint = stored

    async def step(self, name: str, function: Callable[[], Awaitable[Any]], *, idempotent: bool = False) -> Any:
        """Awaits a function once, and returns its result as JSON, at most 256 KiB.

        The result is recorded: when this tool begins again, after a lost worker or a wait, the step returns it. A step that is not
        `idempotent` is recorded before it begins, too: if the worker is lost in between, it is not repeated.

        Raises `StepFailedError` if the function raises, now or in an earlier execution; `StepOutcomeUnknownError` if it may have taken
        effect; and `StepChangedError` if an earlier execution of this call had another step here.
        """
        number, known = self.journal.next(name, "function")
        if known is not None and not (known.status == "begun" and idempotent):
            return result_of(known)
        if not idempotent:
            await self._record(Ended(number, name, "begun"))
        self._answer.step_begins(number)
        try:
            output = steps.output_json(name, await function())
            await asyncio.wrap_future(self._answer.step_ends(number, keep=True))
        except CallCancelledError:
            raise
        except (Exception, Suspend) as error:
            await asyncio.wrap_future(self._answer.step_ends(number, keep=False))
            message = steps.failure_text(error)
            await self._record(Ended(number, name, "error", error=message))
            raise StepFailedError(message) from error
        await self._record(Ended(number, name, "completed", output))
        return output

    async def write(self, text: str) -> None:
        """Adds text to the answer of an agent (`@agent`): its readers get it at once, as the tokens of a model.

        It is called within a step. What a step has written stays when it completes, and is taken back if it fails or its worker is lost.
        The result of the function follows what was written; it may be None, or the same text.

        Raises `RuntimeError` outside of a step, or while several run, and `APIError` if the function is not that of an agent.
        """
        await asyncio.wrap_future(self._answer.write(text))

    async def emit(self, name: str, data: Any = None) -> None:
        """Puts an event into the log of the run, as `CallContext.emit` does."""
        await asyncio.wrap_future(self._answer.emit(*event_of(name, data)))

    async def sleep(self, seconds: float, name: str = "sleep") -> None:
        """Waits, without a slot of a worker: the tool begins again when the time is over. At most a year."""
        self._sleep(seconds, name)

    async def wait_for_event(self, name: str, timeout_s: float | None = None) -> Any:
        """Waits for an event that `Client.signal` sends, as `CallContext.wait_for_event` does, and returns its data."""
        return self._event(name, timeout_s)

    async def ask_user(
        self,
        question: str,
        options: Iterable[str | Mapping[str, Any]] = (),
        *,
        multiple: bool = False,
        placeholder: str | None = None,
        max_length: int | None = None,
    ) -> Any:
        """Asks the user of the run, waits without a slot of a worker, and returns the answer, as `CallContext.ask_user` does."""
        return self._question(question, options, multiple, placeholder, max_length)

    async def model(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        model: str | None = None,
        output_schema: type[BaseModel] | Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        name: str = "model",
    ) -> ModelAnswer:
        """Asks a language model of the server, waits without a slot of a worker, and returns its answer, as `CallContext.model` does."""
        return self._model(name, model_call(prompt, system, model, output_schema, max_tokens, temperature))

    async def spawn(
        self, agent: str, task: str, *, timeout_s: int | None = None, output_schema: Mapping[str, Any] | None = None
    ) -> AgentResult:
        """Starts an agent as a sub-agent of the run, waits without a slot of a worker, and returns its result."""
        return self._agents(agent, [task], timeout_s, output_schema)[0]

    async def map(
        self, agent: str, tasks: Iterable[str], *, timeout_s: int | None = None, output_schema: Mapping[str, Any] | None = None
    ) -> list[AgentResult]:
        """Starts an agent for each task, at most 100, in parallel. Returns the results in the order of the tasks."""
        return self._agents(agent, tasks, timeout_s, output_schema)

    async def _record(self, step: Ended) -> None:
        if self.link is not None:
            await asyncio.wrap_future(self.link.record(step))
