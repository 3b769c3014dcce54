"""The tools of users' programs in chaos runs, served by the package for Python: `program.py LEDGER`.

Its process is killed and suspended while it works. Each effect is a line in the ledger.
"""

import asyncio
import json
import logging
import os
import random
import sys
import time
from typing import Any

from rejoin import AsyncCallContext, RetryCall, StepOutcomeUnknownError, Worker, tool

LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
SLOTS = 16
# How often a call is given back.
RETRIES = 0.06


def act(name: str, call: AsyncCallContext, hold_ms: int) -> None:
    """Leaves an effect, with one write: lines of several processes do not mix."""
    # The id of the record, which the checker knows.
    effect = {"tool": name, "run_id": call.run_id, "call_id": call.id}
    more = {"pid": os.getpid(), "at_us": time.time_ns() // 1000, "hold_ms": hold_ms}
    os.write(LEDGER, (json.dumps({**effect, **more}, default=str) + "\n").encode())


async def execute(name: str, step: int, hold_ms: int, call: AsyncCallContext) -> dict[str, Any]:
    if call.attempt == 1 and random.random() < RETRIES:
        raise RetryCall("not now")
    act(name, call, hold_ms)
    await asyncio.sleep(hold_ms / 1000)
    return {"done": step, "attempt": call.attempt}


@tool(description="Leaves an effect.")
async def python_pay(plan: str, step: int, hold_ms: int, call: AsyncCallContext) -> dict[str, Any]:
    return await execute("python_pay", step, hold_ms, call)


@tool(description="Leaves an effect.", idempotent=True)
async def python_look(plan: str, step: int, hold_ms: int, call: AsyncCallContext) -> dict[str, Any]:
    return await execute("python_look", step, hold_ms, call)


@tool(description="Leaves an effect.", durable=True)
async def python_flow(plan: str, step: int, hold_ms: int, call: AsyncCallContext) -> dict[str, Any]:
    async def pay() -> int:
        act("python_flow", call, 0)
        await asyncio.sleep(hold_ms / 1000)
        return random.getrandbits(32)

    async def last() -> int | None:
        return paid

    paid: int | None
    try:
        paid = await call.step("pay", pay)
    except StepOutcomeUnknownError:
        # It may have paid, and does not pay again.
        paid = None
    await call.sleep(hold_ms / 1000)
    await call.step("last", last, idempotent=True)
    return {"done": step, "attempt": call.attempt, "paid": paid}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    Worker([python_pay, python_look, python_flow], name="chaos in Python", slots=SLOTS).run()
