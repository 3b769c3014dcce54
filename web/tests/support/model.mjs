// A scripted model that streams the answers of a test, word by word, over the chat completions protocol.
import { createServer } from 'node:http';

/** Between two words [ms], unless a reply says otherwise. */
const PACE_MS = 15;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * `reply(messages)` gives `{text?, tools?: [{name, arguments}], paceMs?}` for what the model is asked, or `{refusal}`: it refuses, with these words.
 * `breaks`: the connection is lost behind the text. A request that is dropped (its worker was killed) stops there.
 */
export async function startModel(reply) {
  let calls = 0;
  /** What is held back, with the part of the words that is sent before. */
  const held = new Map();
  const isHeld = (body, part) => [...held].some(([phrase, upTo]) => part >= upTo && body.includes(phrase));
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const asked = JSON.parse(body);
    const { text = '', tools = [], paceMs = PACE_MS, refusal, breaks = false } = reply(asked.messages);
    if (refusal) {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: refusal, type: 'invalid_request_error' } }));
      return;
    }
    const chunk = (delta, finish = null) =>
      response.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: asked.model, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
      );
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    chunk({ role: 'assistant', content: '' });
    const words = text.match(/\s*\S+\s*/g) ?? [];
    for (const [nth, word] of words.entries()) {
      while (isHeld(body, nth / words.length) && !response.destroyed) await pause(PACE_MS);
      if (response.destroyed) return;
      chunk({ content: word });
      if (paceMs > 0) await pause(paceMs);
    }
    if (breaks) return void response.destroy();
    for (const [index, tool] of tools.entries()) {
      chunk({
        tool_calls: [
          {
            index,
            id: `call_${++calls}`,
            type: 'function',
            function: { name: tool.name, arguments: JSON.stringify(tool.arguments) },
          },
        ],
      });
    }
    chunk({}, tools.length > 0 ? 'tool_calls' : 'stop');
    response.write(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: asked.model, choices: [], usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 } })}\n\n`,
    );
    response.end('data: [DONE]\n\n');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    /**
     * Holds answers to requests with this phrase back after a part of their words, so that a test reaches the middle of one on any machine;
     * until the returned function is called.
     */
    hold: (phrase, upTo = 0.5) => {
      held.set(phrase, upTo);
      return () => held.delete(phrase);
    },
    url: `http://127.0.0.1:${server.address().port}/v1`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
