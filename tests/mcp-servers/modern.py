# A server by the protocol's own Python package, unmodified: modern.py PORT [TRANSPORT]. Serves the revision without a handshake, too; with the
# transport `sse`, only that of the oldest revision. With `stdio`, the port is not used.
import asyncio
import pathlib
import sys
from typing import Annotated

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = MCPServer("modern", version="1.0")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool to this server."""

    def grown() -> str:
        return "new"

    server.add_tool(grown, name="grown", description="Was added.")
    await context.notify_tools_changed()
    return "grown"


class Guest(BaseModel):
    name: str
    confirm: bool


def ask_guest(seats: int) -> Elicit[Guest]:
    return Elicit(f"Who takes {seats} seats?", Guest)


def ask_keeper() -> Elicit[Guest]:
    return Elicit("Who keeps it?", Guest)


@server.tool()
def book(seats: int, guest: Annotated[ElicitationResult[Guest], Resolve(ask_guest)]) -> str:
    """Books seats for a guest, who is asked."""
    if isinstance(guest, AcceptedElicitation):
        return f"{seats} seats for {guest.data.name}: {guest.data.confirm}"
    return f"not booked: {guest.action}"


@server.tool()
async def keep(ledger: str, guest: Annotated[Guest, Resolve(ask_keeper)]) -> str:
    """Asks who keeps it, writes the name into a file, and never answers."""
    pathlib.Path(ledger).write_text(guest.name)
    await asyncio.Event().wait()
    return "never"


@server.tool()
def insist() -> InputRequiredResult:
    """Asks again, whatever the answer."""
    form = ElicitRequestFormParams(message="Again?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"again": ElicitRequest(params=form)}, request_state="asked")


transport = sys.argv[2] if len(sys.argv) > 2 else "streamable-http"
server.run(transport, host="127.0.0.1", port=int(sys.argv[1]))
