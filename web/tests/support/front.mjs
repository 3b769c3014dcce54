// A server in front of `rejoin dev`, at another address: it can become unreachable, and serve the app as if it were a newer version.
import { createServer, request } from 'node:http';

export async function startFront(url) {
  const { hostname, port: behind } = new URL(url);
  let isNewer = false;
  const server = createServer((asked, answer) => {
    const headers = { ...asked.headers };
    if (isNewer) {
      headers['accept-encoding'] = 'identity';
      delete headers['if-none-match'];
    }
    const passed = request({ hostname, port: behind, path: asked.url, method: asked.method, headers }, (found) => {
      const isPart = asked.url === '/sw.js' || /^text\/html/.test(found.headers['content-type'] ?? '');
      if (isNewer && isPart) return void newer(found, answer);
      answer.writeHead(found.statusCode, found.headers);
      found.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address();
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return {
    url: `http://127.0.0.1:${port}`,
    /** From here on the app is a newer version. */
    upgrade: () => {
      isNewer = true;
    },
    stop,
    /** At the same address. */
    resume: () => listen(port),
  };
}

/** The page and the worker with another script of the page, and another name of the version. */
async function newer(found, answer) {
  let text = '';
  for await (const piece of found.setEncoding('utf8')) text += piece;
  const changed = text
    .replaceAll(/\/assets\/app-[\w-]+\.js/g, '$&?newer')
    .replace(/const VERSION = '[^']*'/, "const VERSION = 'newer'");
  const headers = { ...found.headers };
  for (const name of ['content-length', 'etag', 'transfer-encoding']) delete headers[name];
  answer.writeHead(found.statusCode, headers);
  answer.end(changed);
}
