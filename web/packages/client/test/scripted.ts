/** An API that a test plays by hand: requests wait until the test answers them. */
import { expect } from 'vitest';
import type { ClientOptions } from '../src/index.js';
import { createClient } from '../src/index.js';

export class Asked {
  readonly answered: Promise<Response>;
  #answer!: (response: Response) => void;
  #refuse!: (error: unknown) => void;
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(
    readonly method: string,
    readonly path: string,
    readonly headers: Headers,
    readonly body: unknown,
    readonly init: RequestInit,
  ) {
    this.answered = new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#refuse = reject;
    });
    init.signal?.addEventListener('abort', () => {
      const reason: unknown = init.signal!.reason;
      this.#refuse(reason);
      try {
        this.#stream?.error(reason);
      } catch {
        // It is over already.
      }
    });
  }

  get aborted(): boolean {
    return this.init.signal?.aborted ?? false;
  }

  json(status: number, body: unknown, headers: Record<string, string> = {}): void {
    this.#answer(new Response(body === undefined ? null : JSON.stringify(body), { status, headers }));
  }

  fail(): void {
    this.#refuse(new TypeError('fetch failed'));
  }

  /** Answers with a stream that stays open. */
  stream(headers: Record<string, string> = {}): this {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#stream = controller;
      },
    });
    this.#answer(new Response(body, { headers: { 'content-type': 'text/event-stream', ...headers } }));
    return this;
  }

  event(seq: number | undefined, event: object): this {
    return this.bytes(`${seq === undefined ? '' : `id: ${seq}\n`}data: ${JSON.stringify(event)}\n\n`);
  }

  bytes(text: string): this {
    this.#stream!.enqueue(new TextEncoder().encode(text));
    return this;
  }

  end(): void {
    this.#stream!.close();
  }

  cut(): void {
    this.#stream!.error(new TypeError('terminated'));
  }
}

export class ScriptedApi {
  readonly asked: Asked[] = [];
  #taken = 0;

  readonly fetch = (async (url: string, init: RequestInit) => {
    const { pathname, search } = new URL(url);
    const body = init.body ? (JSON.parse(init.body as string) as unknown) : undefined;
    const asked = new Asked(init.method!, pathname + search, new Headers(init.headers), body, init);
    this.asked.push(asked);
    return asked.answered;
  }) as typeof fetch;

  client(options: ClientOptions = {}) {
    return createClient({ url: 'http://api.test', apiKey: 'key', fetch: this.fetch, ...options });
  }

  /** The next request, as soon as it is there. */
  async next(limitMs = 15_000): Promise<Asked> {
    await expect.poll(() => this.asked.length, { timeout: limitMs, interval: 2 }).toBeGreaterThan(this.#taken);
    return this.asked[this.#taken++]!;
  }

  /** Requests that no test has taken yet. */
  get waiting(): number {
    return this.asked.length - this.#taken;
  }
}
