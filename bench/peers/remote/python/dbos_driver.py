"""DBOS: RUNS workflows at once, with STEPS steps each."""

import asyncio
import json
import os
import sys
import time

from dbos import DBOS, DBOSConfig

DBOS(config=DBOSConfig(name="bench", system_database_url=os.environ["DATABASE_URL"], log_level="ERROR", run_admin_server=False))
taken: list[int] = []


@DBOS.step()
async def work() -> dict[str, bool]:
    return {"done": True}


@DBOS.workflow()
async def function(steps: int) -> None:
    for _ in range(steps):
        began = time.perf_counter_ns()
        await work()
        taken.append((time.perf_counter_ns() - began) // 1000)


async def main(runs: int, steps: int) -> None:
    await (await DBOS.start_workflow_async(function, steps)).get_result()
    taken.clear()
    began = time.perf_counter()
    started = [await DBOS.start_workflow_async(function, steps) for _ in range(runs)]
    await asyncio.gather(*(one.get_result(polling_interval_sec=0.01) for one in started))
    print(json.dumps({"steps": len(taken), "s": time.perf_counter() - began, "lat": taken}), flush=True)


if __name__ == "__main__":
    DBOS.launch()
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
    DBOS.destroy()
