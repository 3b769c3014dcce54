"""DBOS: a workflow whose step streams the model's tokens into a durable stream, as its documentation of streams describes.

In the environment: DATABASE_URL, MODEL_URL. Argument: the port.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from urllib.parse import unquote, urlsplit

import uvicorn
from dbos import DBOS, DBOSConfig
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI

# The server listens on a socket, whose folder SQLAlchemy takes as a parameter.
url = urlsplit(os.environ["DATABASE_URL"])
user, _, host = url.netloc.rpartition("@")
database_url = f"postgresql://{user}@{url.path}?host={unquote(host)}"
config = DBOSConfig(name="turns", system_database_url=database_url, log_level="ERROR", run_admin_server=False)
DBOS(config=config)
app = FastAPI()
model = AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="scripted")


@DBOS.step()
async def answer(message: str) -> str:
    text = ""
    messages = [{"role": "user", "content": message}]
    async for chunk in await model.chat.completions.create(model="scripted", messages=messages, stream=True):
        token = chunk.choices[0].delta.content if chunk.choices else None
        if token:
            await DBOS.write_stream_async("tokens", token)
            text += token
    return text


@DBOS.workflow()
async def turn(message: str) -> str:
    text = await answer(message)
    await DBOS.close_stream_async("tokens")
    return text


async def tokens(workflow: str) -> AsyncIterator[str]:
    async for token in DBOS.read_stream_async(workflow, "tokens"):
        yield f"data: {json.dumps(token)}\n\n"


@app.post("/turns")
async def post(request: Request) -> StreamingResponse:
    started = await DBOS.start_workflow_async(turn, (await request.json())["message"])
    return StreamingResponse(tokens(started.workflow_id), media_type="text/event-stream")


@app.get("/")
async def ready() -> str:
    return "ready"


if __name__ == "__main__":
    DBOS.launch()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
