"""A worker as a program: python worker_program.py DRAIN_TIMEOUT_S. The API is in REJOIN_URL and REJOIN_API_KEY."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rejoin import Agent, CallContext, Limits, Worker, agent, tool

HOLD_LIMIT_S = 60.0


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@tool
def hold(folder: str, call: CallContext) -> str:
    """Creates the file `begun-ATTEMPT` in a folder, and returns when there is a file `end` in it."""
    Path(folder, f"begun-{call.attempt}").touch()
    _until(Path(folder, "end"))
    return f"process {os.getpid()}"


@tool(idempotent=True)
def hold_idempotent(folder: str, call: CallContext) -> str:
    """As `hold`, but a lost call is repeated."""
    return hold(folder, call)


@tool(confirm=True)
def pay(amount: float) -> str:
    """Pays."""
    return f"paid {amount}"


@tool
def wait_cancelled(folder: str, call: CallContext) -> str:
    """Creates the file `begun-ATTEMPT` in a folder, and `stopped` when the call is cancelled."""
    Path(folder, f"begun-{call.attempt}").touch()
    if call.wait_cancelled(HOLD_LIMIT_S):
        Path(folder, "stopped").touch()
    return "done"


@tool(durable=True)
def order(folder: str, call: CallContext) -> dict[str, object]:
    """Looks up a price, asks the user, waits for a payment and ships. Each step adds a line to the file `effects` in a folder.

    Shipping creates `shipping-ATTEMPT`, and waits for a file `end`.
    """

    def effect(name: str) -> str:
        with Path(folder, "effects").open("a") as file:
            file.write(f"{name}\n")
        return name

    def ship() -> str:
        Path(folder, f"shipping-{call.attempt}").touch()
        _until(Path(folder, "end"))
        return effect("ship")

    price = call.step("price", lambda: effect("price"))
    answer = call.ask_user("Buy it?", ["yes", "no"])
    call.sleep(1)
    paid = call.wait_for_event("paid")
    shipped = call.step("ship", ship, idempotent=True)
    return {
        "price": price,
        "answer": answer,
        "paid": paid,
        "shipped": shipped,
        "audit": call.spawn(paid["by"], "Audit it. audit-marker").summary,
    }


@tool(durable=True)
def ask_model(question: str, call: CallContext) -> dict[str, object]:
    """Asks a model, and returns its answer."""
    answer = call.model(question, system="Answer in one sentence.", model="openai:scripted")
    return {"text": answer.text, "model": answer.model, "tokens": answer.usage.output_tokens}


@agent
def narrator(message: str, call: CallContext) -> None:
    """Tells a story. It creates `telling-ATTEMPT` in the folder that the message names, and waits for a file `end` there."""
    folder = message.rsplit(" ", 1)[1]

    def tell() -> None:
        call.write("in a ")
        Path(folder, f"telling-{call.attempt}").touch()
        _until(Path(folder, "end"))
        call.write("forest.")

    call.step("begin", lambda: call.write("Once "))
    call.step("tell", tell, idempotent=True)


repeater = Agent(name="repeater", description="Repeats texts.", prompt="Repeat by echo what the user writes.", tools=[echo])


def _until(path: Path) -> None:
    deadline = time.monotonic() + HOLD_LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} was not created")
        time.sleep(0.01)


@contextmanager
def worker_process(url: str, api_key: str, drain_timeout_s: float = 60) -> Iterator[subprocess.Popen[bytes]]:
    """Runs this program in the block, and kills it at its end, unless it has ended before."""
    settings = {**os.environ, "REJOIN_URL": url, "REJOIN_API_KEY": api_key}
    process = subprocess.Popen([sys.executable, __file__, str(drain_timeout_s)], env=settings)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    Worker(
        [ask_model, echo, hold, hold_idempotent, narrator, order, pay, repeater, wait_cancelled],
        slots=4,
        name=f"program-{os.getpid()}",
        drain_timeout_s=float(sys.argv[1]),
        limits=Limits(pause_min_s=0.05, pause_max_s=0.2),
    ).run()
