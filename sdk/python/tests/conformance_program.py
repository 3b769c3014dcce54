"""The program of the conformance suite: sdk/conformance/README.md."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rejoin import Agent, CallContext, Limits, RetryCall, StepOutcomeUnknownError, ToolFailure, Worker, agent, tool

FOLDER = Path(os.environ["CONFORMANCE_DIR"])
HOLD_LIMIT_S = 100.0


def held(name: str, call: CallContext) -> int:
    """Waits for a file."""
    (FOLDER / f"{name}-{call.attempt}").touch()
    deadline = time.monotonic() + HOLD_LIMIT_S
    while not (FOLDER / f"{name}-end").exists() and time.monotonic() < deadline:
        if call.wait_cancelled(0.01):
            (FOLDER / f"{name}-stopped").touch()
            break
    return call.attempt


def effect(line: str) -> None:
    """Adds a line to the file of effects."""
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{line}\n")


@tool
def echo(value: Any) -> Any:
    """Returns the value."""
    return value


@tool
def fail(message: str) -> None:
    """Fails."""
    raise ToolFailure(message)


@tool
def retry(times: int, call: CallContext) -> int:
    """Asks to be handed out again."""
    if call.attempt <= times:
        raise RetryCall("not yet")
    return call.attempt


@tool
def hold(name: str, call: CallContext) -> int:
    """Waits for a file."""
    return held(name, call)


@tool(idempotent=True)
def hold_idempotent(name: str, call: CallContext) -> int:
    """Waits for a file, again after a lost worker."""
    return held(name, call)


@tool(timeout_s=1)
def quick(name: str, call: CallContext) -> int:
    """Waits for a file, at most a second."""
    return held(name, call)


@tool
def count(name: str, call: CallContext) -> Any:
    """Continues from its checkpoint."""
    if call.checkpoint is not None:
        return {"from": call.checkpoint}
    call.save_checkpoint({"done": 3})
    return held(name, call)


@tool(durable=True)
def order(article: str, call: CallContext) -> Any:
    """Orders an article."""

    def look_up() -> float:
        effect("look up")
        return 12.5

    def ship() -> None:
        held("ship", call)
        effect("ship")

    price = call.step("look up", look_up, idempotent=True)
    answer = call.ask_user(f"Buy {article}?", ["yes", "no"])
    call.sleep(1, "rest")
    paid = call.wait_for_event("paid", 60)
    packed = call.spawn("packer", f"Pack {article}")
    try:
        call.step("ship", ship)
    except StepOutcomeUnknownError:
        return "unknown"
    return [price, answer, paid, packed.status]


@tool(durable=True)
def judge(order: str, call: CallContext) -> Any:
    """Judges an order."""

    def note() -> None:
        held("note", call)
        effect("note")

    question = f"Is {order} fraud?"
    schema = {"type": "object", "properties": {"fraud": {"type": "boolean"}}, "required": ["fraud"]}
    verdict = call.model(
        question, system="You know fraud.", model="default", output_schema=schema, max_tokens=50, temperature=0, name="verdict"
    )
    call.step("note", note, idempotent=True)
    messages = [{"role": "user", "text": question}, {"role": "assistant", "text": verdict.text}, {"role": "user", "text": "Why?"}]
    why = call.model(messages)
    return [(verdict.output or {})["fraud"], verdict.model, why.text, why.usage.output_tokens]


@tool(durable=True)
def report(name: str, call: CallContext) -> Any:
    """Reports its progress."""

    def count() -> int:
        call.emit("progress", {"done": 1})
        attempt = held(name, call)
        call.emit("progress", {"done": 2})
        return attempt

    call.emit("begun", {"name": name})
    attempt = call.step("count", count, idempotent=True)
    call.emit("ended")
    return attempt


@agent
def clerk(message: str, call: CallContext) -> None:
    """Greets."""

    def greet() -> None:
        call.write("Hello ")
        call.write("you. ")

    def reply() -> None:
        call.write(message)
        call.emit("asked", {"message": message})
        held("reply", call)
        call.write("!")

    call.step("greet", greet, idempotent=True)
    call.step("reply", reply, idempotent=True)


helper = Agent(
    name="helper",
    description="Repeats texts.",
    prompt="Call echo with the text, and answer with its result.",
    tools=[echo],
    model="default",
    output={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    max_steps=5,
)


if __name__ == "__main__":
    limits = Limits(pause_min_s=0.02, pause_max_s=0.2)
    Worker([echo, fail, retry, hold, hold_idempotent, quick, count, order, judge, report, clerk, helper], slots=4, limits=limits).run()
