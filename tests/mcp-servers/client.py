# Unmodified Python clients against Rejoin: client.py URL KEY STEPS PACKAGE MODE. PACKAGE is the protocol's own (mcp) or FastMCP's (fastmcp), MODE
# how it connects: `legacy`, with a session, or `auto`, by the newest revision that both know. Steps and output are those of client.mjs.
import asyncio
import json
import random
import sys

import anyio
import httpx2

url, key, steps, package, mode = sys.argv[1:]
todo = json.loads(steps)
options = todo.pop(0) if "call" not in todo[0] and todo[0].keys() & {"answers", "cutSeed"} else {}
answers = options.get("answers")
headers = {"Authorization": f"Bearer {key}"}
chance = random.Random(options.get("cutSeed"))
cuts = 0


def say(value):
    print(json.dumps(value), flush=True)


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Cut(httpx2.AsyncByteStream):
    """Ends a stream after a random number of bytes, behind its first event, without which a client does not read on."""

    def __init__(self, stream):
        self.stream, self.left = stream, 150 + chance.randrange(1000)

    async def __aiter__(self):
        global cuts
        async for chunk in self.stream:
            yield chunk[: self.left]
            self.left -= len(chunk)
            if self.left <= 0:
                cuts += 1
                return

    async def aclose(self):
        await self.stream.aclose()


class Cutting(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        if "cutSeed" in options and b"tools/call" in request.content:
            response.stream = Cut(response.stream)
        return response


def http(**more):
    return httpx2.AsyncClient(**{"transport": Cutting(), "timeout": 60, "headers": headers, **more})


def the_protocols_own():
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import ElicitResult

    async def answer(_, params):
        say({"asked": plain(params)})
        return ElicitResult(**answers.pop(0))

    transport = streamable_http_client(url, http_client=http())
    client = Client(transport, mode=mode, elicitation_callback=None if answers is None else answer)
    return client, lambda step, told: client.call_tool(step["call"], step["arguments"], progress_callback=told)


def fastmcps():
    from fastmcp import Client
    from fastmcp.client.elicitation import ElicitResult
    from fastmcp.client.transports import StreamableHttpTransport

    async def answer(_, __, params, ___):
        say({"asked": plain(params)})
        return ElicitResult(**answers.pop(0))

    transport = StreamableHttpTransport(url, headers=headers, httpx_client_factory=http)
    client = Client(transport, mode=mode, elicitation_handler=None if answers is None else answer)
    return client, lambda step, told: client.call_tool_mcp(step["call"], step["arguments"], progress_handler=told)


client, call_tool = the_protocols_own() if package == "mcp" else fastmcps()


async def call(step):
    progress = []
    with anyio.CancelScope() as scope:

        async def told(_, __, message):
            progress.append(message)
            if step.get("cancelAfterProgress"):
                scope.cancel()

        try:
            return {**plain(await call_tool(step, told)), "progress": progress}
        except Exception as error:  # noqa: BLE001: whatever it is, the test looks at it
            return {"failed": str(error), "progress": progress}
    return {"failed": "cancelled", "progress": progress}


def listed(name, result):
    """FastMCP returns the items, the protocol's own client a page of them."""
    return {name: [plain(item) for item in (result if isinstance(result, list) else getattr(result, name))]}


async def main():
    async with client:
        say({"version": client.protocol_version})
        for step in todo:
            if "wait" in step:
                await asyncio.to_thread(sys.stdin.readline)
            elif "list" in step:
                say(listed("tools", await client.list_tools()))
            elif "resources" in step:
                say(listed("resources", await client.list_resources()))
            elif "read" in step:
                say(listed("contents", await client.read_resource(step["read"])))
            elif "together" in step:
                results = await asyncio.gather(*map(call, step["together"]))
                say({"results": results, "cuts": cuts})
            else:
                say(await call(step))


asyncio.run(main())
