"""DBOS: a workflow whose steps stream the model's words into a durable stream, and call the tool, as its documentation describes streams and steps.

In the environment: DATABASE_URL, MODEL_URL, EFFECT_URL. Argument: the port.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from dbos import DBOS, DBOSConfig
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI

config = DBOSConfig(name="agent", system_database_url=os.environ["DATABASE_URL"], log_level="ERROR", run_admin_server=False)
DBOS(config=config)
app = FastAPI()
model = AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="scripted")
parameters = {"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}
tools = [{"type": "function", "function": {"name": "record", "description": "Records an effect.", "parameters": parameters}}]


@DBOS.step()
async def answer(messages: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    stream = await model.chat.completions.create(model="scripted", messages=messages, tools=tools, stream=True)
    async for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta and delta.content:
            await DBOS.write_stream_async("tokens", delta.content)
            message["content"] += delta.content
        for part in (delta and delta.tool_calls) or []:
            if part.id:
                message["tool_calls"] = [{"id": part.id, "type": "function", "function": {"name": "record", "arguments": ""}}]
            message["tool_calls"][0]["function"]["arguments"] += part.function.arguments or ""
    return message


@DBOS.step()
async def record(call: str) -> str:
    async with httpx.AsyncClient(timeout=None) as client:
        response = await client.post(os.environ["EFFECT_URL"], json={"call": call})
        return response.text


@DBOS.workflow()
async def turn(question: str) -> str:
    messages: list[Any] = [{"role": "user", "content": question}]
    text = ""
    while True:
        message = await answer(messages)
        text += message["content"]
        messages.append(message)
        if "tool_calls" not in message:
            break
        call = message["tool_calls"][0]
        result = await record(json.loads(call["function"]["arguments"])["call"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    await DBOS.close_stream_async("tokens")
    return text


def streamed(workflow: str, offset: int) -> StreamingResponse:
    async def frames() -> AsyncIterator[str]:
        number = offset
        async for token in DBOS.read_stream_async(workflow, "tokens", offset=offset):
            yield f"id: {number}\ndata: {json.dumps(token, ensure_ascii=False)}\n\n"
            number += 1
        yield "event: end\ndata: {}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream", headers={"x-workflow": workflow})


@app.post("/turns")
async def post(request: Request) -> StreamingResponse:
    started = await DBOS.start_workflow_async(turn, (await request.json())["message"])
    return streamed(started.workflow_id, 0)


@app.get("/turns/{workflow}/stream")
async def read(workflow: str, request: Request) -> StreamingResponse:
    return streamed(workflow, int(request.headers.get("last-event-id", "-1")) + 1)


@app.post("/turns/{workflow}/cancel")
async def cancel(workflow: str) -> dict[str, Any]:
    await DBOS.cancel_workflow_async(workflow)
    return {}


@app.get("/turns/{workflow}")
async def status(workflow: str) -> dict[str, Any]:
    found = await DBOS.get_workflow_status_async(workflow)
    return {"status": found and found.status, "output": found and found.output}


@app.get("/")
async def ready() -> dict[str, Any]:
    return {}


if __name__ == "__main__":
    DBOS.launch()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
