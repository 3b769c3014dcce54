# The protocol's own Python client, unmodified, against Rejoin: client.py URL KEY. Lists the tools, searches, and prints what came.
import asyncio
import json
import sys

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    client = httpx2.AsyncClient(headers=headers, timeout=60)
    context = streamable_http_client(url, http_client=client)
    async with context as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        found = await session.call_tool("search_entities", {"query": "curl"})
        print(json.dumps({"tools": tools, "found": found.structured_content}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
