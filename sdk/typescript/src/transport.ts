/**
 * How a request gets to the API, and its response back. In Node.js by Node's own client, which takes a third of the processor time of its `fetch`:
 * a step of a durable function is one request. Elsewhere by `fetch`.
 */
import { environment, nodeModule, runsInNode } from './surroundings.js';

/** What is sent. */
export interface Sent {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Ends the request. */
  readonly signal: AbortSignal;
}

/** What came back. */
export interface Received {
  readonly status: number;
  readonly body: string;
  /** The header of this name. */
  readonly retryAfter: string | null;
}

/** Sends a request once. Rejects if there is no response, or only a part of one. Redirections are responses. */
export type Transport = (url: string, sent: Sent) => Promise<Received>;

/** A function like `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Idle time after which a connection is closed: before what is between here and the API closes it. */
const IDLE_MS = 4000;

/** What is used of `node:http` and `node:https`. */
interface Client {
  readonly Agent: new (options: { keepAlive: boolean; timeout: number }) => object;
  request(url: string, options: object, respond: (response: Incoming) => void): Outgoing;
}

interface Outgoing {
  on(event: 'error', listener: (error: Error) => void): unknown;
  end(body?: string): unknown;
}

interface Incoming {
  readonly statusCode?: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  setEncoding(encoding: string): unknown;
  on(event: 'data', listener: (piece: string) => void): unknown;
  on(event: 'end' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Returns the transport for these URLs. `own`: the program's function, by which all is sent. */
export async function transportFor(url: string, own: Fetch | undefined): Promise<Transport> {
  // Only `fetch` goes through the proxy of the environment.
  if (own || !runsInNode || environment().NODE_USE_ENV_PROXY) return byFetch(own ?? fetch);
  const client = (await nodeModule(url.startsWith('https:') ? 'node:https' : 'node:http')) as Client;
  return byClient(client);
}

function byFetch(send: Fetch): Transport {
  return async (url, { method, headers, body, signal }) => {
    const init = { method, headers, redirect: 'manual', signal, ...(body === undefined ? {} : { body }) } as const;
    const response = await send(url, init);
    return {
      status: response.status,
      body: await response.text(),
      retryAfter: response.headers.get('retry-after'),
    };
  };
}

function byClient(client: Client): Transport {
  const agent = new client.Agent({ keepAlive: true, timeout: IDLE_MS });
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      // With its length, so that it is not sent in chunks.
      const length = body === undefined ? {} : { 'content-length': new TextEncoder().encode(body).length };
      const options = { method, agent, signal, headers: { ...headers, ...length } };
      const request = client.request(url, options, (response) => {
        let received = '';
        let isWhole = false;
        response.setEncoding('utf8');
        response.on('data', (piece) => {
          received += piece;
        });
        response.on('end', () => {
          isWhole = true;
          const after = response.headers['retry-after'];
          resolve({
            status: response.statusCode ?? 0,
            body: received,
            retryAfter: typeof after === 'string' ? after : null,
          });
        });
        response.on('error', reject);
        response.on('close', () => {
          if (!isWhole) reject(new Error('the response was cut off'));
        });
      });
      request.on('error', reject);
      request.end(body);
    });
}
