"""The rules of durable functions in the API of `protocol_server`: steps, and what a call waits for."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

from protocol_records import Offered, ProblemError

EVENT_MAX_BYTES = 256 * 1024
MESSAGES_MAX = 1000
OF_RUN = {"question", "agent", "model"}
"""What the run of a call begins for it: several at once."""


class StepRules:
    """The part of the API that handles steps, and what all parts use."""

    calls: dict[str, Offered]
    violations: list[str]
    changed: threading.Condition

    def happen(self, call: Offered, *outputs: Any) -> None:
        """What a call waits for ends, with these outputs. An exception is an error of the step."""
        with self.changed:
            assert len(call.waits) == len(outputs), call.waits
            for one, output in zip(call.waits, outputs, strict=True):
                failed = isinstance(output, Exception)
                step = call.steps[one["number"]]
                step.update(status="error", error=str(output)) if failed else step.update(status="completed", output=output)
            call.waits, call.status, call.not_before = [], "waiting", 0.0
            self.changed.notify_all()

    def violation(self, status: int, code: str, what: str) -> ProblemError:
        self.violations.append(what)
        return ProblemError(status, code)

    def fields(self, body: Any, **kinds: Any) -> None:
        """The fields have to be these; those with a name that ends in `_` may be absent."""
        needed = {name for name in kinds if not name.endswith("_")}
        known = {name.rstrip("_"): kind for name, kind in kinds.items()}
        faults = [
            name
            for name in {*needed, *body}
            if name not in body
            or name not in known
            or not isinstance(body[name], known[name])
            or (known[name] is int and body[name] is True)
        ]
        if faults:
            raise self.violation(400, "bad_request", f"fields {faults} of {body}")

    def record_step(self, call: Offered, body: Any) -> str:
        """A step that the program executes."""
        number, name, status = body["number"], body["name"], body["status"]
        if not 1 <= number <= 1000 or not 1 <= len(name) <= 200 or (status == "error") != ("error" in body):
            raise self.violation(400, "invalid_step", f"step {body}")
        known = call.steps.get(number)
        new = {"number": number, "name": name, "kind": "function", "status": status}
        new |= {"output": body.get("output"), "error": body.get("error")}
        if known is not None and known != new and (known["name"] != name or known["status"] != "begun"):
            raise ProblemError(409, "step_changed")
        if known is not None and known["status"] == status == "begun" and call.begun.get(number) != body["attempt"]:
            self.violations.append(f"step {name} begins again")
        if status != "begun":
            self.settle(call, body["attempt"], number, completed=status == "completed")
        call.steps[number], call.begun[number] = new, body["attempt"]
        return "running"

    def write(self, call: Offered, body: Any, is_turn: bool) -> str:
        """A piece of an answer, or an event."""
        attempt, step, piece = body["attempt"], body["step"], body["piece"]
        text, event = body.get("text", ""), body.get("event")
        self._check_piece(body)
        if event is None and not is_turn:
            raise ProblemError(409, "no_answer")
        if call.writing is not None and call.writing[0] != attempt:
            self.settle(call, attempt, None, completed=False)
        known = call.texts.get((step, piece))
        if known is not None:
            if is_turn and (known != text or call.events.get((step, piece)) != event):
                raise self.violation(409, "changed", f"piece {piece} of step {step} was another one")
            return "running"
        if call.writing is not None and call.writing[1] != step:
            raise self.violation(409, "other_step_writes", f"step {step} writes beside {call.writing}")
        if call.steps.get(step, {"status": "begun"})["status"] != "begun":
            raise self.violation(409, "step_ended", f"text of step {step}, which has ended")
        if piece > 1 and (step, piece - 1) not in call.texts:
            raise self.violation(409, "piece_missing", f"piece {piece} of step {step} is out of order")
        call.texts[step, piece] = text
        if event is not None:
            call.events[step, piece] = event
        # What is emitted outside of steps, or by a call that is not the turn of an agent, is never taken back.
        if is_turn and step > 0:
            call.writing = (attempt, step)
        return "running"

    def _check_piece(self, body: Any) -> None:
        step, piece, text, event = body["step"], body["piece"], body.get("text"), body.get("event")
        if (text is None) == (event is None):
            raise self.violation(400, "invalid_text", f"either a text or an event, not {body}")
        if not 1 <= piece <= 100_000 or not (0 if text is None else 1) <= step <= 1000:
            raise self.violation(400, "invalid_text", f"the numbers of {body}")
        if text is not None and not 1 <= len(text) <= 20_000:
            raise self.violation(400, "invalid_text", f"text {body}")
        if event is not None:
            self.fields(event, name=str, data=object)
            if re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", event["name"]) is None:
                raise self.violation(400, "invalid_event", f"event {body}")
            if len(json.dumps(event["data"], ensure_ascii=False, separators=(",", ":")).encode()) > EVENT_MAX_BYTES:
                raise self.violation(413, "event_too_large", f"the event {event['name']}")

    def settle(self, call: Offered, attempt: int, step: int | None, completed: bool) -> None:
        """A step ends, or all do: what was written stays, or is taken back."""
        if call.writing is None or (call.writing[0] == attempt and step not in (None, call.writing[1])):
            return
        if not completed or call.writing[0] != attempt:
            pieces = [key for key in call.texts if key[0] == call.writing[1]]
            call.taken_back.append("".join(call.texts.pop(key) for key in sorted(pieces)))
            for key in pieces:
                call.events.pop(key, None)
        call.writing = None

    def suspend(self, call: Offered, steps: list[Any]) -> str:
        """What a call waits for."""
        fields: dict[str, dict[str, Any]] = {
            "sleep": {"seconds": (int, float)},
            "event": {"event": str, "timeoutS_": (int, float)},
            "question": {"question": str, "options_": list, "interactionType_": str, "placeholder_": str, "maxLength_": int},
            "agent": {"agent": str, "task": str, "timeoutS_": int, "outputSchema_": dict},
            "model": {
                "messages": list,
                "system_": str,
                "model_": str,
                "outputSchema_": dict,
                "maxTokens_": int,
                "temperature_": (int, float),
            },
        }
        kinds = [one["wait"].get("kind") for one in steps]
        if not steps or len(steps) > 100 or (len(steps) > 1 and not {*kinds} <= OF_RUN):
            raise self.violation(400, "invalid_suspension", f"suspension {steps}")
        for one in steps:
            self.fields(one, number=int, name=str, wait=dict)
            self.fields(one["wait"], kind=str, **fields[one["wait"]["kind"]])
            if one["wait"]["kind"] == "model":
                self._check_model_call(one["wait"])
            if one["number"] in call.steps:
                raise ProblemError(409, "step_changed")
        for one, kind in zip(steps, kinds, strict=True):
            step = {"number": one["number"], "name": one["name"], "kind": kind, "status": "begun", "output": None, "error": None}
            call.steps[one["number"]] = step
        call.status, call.waits, call.suspensions = "suspended", steps, call.suspensions + 1
        return "suspended" if {*kinds} & OF_RUN else "waiting"

    def _check_model_call(self, call: Any) -> None:
        messages, schema = call["messages"], call.get("outputSchema")
        for message in messages:
            self.fields(message, role=str, text=str)
        if not 1 <= len(messages) <= MESSAGES_MAX or messages[-1]["role"] != "user":
            raise self.violation(400, "invalid_suspension", f"the messages of the model call {call}")
        if any(one["role"] not in ("user", "assistant") or not one["text"].strip() for one in messages):
            raise self.violation(400, "invalid_suspension", f"a message of the model call {call}")
        if call.get("maxTokens", 1) < 1 or not 0 <= call.get("temperature", 0) <= 2 or not call.get("model", "default").strip():
            raise self.violation(400, "invalid_suspension", f"the options of the model call {call}")
        if schema is not None and schema.get("type") != "object":
            raise self.violation(400, "invalid_suspension", f"the output of the model call {call}")

    def steps(self, id_: str, query: str) -> list[Any]:
        """A page of recorded steps."""
        match = re.fullmatch(r"after=(\d+)", query)
        if match is None or id_ not in self.calls:
            raise self.violation(404, "not_found", f"steps of {id_}, {query}")
        steps = self.calls[id_].steps
        return [steps[number] for number in sorted(steps) if number > int(match[1])][:100]
