// A resumable SSE server over Redis streams, as one would write it with care: one blocking XREAD for all streams that somebody
// follows, each event rendered once and written to all its readers; a reader with a cursor is first given what it missed.
import http from 'node:http';
import Redis from 'ioredis';

const PAGE = 500;
const path = process.env.REDIS_SOCKET;
const reader = new Redis({ path });      // blocks
const commands = new Redis({ path });

/** Streams that somebody follows: key -> { last, readers } */
const followed = new Map();
let readerId = 0;
let wake = null;

const render = (id, fields) => `id: ${id}\ndata: ${fields[1]}\n\n`;

/** The live end of all followed streams. */
async function tail() {
  readerId = await reader.client('ID');
  for (;;) {
    if (followed.size === 0) {
      await new Promise((resolve) => { wake = resolve; });
      wake = null;
      continue;
    }
    const keys = [], ids = [];
    for (const [key, stream] of followed) {
      keys.push(key);
      ids.push(stream.last);
    }
    let news;
    try {
      news = await reader.xread('COUNT', PAGE, 'BLOCK', 1000, 'STREAMS', ...keys, ...ids);
    } catch (error) {
      if (!String(error).includes('UNBLOCKED')) throw error;
    }
    for (const [key, entries] of news ?? []) {
      const stream = followed.get(key);
      if (!stream) continue;
      let text = '';
      for (const [id, fields] of entries) text += render(id, fields);
      stream.last = entries[entries.length - 1][0];
      const chunk = Buffer.from(text);
      for (const response of stream.readers) response.write(chunk);
    }
  }
}

/** Whether an id (`milliseconds-number`) is later than another. */
function isLater(id, other) {
  const [ms, n] = id.split('-').map(Number), [otherMs, otherN = 0] = other.split('-').map(Number);
  return ms > otherMs || (ms === otherMs && n > otherN);
}

/** What a reader with a cursor has missed, up to where the live end stands. What lies beyond it is sent again from there, and a
 * client drops what it has: ids only grow. */
async function replay(response, key, stream, after) {
  let cursor = after;
  for (;;) {
    const entries = await commands.xrange(key, `(${cursor}`, '+', 'COUNT', PAGE);
    if (entries.length > 0) {
      response.write(entries.map(([id, fields]) => render(id, fields)).join(''));
      cursor = entries[entries.length - 1][0];
    } else if (!isLater(stream.last, cursor)) {
      return;
    }
  }
}

async function follow(request, response) {
  const url = new URL(request.url, 'http://peer');
  const key = decodeURIComponent(url.pathname.slice('/streams/'.length));
  const after = request.headers['last-event-id'] ?? url.searchParams.get('after') ?? '0';
  response.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-store, no-transform',
    'X-Accel-Buffering': 'no',
  });
  response.socket.setNoDelay(true);
  response.write('retry: 2000\n\n');
  let stream = followed.get(key);
  if (!stream) {
    const [newest] = await commands.xrevrange(key, '+', '-', 'COUNT', 1);
    stream = followed.get(key);
    if (!stream) {
      stream = { last: newest ? newest[0] : '0-0', readers: new Set() };
      followed.set(key, stream);
      // The blocked read does not know of it yet.
      if (wake) wake(); else commands.client('UNBLOCK', readerId, 'ERROR').catch(() => {});
    }
  }
  if (after !== 'now') await replay(response, key, stream, after);
  stream.readers.add(response);
  response.write('data: {"type":"caught_up"}\n\n');
  response.on('close', () => {
    stream.readers.delete(response);
    if (stream.readers.size === 0 && followed.get(key) === stream) followed.delete(key);
  });
}

const server = http.createServer((request, response) => {
  if (request.url === '/ready') {
    response.end('ready');
  } else {
    follow(request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  }
});
server.requestTimeout = 0;
server.listen({ port: Number(process.env.PORT), host: '127.0.0.1', backlog: 4096 });
tail().catch((error) => { console.error(error); process.exit(1); });
