"""PgQueuer over asyncpg. BATCH: jobs that are fetched at a time."""

import asyncio
import json
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from protocol import URL, chunks, drive, handle, now_us, setting


def payload() -> bytes:
    return json.dumps({"t": now_us()}).encode()


class Queue:
    async def open(self) -> None:
        self.driver = AsyncpgPoolDriver(await asyncpg.create_pool(URL, min_size=8, max_size=20))
        self.queries = Queries(self.driver)

    async def setup(self) -> None:
        await self.queries.install()

    async def bulk(self, n: int) -> None:
        for k in chunks(n, setting("CHUNK", 5000)):
            await self.queries.enqueue(["noop"] * k, [payload() for _ in range(k)], [0] * k)

    async def one(self) -> None:
        await self.queries.enqueue("noop", payload())

    async def work(self, told: asyncio.Event) -> None:
        queuer = PgQueuer(self.driver)

        @queuer.entrypoint("noop")
        async def noop(job) -> None:
            handle(json.loads(job.payload)["t"])

        running = asyncio.create_task(
            queuer.qm.run(batch_size=setting("BATCH", 200), dequeue_timeout=timedelta(seconds=1))
        )
        await asyncio.wait([running, asyncio.create_task(told.wait())], return_when=asyncio.FIRST_COMPLETED)
        queuer.qm.shutdown.set()
        await running


drive(Queue())
