/**
 * Sends authenticated requests for the client and its logs.
 *
 * Invariant: a request that is retried automatically carries its idempotency key.
 */
import { pauseMs } from './backoff.js';
import { RejoinError } from './error.js';
import { sleep } from './surroundings.js';

export interface Access {
  url?: string | undefined;
  apiKey?: string | (() => string | Promise<string>) | undefined;
  projectId?: string | undefined;
  fetch?: typeof fetch | undefined;
}

/** Longest wait for an answer that is no stream [ms]. */
const ANSWER_LIMIT_MS = 30_000;
/** So long a message is sent again [ms]. A restart of everything fits in. */
export const RETRY_LIMIT_MS = 120_000;

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string> | undefined;
}

export class Http {
  readonly #url: string;
  readonly #access: Access;

  constructor(access: Access) {
    const url = access.url ?? globalThis.location?.origin;
    if (!url || url === 'null') throw new TypeError('createClient needs a url outside a browser');
    this.#url = url.replace(/\/+$/, '');
    this.#access = access;
  }

  /** The answer's head. Throws a `RejoinError` where there is none, and the signal's reason where it was aborted. */
  async open(method: string, path: string, options: RequestOptions & { body?: unknown } = {}): Promise<Response> {
    const { apiKey, projectId, fetch: own } = this.#access;
    const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
    const key = typeof apiKey === 'function' ? await apiKey() : apiKey;
    if (key) headers.authorization = `Bearer ${key}`;
    if (projectId) headers['x-project-id'] = projectId;
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    try {
      // Called by its name, so that what replaces it later is called.
      return await (own ?? globalThis.fetch)(this.#url + path, {
        method,
        headers,
        credentials: key ? 'omit' : 'same-origin',
        cache: 'no-store',
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        ...(options.signal ? { signal: options.signal } : {}),
      });
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw new RejoinError(0, 'unreachable', `can't reach the API at ${this.#url}`, undefined, {}, { cause });
    }
  }

  /** One request and its JSON; `undefined` where the answer has none. */
  async request<T>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<T> {
    options.signal?.throwIfAborted();
    const limit = new AbortController();
    const slow = new RejoinError(0, 'timeout', `no response within ${ANSWER_LIMIT_MS / 1000} s`);
    const timer = setTimeout(() => limit.abort(slow), ANSWER_LIMIT_MS);
    const stop = () => limit.abort(options.signal?.reason);
    options.signal?.addEventListener('abort', stop);
    try {
      const response = await this.open(method, path, { ...options, body, signal: limit.signal });
      if (!response.ok) throw await RejoinError.of(response);
      const text = await response.text();
      return (text ? JSON.parse(text) : undefined) as T;
    } catch (cause) {
      limit.signal.throwIfAborted();
      if (cause instanceof RejoinError) throw cause;
      throw new RejoinError(0, 'unreachable', 'the response was cut off', undefined, {}, { cause });
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', stop);
    }
  }

  /** Posts until it is known to be stored: the key makes it one request, however often it arrives. */
  async postSurely<T>(
    path: string,
    body: unknown,
    key: string,
    signal?: AbortSignal,
    limitMs = RETRY_LIMIT_MS,
  ): Promise<T> {
    const until = Date.now() + limitMs;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.request<T>('POST', path, body, { signal, headers: { 'idempotency-key': key } });
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof RejoinError) || !error.temporary) throw error;
        const wait = Math.max(pauseMs(attempt), (error.retryAfter ?? 0) * 1000);
        if (Date.now() + wait > until) throw error;
        await sleep(wait, signal);
      }
    }
  }
}
