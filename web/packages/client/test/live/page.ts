/** A page in a real browser: the built package, served from the API's own origin, signed in with a session's cookie. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const LIMIT_MS = 50_000;
const REMOVAL_LIMIT_MS = 5_000;
const REMOVAL_RETRY_MS = 50;

export const browser = [
  process.env.CHROME_BIN,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path && existsSync(path));

/** Runs a module in a page, and answers what it posts to `/result`. What it posts to `/cut` cuts all streams. */
export async function inPage(api: string, script: string): Promise<unknown> {
  const streams = new Set<ServerResponse>();
  let finish!: (result: unknown) => void;
  const result = new Promise((resolve) => (finish = resolve));
  const server = createServer((near, answer) => {
    const path = near.url!;
    if (path === '/')
      return void answer
        .setHeader('content-type', 'text/html')
        .end('<!doctype html><script type="module" src="/page.js"></script>');
    if (path === '/page.js') return void answer.setHeader('content-type', 'text/javascript').end(script);
    if (path === '/client.js') {
      const built = readFileSync(new URL('../../dist/index.js', import.meta.url));
      return void answer.setHeader('content-type', 'text/javascript').end(built);
    }
    if (path === '/cut') {
      for (const stream of streams) stream.destroy();
      return void answer.end();
    }
    if (path === '/result') {
      let body = '';
      near.on('data', (bytes: Buffer) => (body += bytes.toString()));
      return void near.on('end', () => {
        answer.end();
        finish(JSON.parse(body));
      });
    }
    // The rest is the API's, as a reverse proxy would pass it on.
    const far = request(api + path, { method: near.method!, headers: near.headers }, (reply) => {
      answer.writeHead(reply.statusCode!, reply.headers);
      if (path.includes('/events')) streams.add(answer);
      answer.on('close', () => {
        streams.delete(answer);
        far.destroy();
      });
      reply.on('error', () => answer.destroy());
      reply.pipe(answer);
    });
    far.on('error', () => answer.destroy());
    near.pipe(far);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const dir = mkdtempSync(join(tmpdir(), 'rejoin-browser-'));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const child = spawn(
    browser!,
    ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', `--user-data-dir=${dir}`, url],
    { stdio: 'ignore' },
  );
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const timer = setTimeout(() => finish({ error: 'the page posted no result in time' }), LIMIT_MS);
  try {
    return await result;
  } finally {
    clearTimeout(timer);
    child.kill('SIGTERM');
    await gone;
    server.closeAllConnections();
    server.close();
    await removed(dir);
  }
}

/** Removes the browser's profile. Its helper processes may still write into it for a moment after the browser has ended. */
async function removed(dir: string): Promise<void> {
  const end = Date.now() + REMOVAL_LIMIT_MS;
  for (;;) {
    try {
      return rmSync(dir, { recursive: true, force: true });
    } catch (error) {
      if (Date.now() > end) throw error;
      await delay(REMOVAL_RETRY_MS);
    }
  }
}
