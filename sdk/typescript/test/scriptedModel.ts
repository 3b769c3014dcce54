/** A language model for tests: it speaks OpenAI's Chat Completions protocol on this machine, and answers what a test has scripted. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An answer: a text, or a call of a tool. */
export type Reply = { readonly text: string } | { readonly tool: string; readonly arguments: Record<string, unknown> };

interface ChatRequest {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

export class ScriptedModel {
  readonly #replies = new Map<string, Reply[]>();
  readonly #learned = new Map<string, string>();

  private constructor(private readonly http: Server) {}

  static async start(): Promise<ScriptedModel> {
    const http = createServer(
      (request, response) => void model.#answer(request, response).catch(() => response.destroy()),
    );
    const model = new ScriptedModel(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return model;
  }

  /** The value of OPENAI_BASE_URL. */
  get url(): string {
    return `http://127.0.0.1:${(this.http.address() as AddressInfo).port}/v1`;
  }

  /** Sets the replies to requests whose last message of the user contains the marker, in their order. */
  script(marker: string, ...replies: Reply[]): void {
    this.#replies.set(marker, replies);
  }

  /** The outcome of the tool, as the last request with this marker has it. */
  learned(marker: string): string | undefined {
    return this.#learned.get(marker);
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.http.close(resolve));
    this.http.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let raw = '';
    for await (const chunk of request.setEncoding('utf8')) raw += chunk;
    const asked = JSON.parse(raw) as ChatRequest;
    const reply = this.#replyTo(asked);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (choices: unknown[], more: object = {}) => {
      const chunk = { id: 'c', object: 'chat.completion.chunk', created: 0, model: asked.model, choices, ...more };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    const [delta, reason] = 'text' in reply ? [{ content: reply.text }, 'stop'] : [callOf(reply), 'tool_calls'];
    send([{ index: 0, delta, finish_reason: null }]);
    send([{ index: 0, delta: {}, finish_reason: reason }]);
    send([], { usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 } });
    response.end('data: [DONE]\n\n');
  }

  #replyTo({ messages }: ChatRequest): Reply {
    const contents = (role: string) =>
      messages.filter((one) => one.role === role).map((one) => JSON.stringify(one.content));
    const asked = contents('user').at(-1) ?? '';
    for (const [marker, replies] of this.#replies) {
      if (!asked.includes(marker)) continue;
      const learned = contents('tool').at(-1);
      if (learned) this.#learned.set(marker, learned);
      const reply = replies.shift();
      if (reply) return reply;
    }
    return { text: 'Nothing was scripted for this.' };
  }
}

function callOf({ tool, arguments: given }: Extract<Reply, { tool: string }>): unknown {
  const called = { name: tool, arguments: JSON.stringify(given) };
  return { tool_calls: [{ index: 0, id: `call_${tool}`, type: 'function', function: called }] };
}
