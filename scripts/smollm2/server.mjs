// A small real model behind OpenAI's chat completions protocol, for trying Rejoin with words that nobody scripted.
//
// It serves one GGUF file with node-llama-cpp on 127.0.0.1: POST /v1/chat/completions (streamed or whole) and GET /v1/models.
// No tools: a model of this size can't call them, so give it to agents without any. One answer at a time; others wait.
// A client that goes away stops the generation. How to set it up: docs/REAL_MODEL.md.
//
//   node server.mjs MODEL.gguf [PORT]        a port of 0 takes a free one; the URL is printed when it is ready

import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is taken from the current folder, so that nothing is installed beside this file.
const { getLlama, LlamaChatSession, LlamaLogLevel } = await import(
    pathToFileURL(createRequire(path.join(process.cwd(), "package.json")).resolve("node-llama-cpp")).href
);

const MODEL_NAME = "smollm2";
const CONTEXT_TOKENS = 4096;
const MAX_TOKENS = 256;
// The threads of llama.cpp wait for each other in a busy loop: more of them than free cores is far slower than one.
const THREADS = Number(process.env.THREADS ?? 1);
const MAX_BODY_BYTES = 1024 * 1024;

const [file, port = "0"] = process.argv.slice(2);
if (!file) {
    console.error("usage: node server.mjs MODEL.gguf [PORT]");
    process.exit(2);
}
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: THREADS });
const sequence = context.getSequence();

// One sequence: answers take turns.
let turn = Promise.resolve();
const inTurn = (work) => (turn = turn.then(work, work));

async function readJson(request) {
    const chunks = [];
    let bytes = 0;
    for await (const chunk of request) {
        bytes += chunk.length;
        if (bytes > MAX_BODY_BYTES) throw new Error(`the body is longer than ${MAX_BODY_BYTES} bytes`);
        chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));

// The protocol's messages as the library's history; the last one is the prompt.
function conversation(messages) {
    const history = messages.slice(0, -1).map(({ role, content }) =>
        role === "assistant" ? { type: "model", response: [textOf(content)] }
        : { type: role === "system" || role === "developer" ? "system" : "user", text: textOf(content) });
    return { history, prompt: textOf(messages.at(-1).content) };
}

async function complete(body, signal, onText) {
    const { history, prompt } = conversation(body.messages);
    await sequence.clearHistory();
    const meter = sequence.tokenMeter.getState();
    const session = new LlamaChatSession({ contextSequence: sequence });
    session.setChatHistory(history);
    try {
        const { responseText, stopReason } = await session.promptWithMeta(prompt, {
            signal, stopOnAbortSignal: true, onTextChunk: onText,
            temperature: body.temperature ?? 0.2,
            maxTokens: Math.min(body.max_tokens ?? body.max_completion_tokens ?? MAX_TOKENS, MAX_TOKENS),
        });
        const used = sequence.tokenMeter.diff(meter);
        const usage = { prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens,
            total_tokens: used.usedInputTokens + used.usedOutputTokens };
        return { text: responseText, finish: stopReason === "maxTokens" ? "length" : "stop", usage };
    } finally {
        session.dispose({ disposeSequence: false });
    }
}

let number = 0;
async function chat(request, response) {
    const body = await readJson(request);
    if (!Array.isArray(body.messages) || body.messages.length === 0) throw new Error("messages are missing");
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const base = { id: `chatcmpl-${++number}`, created: Math.floor(Date.now() / 1000), model: MODEL_NAME };
    await inTurn(async () => {
        if (gone.signal.aborted) return;
        if (!body.stream) {
            const { text, finish, usage } = await complete(body, gone.signal, undefined);
            const message = { role: "assistant", content: text };
            response.setHeader("content-type", "application/json");
            response.end(JSON.stringify({ ...base, object: "chat.completion", usage, choices: [{ index: 0, message, finish_reason: finish }] }));
            return;
        }
        response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
        const send = (fields) => response.write(`data: ${JSON.stringify({ ...base, object: "chat.completion.chunk", ...fields })}\n\n`);
        const delta = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
        delta({ role: "assistant", content: "" });
        const { finish, usage } = await complete(body, gone.signal, (content) => delta({ content }));
        delta({}, finish);
        if (body.stream_options?.include_usage) send({ choices: [], usage });
        response.end("data: [DONE]\n\n");
    });
}

const server = http.createServer((request, response) => {
    const answer = (status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (request.method === "GET" && request.url === "/v1/models") {
        answer(200, { object: "list", data: [{ id: MODEL_NAME, object: "model", owned_by: "local" }] });
    } else if (request.method === "POST" && request.url === "/v1/chat/completions") {
        chat(request, response).catch((error) => {
            console.error(error);
            // Once the stream has begun, only its end can tell that it failed.
            if (response.headersSent) response.destroy();
            else answer(400, { error: { message: String(error.message ?? error), type: "invalid_request_error" } });
        });
    } else {
        answer(404, { error: { message: "not found", type: "invalid_request_error" } });
    }
});
server.listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
