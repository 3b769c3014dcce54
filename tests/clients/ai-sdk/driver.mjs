// A chat page without a browser: `Chat` of @ai-sdk/react with the DefaultChatTransport of `ai`, both unmodified. It takes commands, one line of
// JSON each, and answers each with one line of JSON: the state of the chat.
//
// Its only argument is JSON: { url, key, id, body?, outputs?, approve? }. `outputs` are the results of the page's own tools, by name; `approve`
// is what its user decides about calls.

import { createInterface } from 'node:readline';
import { Chat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';

const { url, key, id, body, outputs = {}, approve } = JSON.parse(process.argv[2]);
const api = `${url}/api/ai/chat`;
const headers = { authorization: `Bearer ${key}` };
const LIMIT_MS = 60_000;

let chat;
let turn = Promise.resolve();
let errors = [];

function open(messages) {
  errors = [];
  chat = new Chat({
    id,
    messages,
    transport: new DefaultChatTransport({
      api,
      headers,
      body,
      // The answer may be stored between the page's two requests.
      prepareReconnectToStreamRequest: () => ({ api: `${api}/${encodeURIComponent(id)}/stream?after=${messages.at(-1)?.id ?? ''}`, headers }),
    }),
    sendAutomaticallyWhen: options =>
      lastAssistantMessageIsCompleteWithToolCalls(options) || lastAssistantMessageIsCompleteWithApprovalResponses(options),
    onToolCall({ toolCall }) {
      if (toolCall.dynamic) return;
      const output = outputs[toolCall.toolName];
      // Not awaited: it waits for the end of the message that is being read.
      if (output?.failed) chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, state: 'output-error', errorText: output.failed });
      else if (output !== undefined) chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
    },
    onError: error => errors.push(error.message),
  });
}

const partsOf = message => message?.parts ?? [];

/** The words of a message, as a page shows them: without the parts that the server has marked as abandoned. */
const textOf = message =>
  partsOf(message)
    .filter(part => part.type === 'text' && !part.providerMetadata?.rejoin?.abandoned)
    .map(part => part.text)
    .join('');

const answer = () => chat.messages.findLast(message => message.role === 'assistant');

function state() {
  return { status: chat.status, errors, messages: chat.messages, text: textOf(answer()), everything: partsOf(answer()).filter(part => part.type === 'text').map(part => part.text).join('') };
}

async function until(condition) {
  const end = Date.now() + LIMIT_MS;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`waited in vain: ${JSON.stringify(state())}`);
    await new Promise(resolve => setTimeout(resolve, 2));
  }
}

/** Waits until the chat rests: also the requests that it makes by itself. */
async function rest() {
  await turn;
  await until(() => chat.status === 'ready' || chat.status === 'error');
}

const commands = {
  async send({ text, files, messageId }) {
    turn = chat.sendMessage({ text, files, messageId });
    await rest();
  },
  async begin({ text }) {
    turn = chat.sendMessage({ text });
    await until(() => chat.status !== 'ready');
  },
  async words({ atLeast }) {
    await until(() => textOf(answer()).length >= atLeast || chat.status === 'ready' || chat.status === 'error');
  },
  rest,
  async stop() {
    await chat.stop();
  },
  /** A reload of the page: the stored messages, and what is being written. */
  async reload() {
    await chat.stop();
    const stored = await fetch(`${api}/${encodeURIComponent(id)}`, { headers });
    open((await stored.json()).messages);
    turn = chat.resumeStream();
    await rest();
  },
  /** The network fails, and the page resumes with what it has. */
  async resume() {
    turn = chat.resumeStream();
    await rest();
  },
  async decide() {
    const parts = partsOf(answer()).filter(part => isToolUIPart(part) && part.state === 'approval-requested');
    for (const part of parts) await chat.addToolApprovalResponse({ id: part.approval.id, approved: approve });
    await until(() => chat.status !== 'ready');
    await rest();
  },
  async regenerate() {
    turn = chat.regenerate();
    await rest();
  },
  state() {},
};

open([]);
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    await commands[command.do](command);
    console.log(JSON.stringify(state()));
  } catch (error) {
    console.log(JSON.stringify({ ...state(), failed: String(error?.stack ?? error) }));
  }
}
process.exit(0);
