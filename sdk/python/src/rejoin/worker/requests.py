"""The requests of the worker protocol, and what they return. Nothing here does I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..calls import Call, nothing, path, reader
from ..model import Model
from .agents import Agent, AnyAgent
from .answers import Piece
from .outcomes import Completed, Failed, Suspended
from .steps import Ended, RecordedStep
from .tools import Tool


class Registration(Model):
    """A registered worker."""

    worker_id: str
    lease_s: float
    """Seconds without a heartbeat until its calls are lost."""
    heartbeat_s: float
    """Seconds between two heartbeats."""
    claim_wait_max_s: int
    """Maximum duration of a claim, in seconds."""
    records_max: int = 0
    """Maximum number of records of a request. 0: an older server, which takes each alone."""


class ClaimedCall(Model):
    """A call of a tool that this worker has to execute."""

    id: str
    attempt: int
    tool: str
    version: str
    input: dict[str, Any]
    idempotency_key: str
    timeout_s: float
    run_id: str | None = None
    conversation_id: str | None = None
    checkpoint: Any = None
    steps: int = 0
    """Number of recorded steps."""


class StepPage(Model):
    """Recorded steps, in order."""

    items: list[RecordedStep]


class Claimed(Model):
    """The calls of one claim."""

    calls: list[ClaimedCall]


class Heartbeat(Model):
    """The state of the calls of a heartbeat, by their ids."""

    cancelled: list[str] = []
    """The run does not want the result."""
    lost: list[str] = []
    """This attempt no longer has the call."""


class Recorded(Model):
    """What the API has recorded of a call."""

    status: str


class RecordAnswer(Model):
    """What became of a record that was sent with others."""

    status: str = ""
    problem: dict[str, Any] | None = None


class RecordAnswers(Model):
    """What became of records, in their order."""

    records: list[RecordAnswer]


@dataclass(frozen=True)
class Recording(Call[Recorded]):
    """A record of a call, which may be sent with records of others."""

    queue: str = ""
    worker_id: str = ""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """As it is sent with others."""


def register(
    queue: str, name: str, version: str, slots: int, tools: Iterable[Tool[..., Any]], agents: Iterable[AnyAgent] = ()
) -> Call[Registration]:
    """Registers a worker."""
    body: dict[str, Any] = {"name": name, "version": version, "language": "python", "slots": slots}
    body["tools"] = [definition(tool) for tool in tools]
    announced = [agent_definition(agent) for agent in agents]
    if announced:
        body["agents"] = announced
    return Call("POST", path("workers", queue, "registrations"), reader(Registration), json=body)


def definition(tool: Tool[..., Any]) -> dict[str, Any]:
    """Returns a tool as a registration has it."""
    return {
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "readOnly": tool.read_only,
        "idempotent": tool.idempotent or tool.durable,
        "confirm": tool.confirm,
        "timeoutS": tool.timeout_s,
        "whenAbsent": tool.when_absent,
    }


def agent_definition(agent: AnyAgent) -> dict[str, Any]:
    """Returns an agent as a registration has it."""
    body = {"name": agent.name, "description": agent.description}
    if not isinstance(agent, Agent):
        return {**body, "tool": agent.tool.name}
    options = {"model": agent.model, "outputSchema": agent.output_schema, "maxSteps": agent.max_steps}
    return {**body, "systemPrompt": agent.prompt, "tools": agent.tool_names, **_given(options)}


def claim(queue: str, worker_id: str, max_calls: int, wait_s: int, answer_s: float) -> Call[Claimed]:
    """Claims calls. The response may take `wait_s`, and then `answer_s`."""
    body = {"workerId": worker_id, "max": max_calls, "waitS": wait_s}
    return Call("POST", path("workers", queue, "claims"), reader(Claimed), json=body, silence_s=wait_s + answer_s)


def heartbeat(queue: str, worker_id: str, attempts: Iterable[tuple[str, int]], draining: bool) -> Call[Heartbeat]:
    """Renews the leases of calls."""
    calls = [{"id": id_, "attempt": attempt} for id_, attempt in attempts]
    body = {"workerId": worker_id, "calls": calls, "draining": draining}
    return Call("POST", path("workers", queue, "heartbeats"), reader(Heartbeat), json=body)


def result(queue: str, worker_id: str, call_id: str, attempt: int, outcome: Completed | Failed | Suspended) -> Call[Recorded]:
    """Records how an attempt has ended."""
    if isinstance(outcome, Suspended):
        waits = [{"number": step.number, "name": step.name, "wait": _given(step.what)} for step in outcome.steps]
        return _about(queue, worker_id, call_id, attempt, "suspension", {"steps": waits})
    if isinstance(outcome, Completed):
        return _recording(queue, worker_id, call_id, attempt, "completion", {"output": outcome.output}, {"output": outcome.output})
    return _about(queue, worker_id, call_id, attempt, "failure", {"error": outcome.error, "retry": outcome.retry})


def progress(queue: str, worker_id: str, call_id: str, attempt: int, message: str) -> Call[Recorded]:
    """Shows a message to readers of the run."""
    return _about(queue, worker_id, call_id, attempt, "progress", {"message": message})


def checkpoint(queue: str, worker_id: str, call_id: str, attempt: int, value: Any) -> Call[Recorded]:
    """Stores a checkpoint for the next attempt."""
    return _about(queue, worker_id, call_id, attempt, "progress", {"checkpoint": value})


def step(queue: str, worker_id: str, call_id: str, attempt: int, step: Ended) -> Call[Recorded]:
    """Records a step."""
    fields = {"number": step.number, "name": step.name, "status": step.status, "output": step.output, "error": step.error}
    return _recording(queue, worker_id, call_id, attempt, "steps", _given(fields), {"step": _given(fields)})


def records(queue: str, worker_id: str, encoded: Iterable[bytes]) -> Call[RecordAnswers]:
    """Records steps and outputs of several calls: JSON of `Recording.record`."""
    content = b'{"workerId":%s,"records":[%s]}' % (json.dumps(worker_id).encode(), b",".join(encoded))
    headers = {"content-type": "application/json"}
    return Call("POST", path("workers", queue, "records"), reader(RecordAnswers), headers=headers, content=content)


def write(queue: str, worker_id: str, call_id: str, attempt: int, piece: Piece) -> Call[Recorded]:
    """Publishes a piece of an answer, or an event."""
    fields: dict[str, Any] = {"step": piece.step, "piece": piece.number}
    if piece.event is None:
        fields["text"] = piece.text
    else:
        fields["event"] = {"name": piece.event.name, "data": piece.event.data}
    return _about(queue, worker_id, call_id, attempt, "text", fields)


def steps(queue: str, call_id: str, after: int) -> Call[StepPage]:
    """Lists recorded steps after this number."""
    return Call("GET", path("workers", queue, "calls", call_id, "steps"), reader(StepPage), {"after": after})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def leave(queue: str, worker_id: str) -> Call[None]:
    """Ends a registration."""
    return Call("DELETE", path("workers", queue, "registrations", worker_id), nothing)


def _recording(
    queue: str, worker_id: str, call_id: str, attempt: int, what: str, fields: Mapping[str, Any], record: Mapping[str, Any]
) -> Recording:
    alone = _about(queue, worker_id, call_id, attempt, what, fields)
    about = {"callId": call_id, "attempt": attempt, **record}
    return Recording(alone.method, alone.path, alone.read, json=alone.json, queue=queue, worker_id=worker_id, record=about)


def _about(queue: str, worker_id: str, call_id: str, attempt: int, what: str, fields: Mapping[str, Any]) -> Call[Recorded]:
    body = {"workerId": worker_id, "attempt": attempt, **fields}
    return Call("POST", path("workers", queue, "calls", call_id, what), reader(Recorded), json=body)
