// A small MCP server over streamable HTTP that answers with JSON: two tools, and nothing behind them. A test may change the tools.
import { createServer } from 'node:http';

const tool = (name) => ({ name, description: `Does ${name}.`, inputSchema: { type: 'object', properties: {} } });
const readOnly = { readOnlyHint: true };

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'small', version: '1' },
  }),
  ping: () => ({}),
};

export async function startMcp() {
  const tools = [{ ...tool('first'), annotations: readOnly }, tool('second')];
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== '/mcp')
      return void response.writeHead(request.url === '/mcp' ? 405 : 404).end();
    let body = '';
    for await (const piece of request) body += piece;
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return void response.writeHead(202).end();
    const result = method === 'tools/list' ? { tools } : ANSWERS[method]?.(params ?? {});
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({
        jsonrpc: '2.0',
        id,
        ...(result ? { result } : { error: { code: -32601, message: 'unknown' } }),
      }),
    );
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    tools,
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
