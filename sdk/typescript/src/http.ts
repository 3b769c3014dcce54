/** Sends one request, and turns failures into errors. Thin: what to send, and when again, is decided by `requests` and `connection`. */
import { errorOf, RejoinError, ResponseError, UnreachableError } from './errors.js';
import { Json, type Request } from './requests.js';
import type { Settings } from './settings.js';
import { type Transport, transportFor } from './transport.js';

export const USER_AGENT = 'rejoin-typescript/0.1.0';

/** The API of these settings. */
export class Http {
  #transport: Promise<Transport> | undefined;

  constructor(readonly settings: Settings) {}

  /**
   * Sends a request once. `limitMs`: for all of it. Rejects with a `RejoinError`, or with the reason of the signal.
   */
  async run<T>(request: Request<T>, limitMs: number, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const { url } = this.settings;
    const limit = new AbortController();
    const late = () => new UnreachableError(`the API at ${url} has not responded within ${limitMs / 1000} s`);
    const timer = setTimeout(() => limit.abort(late()), limitMs);
    const stop = () => limit.abort(signal.reason);
    signal.addEventListener('abort', stop);
    try {
      const headers = await this.#headers();
      limit.signal.throwIfAborted();
      this.#transport ??= transportFor(url, this.settings.fetch);
      const send = await this.#transport;
      const { status, body, retryAfter } = await send(url + request.path, {
        method: request.method,
        headers,
        body: request.body === undefined ? undefined : jsonOf(request.body),
        signal: limit.signal,
      });
      if (status < 200 || status > 299) throw errorOf(status, body, retryAfter);
      return read(request, body);
    } catch (cause) {
      limit.signal.throwIfAborted();
      // Others are those of the transport, which differ between runtimes.
      throw cause instanceof RejoinError ? cause : this.#unreachable(cause);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    }
  }

  async #headers(): Promise<Record<string, string>> {
    const { apiKey, projectId } = this.settings;
    let key: string;
    try {
      key = typeof apiKey === 'function' ? await apiKey() : apiKey;
    } catch (cause) {
      throw new UnreachableError(`the function for the API key has failed: ${String(cause)}`, { cause });
    }
    return {
      accept: 'application/json',
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'user-agent': USER_AGENT,
      ...(projectId ? { 'x-project-id': projectId } : {}),
    };
  }

  #unreachable(cause: unknown): UnreachableError {
    const { message, cause: deeper } = Object(cause) as {
      message?: string;
      cause?: { message?: string; code?: string };
    };
    const why = deeper?.message || deeper?.code || message || String(cause);
    return new UnreachableError(
      `cannot reach the API at ${this.settings.url}: ${why} (is it running? \`rejoin dev\` starts one; \`rejoin doctor\` checks the setup)`,
      { cause },
    );
  }
}

function jsonOf(body: unknown): string {
  return body instanceof Json ? body.text : JSON.stringify(body);
}

function read<T>(request: Request<T>, body: string): T {
  try {
    return request.response.parse(body ? JSON.parse(body) : undefined);
  } catch (cause) {
    const text = `the response to ${request.path} is not as this version knows it; is the URL that of a Rejoin API?`;
    throw new ResponseError(text, { cause });
  }
}
