# A server by the protocol's own Python package, unmodified: modern.py PORT [TRANSPORT]. Serves the revision without a handshake, too; with the
# transport `sse`, only that of the oldest revision. With `stdio`, the port is not used.
import sys

from mcp.server.mcpserver import Context, MCPServer

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


transport = sys.argv[2] if len(sys.argv) > 2 else "streamable-http"
server.run(transport, host="127.0.0.1", port=int(sys.argv[1]))
