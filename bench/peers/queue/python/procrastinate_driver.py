"""procrastinate over psycopg. CONCURRENCY: jobs at a time."""

import asyncio
import logging

from procrastinate import App, PsycopgConnector

from protocol import URL, chunks, drive, handle, now_us, setting

logging.disable(logging.ERROR)
app = App(connector=PsycopgConnector(conninfo=URL, min_size=8, max_size=20))


@app.task(name="noop", queue="noop")
async def noop(t: int) -> None:
    handle(t)


class Queue:
    async def open(self) -> None:
        await app.open_async()

    async def setup(self) -> None:
        await app.schema_manager.apply_schema_async()

    async def bulk(self, n: int) -> None:
        for k in chunks(n, setting("CHUNK", 2000)):
            await noop.batch_defer_async(*({"t": now_us()} for _ in range(k)))

    async def one(self) -> None:
        await noop.defer_async(t=now_us())

    async def work(self, told: asyncio.Event) -> None:
        running = asyncio.create_task(
            app.run_worker_async(
                queues=["noop"],
                concurrency=setting("CONCURRENCY", 20),
                install_signal_handlers=False,
                shutdown_graceful_timeout=2,
            )
        )
        await asyncio.wait([running, asyncio.create_task(told.wait())], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        await asyncio.wait([running], timeout=3)


drive(Queue())
