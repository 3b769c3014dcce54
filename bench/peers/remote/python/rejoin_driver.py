"""Ours: RUNS turns of an agent at once, ROUNDS times, whose function has STEPS steps. REJOIN_URL and REJOIN_API_KEY name the server."""

import asyncio
import json
import logging
import sys
import threading
import time

from rejoin import AsyncCallContext, AsyncClient, Worker, agent

taken: list[int] = []


async def work() -> dict[str, bool]:
    return {"done": True}


@agent(name="bench-steps")
async def function(message: str, call: AsyncCallContext) -> str:
    """Does nothing, several times."""
    for _ in range(int(message)):
        began = time.perf_counter_ns()
        await call.step("work", work, idempotent=True)
        taken.append((time.perf_counter_ns() - began) // 1000)
    return "done"


async def main(runs: int, steps: int, rounds: int) -> None:
    async with AsyncClient() as client:

        async def turn() -> None:
            await (await client.send(str(steps), agent="bench-steps")).text()

        # The worker registers it.
        while "bench-steps" not in [one.name for one in await client.agents()]:
            await asyncio.sleep(0.02)
        await turn()
        taken.clear()
        began = time.perf_counter()
        for _ in range(rounds):
            await asyncio.gather(*(turn() for _ in range(runs)))
        print(json.dumps({"steps": len(taken), "s": time.perf_counter() - began, "lat": taken}), flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    worker = Worker([function], slots=200)
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()
    serving = threading.Thread(target=lambda: loop.run_until_complete(worker.serve(stop)), daemon=True)
    serving.start()
    asyncio.run(main(*map(int, sys.argv[1:4])))
    loop.call_soon_threadsafe(stop.set)
    serving.join(10)
