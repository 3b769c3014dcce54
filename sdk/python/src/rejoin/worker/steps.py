"""Steps of a durable function: what it has done and what it waits for, recorded once. Pure, without I/O.

A function that begins again, after a lost worker or after a wait, gets the recorded results.

Invariant: the n-th step of a function is the same in all its executions. `Journal` raises `StepChangedError` where it is not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..errors import StepChangedError, StepFailedError, StepOutcomeUnknownError, ToolFailure
from ..model import Model
from .outcomes import text

STEP_MAX_BYTES = 256 * 1024
STEPS_MAX = 1000
NAME_MAX = 200

Kind: TypeAlias = Literal["function", "sleep", "event", "question", "agent", "model"]


class RecordedStep(Model):
    """A step that an earlier execution has recorded."""

    number: int
    name: str
    kind: str
    status: str
    """`begun`, `completed` or `error`."""
    output: Any = None
    error: str | None = None


class AgentResult(Model):
    """What an agent has done that a function started."""

    run_id: str
    agent: str | None = None
    status: str
    """`completed`, `paused`, `failed` or `cancelled`."""
    summary: str | None = None
    """Its answer."""
    steps: int = 0
    """How many steps it took."""
    error: str | None = None
    """Why it failed."""


@dataclass(frozen=True)
class Ended:
    """A step that the worker has executed."""

    number: int
    name: str
    status: Literal["begun", "completed", "error"]
    output: Any = None
    error: str | None = None


@dataclass(frozen=True)
class Wait:
    """A step that others execute."""

    number: int
    name: str
    what: Mapping[str, Any]
    """Its kind, and what it asks for, as the API expects it."""


class Suspend(BaseException):
    """Leaves a function that waits: its call is handed back until these steps have ended, and the function begins again then.

    Not an `Exception`, so that `except Exception` in user code does not catch it.
    """

    def __init__(self, steps: Sequence[Wait]) -> None:
        super().__init__(", ".join(step.name for step in steps))
        self.steps = list(steps)


class Journal:
    """The steps of one execution. Thread-safe."""

    def __init__(self, recorded: Iterable[RecordedStep] = ()) -> None:
        self._recorded = {step.number: step for step in recorded}
        self._last = 0
        self._lock = threading.Lock()
        self.suspension: Suspend | None = None
        """What the function waits for. Then it asks for no further steps, also if its code catches the exception."""

    def next(self, name: str, kind: Kind) -> tuple[int, RecordedStep | None]:
        """Returns the number of the next step, and its record, if an earlier execution has one.

        Raises `StepChangedError` if that is another step, and `ValueError` if the name is too long or the function has too many steps.
        """
        if not 1 <= len(name) <= NAME_MAX:
            raise ValueError(f"the name of a step has 1 to {NAME_MAX} characters, not {len(name)}")
        if self.suspension is not None:
            raise self.suspension
        with self._lock:
            self._last += 1
            number = self._last
        if number > STEPS_MAX:
            raise ValueError(f"a function has at most {STEPS_MAX} steps; start another tool or agent for the rest")
        known = self._recorded.get(number)
        # As the API stores it.
        name = text(name)
        if known is not None and (known.name, known.kind) != (name, kind):
            raise StepChangedError(
                f"step {number} was {known.name!r} ({known.kind}) in an earlier execution, and is {name!r} ({kind}) now: "
                "a function must ask for the same steps each time. Give a changed function another version"
            )
        return number, known

    def suspend(self, waits: Sequence[Wait]) -> NoReturn:
        """Leaves the function until these steps have ended."""
        self.suspension = Suspend(waits)
        raise self.suspension


def result_of(step: RecordedStep) -> Any:
    """Returns the output of a recorded step. Raises what it had raised."""
    if step.status == "begun":
        raise StepOutcomeUnknownError(
            f"the worker was lost during step {step.number}, {step.name!r}, which may have taken effect; it was not repeated"
        )
    if step.status == "error":
        raise StepFailedError(step.error or f"step {step.name!r} has failed")
    return step.output


def output_json(name: str, value: Any) -> Any:
    """Returns the result of a step as JSON. Raises `ValueError`."""
    try:
        encoded = to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"the result of step {name!r} is not JSON: {error}") from error
    if len(encoded) > STEP_MAX_BYTES:
        raise ValueError(f"the result of step {name!r} has {len(encoded)} bytes, and the limit is {STEP_MAX_BYTES}; store it elsewhere")
    return from_json(encoded)


def failure_text(error: BaseException) -> str:
    """Returns what is recorded of a step that raised this."""
    if isinstance(error, Suspend):
        return f"a step can't wait for others ({error}); wait outside of steps"
    if isinstance(error, (StepFailedError, ToolFailure)):
        return text(str(error))
    return text(f"{type(error).__name__}: {error}")


def sleep(seconds: float) -> dict[str, Any]:
    """Waits for a time."""
    return {"kind": "sleep", "seconds": seconds}


def event(name: str, timeout_s: float | None) -> dict[str, Any]:
    """Waits for a signal."""
    return {"kind": "event", "event": name, "timeoutS": timeout_s}


def question(
    question: str, options: Iterable[str | Mapping[str, Any]], multiple: bool, placeholder: str | None, max_length: int | None
) -> dict[str, Any]:
    """Asks a user."""
    choices = [{"label": one, "value": one} if isinstance(one, str) else dict(one) for one in options]
    return {
        "kind": "question",
        "question": question,
        "options": choices,
        "interactionType": "multi_select" if multiple else None,
        "placeholder": placeholder,
        "maxLength": max_length,
    }


def agent(name: str, task: str, timeout_s: int | None, output_schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Starts an agent."""
    return {"kind": "agent", "agent": name, "task": task, "timeoutS": timeout_s, "outputSchema": output_schema}


def answer_of(output: Any) -> Any:
    """Returns what the user has answered."""
    return output["answer"]


def data_of(name: str, output: Any) -> Any:
    """Returns the data of a signal. Raises `TimeoutError` if it did not come in time."""
    if output is None:
        raise TimeoutError(f"no signal {name!r} came in time")
    return output["data"]
