"""DBOS: RUNS workflows at once, ROUNDS times, with STEPS steps each."""

import asyncio
import json
import os
import sys
import time
from urllib.parse import unquote, urlsplit

from dbos import DBOS, DBOSConfig

# The host is the folder of a socket, which this driver wants as a parameter.
url = urlsplit(os.environ["DATABASE_URL"])
user, _, host = url.netloc.rpartition("@")
database_url = f"postgresql://{user}@{url.path}?host={unquote(host)}"
DBOS(config=DBOSConfig(name="bench", system_database_url=database_url, log_level="ERROR", run_admin_server=False))
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


async def main(runs: int, steps: int, rounds: int) -> None:
    await (await DBOS.start_workflow_async(function, steps)).get_result()
    taken.clear()
    began = time.perf_counter()
    for _ in range(rounds):
        started = [await DBOS.start_workflow_async(function, steps) for _ in range(runs)]
        await asyncio.gather(*(one.get_result(polling_interval_sec=0.01) for one in started))
    print(json.dumps({"steps": len(taken), "s": time.perf_counter() - began, "lat": taken}), flush=True)


if __name__ == "__main__":
    DBOS.launch()
    asyncio.run(main(*map(int, sys.argv[1:4])))
    DBOS.destroy()
