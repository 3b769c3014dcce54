"""The operations of a driver (../README.md) for a queue object: open(), setup(), bulk(n), one(), work(told)."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator

import uvloop

TELL_EVERY_S = 0.02
"""How often a worker tells its count, if that moved."""
STOP_S = 5
"""A worker that does not stop in this time is left alone."""

URL = os.environ["DATABASE_URL"]
_handled = 0
_latencies_us: list[int] = []
_latencies_wanted = os.environ.get("LAT") == "1"


def setting(name: str, otherwise: int) -> int:
    return int(os.environ.get(name, otherwise))


def now_us() -> int:
    """CLOCK_MONOTONIC: one clock for all processes of the machine."""
    return time.monotonic_ns() // 1000


def handle(t: int) -> None:
    """The handler of every queue; t is when the job was enqueued."""
    global _handled
    if _latencies_wanted:
        _latencies_us.append(now_us() - t)
    _handled += 1


def chunks(n: int, size: int) -> Iterator[int]:
    """The sizes of the bulk calls that make n."""
    for done in range(0, n, size):
        yield min(size, n - done)


def _say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def _report(n: int, began_us: int) -> None:
    _say(n=n, s=(now_us() - began_us) / 1e6)


async def _bulk(queue, n: str) -> None:
    began_us = now_us()
    await queue.bulk(int(n))
    _report(int(n), began_us)


async def _single(queue, seconds: str, producers: str) -> None:
    began_us = now_us()
    end_us = began_us + float(seconds) * 1e6

    async def producer() -> int:
        n = 0
        while now_us() < end_us:
            await queue.one()
            n += 1
        return n

    _report(sum(await asyncio.gather(*(producer() for _ in range(int(producers))))), began_us)


async def _produce(queue, per_s: str, seconds: str) -> None:
    """An open loop: a slow enqueue does not hold back the next one."""
    began_us, n = now_us(), int(float(per_s) * float(seconds))
    enqueued = []
    for i in range(n):
        due_us = began_us + i / float(per_s) * 1e6
        await asyncio.sleep(max(0.0, (due_us - now_us()) / 1e6))
        enqueued.append(asyncio.create_task(queue.one()))
    await asyncio.gather(*enqueued)
    _report(n, began_us)


async def _tell() -> None:
    last = 0
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        if _handled != last:
            last = _handled
            _say(c=last, t=now_us())


async def _work(queue) -> None:
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def read_to_the_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(told.set)

    threading.Thread(target=read_to_the_end, daemon=True).start()
    _say(start=now_us())
    working, telling = asyncio.create_task(queue.work(told)), asyncio.create_task(_tell())
    await asyncio.wait([working, asyncio.create_task(told.wait())], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([working], timeout=STOP_S)
    telling.cancel()
    if working.done():
        working.result()
    _say(final=_handled, lat=_latencies_us)


async def _drive(queue) -> None:
    operation, *words = sys.argv[1:]
    await queue.open()
    if operation == "setup":
        await queue.setup()
    else:
        await {"bulk": _bulk, "single": _single, "produce": _produce, "work": _work}[operation](queue, *words)
    # Pools of the library would keep the process.
    os._exit(0)


def drive(queue) -> None:
    uvloop.run(_drive(queue))
