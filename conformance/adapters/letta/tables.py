"""Creates Letta's tables, which its container does by migrations that its package on PyPI does not have. In the environment: LETTA_PG_URI."""

import asyncio

from letta.orm import Base
from letta.server.db import engine
from sqlalchemy import text


async def create() -> None:
    async with engine.begin() as connection:
        await connection.execute(text("create extension if not exists vector"))
        await connection.run_sync(Base.metadata.create_all)
        # The order of messages: the model leaves it to the database.
        await connection.execute(text("create sequence message_seq_id"))
        await connection.execute(text("alter table messages alter column sequence_id set default nextval('message_seq_id')"))
    await engine.dispose()


asyncio.run(create())
