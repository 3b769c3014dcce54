// A real language model behind OpenAI's Chat Completions protocol: what it says and which tool it calls, nobody has scripted.
//
// It serves one GGUF file with node-llama-cpp on 127.0.0.1: POST /v1/chat/completions (streamed or whole; tools, tool_choice, usage)
// and GET /v1/models. Started by scripts/test-model.sh, or by hand: docs/operations/real-model.md. One answer at a time; others
// wait. A client that goes away stops the generation. What a request asks for and this server cannot do is refused with 400,
// never ignored in silence.
//
// The model chooses, a grammar keeps the form. With tools, every reply begins with a decision that the model writes behind `{"tool": "`:
// a grammar allows there the name of any offered tool, or `answer`. Behind a tool's name, a grammar made of its JSON Schema allows only
// arguments of that form; their values are the model's. After `answer` the model is asked anew, without a word about tools and with the
// results as part of the question, and nothing constrains what it writes. `tool_choice` narrows the names: `required` takes `answer`
// away, a named function leaves one name, `none` skips the decision.
//
//   node server.mjs MODEL.gguf [PORT]        a port of 0 takes a free one; the URL is printed when it is ready

import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is taken from the current folder, so that nothing is installed beside this file.
const { getLlama, LlamaGrammarEvaluationState, LlamaLogLevel } = await import(
    pathToFileURL(createRequire(path.join(process.cwd(), "package.json")).resolve("node-llama-cpp")).href
);

const MODEL_NAME = "qwen2.5-coder-0.5b";
const CONTEXT_TOKENS = 8192;
const MAX_ANSWER_TOKENS = 512;
// Arguments longer than this are not finished: the reply ends with `length`.
const MAX_ARGUMENT_TOKENS = 256;
// The threads of llama.cpp wait for each other in a busy loop: more of them than free cores is far slower than one.
const THREADS = Number(process.env.THREADS ?? 1);
const MAX_BODY_BYTES = 4 * 1024 * 1024;
// While a long prompt is read nothing else is sent: a comment tells the client that the connection lives.
const KEEP_ALIVE_MS = 5000;

const [file, port = "0"] = process.argv.slice(2);
if (!file) {
    console.error("usage: node server.mjs MODEL.gguf [PORT]");
    process.exit(2);
}
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: THREADS });
const sequence = context.getSequence();

class Refusal extends Error {
    constructor(message, code = null) {
        super(message);
        this.code = code;
    }
}

// One sequence: answers take turns.
let turn = Promise.resolve();
const inTurn = (work) => (turn = turn.then(work, work));

async function readJson(request) {
    const chunks = [];
    let bytes = 0;
    for await (const chunk of request) {
        bytes += chunk.length;
        if (bytes > MAX_BODY_BYTES) throw new Refusal(`the body is longer than ${MAX_BODY_BYTES} bytes`);
        chunks.push(chunk);
    }
    try {
        return JSON.parse(Buffer.concat(chunks).toString("utf8"));
    } catch (error) {
        throw new Refusal(`the body is not JSON: ${error.message}`);
    }
}

// Fields of a request that this server obeys, or that change nothing for one answer of one model.
const KNOWN = new Set(["model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "seed",
    "max_tokens", "max_completion_tokens", "n", "user", "store", "metadata", "stop"]);

function check(body) {
    if (!Array.isArray(body.messages) || body.messages.length === 0) throw new Refusal("messages are missing");
    const unknown = Object.keys(body).filter((field) => !KNOWN.has(field));
    if (unknown.length > 0) throw new Refusal(`this server does not know: ${unknown.join(", ")}`, "unsupported_parameter");
    if ((body.n ?? 1) !== 1) throw new Refusal("n can only be 1", "unsupported_parameter");
    if (body.stop?.length > 0) throw new Refusal("stop sequences are not offered", "unsupported_parameter");
    const answered = new Set();
    for (const message of body.messages) {
        if (message.role === "tool" && !answered.delete(message.tool_call_id))
            throw new Refusal(`the tool result ${message.tool_call_id} answers no call before it`);
        if (message.role !== "tool" && answered.size > 0) throw new Refusal(`calls without a result: ${[...answered].join(", ")}`);
        for (const call of message.tool_calls ?? []) answered.add(call.id);
    }
    if (answered.size > 0) throw new Refusal(`calls without a result: ${[...answered].join(", ")}`);
}

function textOf(content) {
    if (typeof content === "string") return content;
    return (content ?? []).map((part) => {
        if (part.type !== "text") throw new Refusal(`this model takes no content of the type ${part.type}`);
        return part.text;
    }).join("");
}

// A parameter's type in a word or two, for the prompt: a schema in full costs the model five times the tokens.
function typeOf(schema) {
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    const types = [schema.type ?? "any"].flat();
    return types.map((type) => (type === "array" ? `${typeOf(schema.items ?? {})}[]` : type)).join(" | ");
}

function signature({ function: { name, description = "", parameters = {} } }) {
    const fields = Object.entries(parameters.properties ?? {}).map(([field, schema]) => `${field}: ${typeOf(schema)}`);
    return `- ${name} {${fields.join(", ")}}: ${description}`;
}

// The library's grammar of JSON knows lists of types only of plain ones, and takes every property as required.
function forGrammar(schema) {
    if ("$ref" in schema) throw new Refusal("$ref in a tool's schema is not offered", "unsupported_parameter");
    if (schema.enum) return { enum: schema.enum };
    if ("const" in schema) return { const: schema.const };
    const alternatives = schema.anyOf ?? schema.oneOf;
    if (alternatives) return { oneOf: alternatives.map(forGrammar) };
    if (Array.isArray(schema.type)) return { oneOf: schema.type.map((type) => forGrammar({ ...schema, type })) };
    if (schema.type === "array") return { type: "array", ...(schema.items && { items: forGrammar(schema.items) }) };
    if (schema.type === "object") {
        const properties = Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, value]) => [name, forGrammar(value)]));
        return { type: "object", properties, additionalProperties: schema.properties === undefined };
    }
    return { type: schema.type ?? "string" };
}

// Grammars are compiled once for each form, and so many are kept.
const MAX_GRAMMARS = 200;
const grammars = new Map();
async function grammarOf(key, make) {
    if (grammars.size >= MAX_GRAMMARS) grammars.clear();
    if (!grammars.has(key)) grammars.set(key, await make());
    return grammars.get(key);
}
const argumentsGrammar = (schema) => grammarOf(JSON.stringify(schema), () =>
    llama.createGrammarForJsonSchema(forGrammar({ type: "object", properties: {}, ...schema })));
const namesGrammar = (names) => grammarOf(names.join("\n"), () =>
    llama.createGrammar({ grammar: `root ::= ( ${names.map((name) => JSON.stringify(name)).join(" | ")} ) "\\""` }));

// The decision to call no tool. It is a name among those of the tools, since a model of this size chooses among names well.
const ANSWER = "answer";
const DECISION = '{"tool": "';
// What a tokenizer may read as markup, and what is text alone, whatever it holds.
const mark = (text) => ({ text, markup: true });
const said = (role, text) => [mark("<|im_start|>"), { text: `${role}\n${text}` }, mark("<|im_end|>"), { text: "\n" }];
const tokensOf = (pieces) => pieces.flatMap(({ text, markup = false }) => [...model.tokenize(text, markup)]);

const systemOf = (messages) => messages.filter(({ role }) => role === "system" || role === "developer").map(({ content }) => textOf(content));
const reply = (pieces) => [...pieces, mark("<|im_start|>"), { text: "assistant\n" }];

// The conversation as it is read for a decision: in the model's own markup (ChatML), with calls in the form in which it writes them.
function decisionPrompt(messages, tools) {
    const listed = [...tools.map(signature), `- ${ANSWER} {}: Say something to the user: a greeting, or the answer that a tool's result gives.`];
    const system = [...systemOf(messages), `# Tools\n${listed.join("\n")}\n\nChoose the tool for the user's message.`];
    const pieces = said("system", system.join("\n\n"));
    for (const message of messages) {
        if (message.role === "user") pieces.push(...said("user", textOf(message.content)));
        if (message.role === "tool") pieces.push(...said("user", `${textOf(message.content)}\n\nThat is the result. Choose ${ANSWER} if it has what I asked for.`));
        if (message.role !== "assistant") continue;
        const parts = textOf(message.content) === "" ? [] : [textOf(message.content)];
        for (const { function: called } of message.tool_calls ?? [])
            parts.push(`{"tool": ${JSON.stringify(called.name)}, "arguments": ${called.arguments}}`);
        pieces.push(...said("assistant", parts.join("\n")));
    }
    return reply(pieces);
}

// The conversation as it is read for an answer: no tools, and their results stand below the question that they were called for.
function answerPrompt(messages) {
    const pieces = [];
    const system = systemOf(messages);
    if (system.length > 0) pieces.push(...said("system", system.join("\n\n")));
    const names = new Map();
    let question = null;
    const flush = () => {
        if (question !== null) pieces.push(...said("user", question));
        question = null;
    };
    for (const message of messages) {
        if (message.role === "user") {
            flush();
            question = textOf(message.content);
        } else if (message.role === "tool") {
            question = `${question ?? ""}\n\nUse this result of ${names.get(message.tool_call_id)}:\n${textOf(message.content)}`;
        } else if (message.role === "assistant") {
            for (const { id, function: called } of message.tool_calls ?? []) names.set(id, called.name);
            if (textOf(message.content) === "") continue;
            flush();
            pieces.push(...said("assistant", textOf(message.content)));
        }
    }
    flush();
    return reply(pieces);
}

// What one request makes of the sequence: what the model has read and written for it.
class Generation {
    constructor(body, signal) {
        this.signal = signal;
        this.options = { temperature: body.temperature ?? 0, topP: body.top_p, seed: body.seed };
        this.promptTokens = 0;
        this.completionTokens = 0;
        this.cachedTokens = 0;
        this.rate = null;
    }

    // Begins with a prompt.
    async read(pieces) {
        this.pending = tokensOf(pieces);
        const tokens = this.pending.length;
        this.promptTokens += tokens;
        if (tokens + MAX_ANSWER_TOKENS > sequence.contextSize)
            throw new Refusal(`the prompt has ${tokens} tokens; with the answer, ${sequence.contextSize} fit`, "context_length_exceeded");
        // What the last request left in the model's state is not read again, as far as it is the same.
        await sequence.adaptStateToTokens(this.pending, false);
        this.cachedTokens += sequence.nextTokenIndex;
        this.pending = this.pending.slice(sequence.nextTokenIndex);
    }

    // Text that the model reads as if it had written it.
    force(text) {
        this.pending.push(...model.tokenize(text));
    }

    // What the model writes next, until it ends, `isWhole` says so, or `maxTokens`.
    async write({ grammar, maxTokens, isWhole = () => false, onText = () => {} }) {
        const grammarEvaluationState = grammar && new LlamaGrammarEvaluationState({ model, grammar });
        const tokens = [];
        let told = "";
        let first, whole = false;
        const before = sequence.nextTokenIndex + this.pending.length;
        for await (const token of sequence.evaluate(this.pending, { ...this.options, grammarEvaluationState })) {
            first ??= performance.now();
            tokens.push(token);
            const text = model.detokenize(tokens);
            // Half of a character is not told yet.
            if (!text.endsWith("\ufffd") && text.length > told.length) {
                onText(text.slice(told.length));
                told = text;
            }
            whole = isWhole(text);
            if (whole || this.signal.aborted || tokens.length >= maxTokens) break;
        }
        this.completionTokens += tokens.length;
        if (tokens.length > 1) this.rate = Math.round(((tokens.length - 1) / (performance.now() - first)) * 10_000) / 10;
        // A generation that is broken off has drawn its last token, but not read it yet.
        const unread = before + tokens.length - sequence.nextTokenIndex;
        this.pending = unread > 0 ? tokens.slice(-unread) : [];
        return { text: model.detokenize(tokens), cut: !whole && tokens.length >= maxTokens };
    }

    // Of both prompts where the model decided first and answered then.
    usage() {
        return { prompt_tokens: this.promptTokens, completion_tokens: this.completionTokens, total_tokens: this.promptTokens + this.completionTokens,
            prompt_tokens_details: { cached_tokens: this.cachedTokens } };
    }
}

// The grammar would allow white space behind it.
function isJson(text) {
    if (!text.endsWith("}")) return false;
    try {
        return Boolean(JSON.parse(text));
    } catch {
        return false;
    }
}

// The names that `tool_choice` leaves to the model; empty: it is not asked.
function choices(body, tools) {
    const choice = body.tool_choice ?? "auto";
    const names = tools.map((tool) => tool.function.name);
    if (names.includes(ANSWER)) throw new Refusal(`a tool can't be called ${ANSWER} here`);
    if (tools.length === 0 || choice === "none") return [];
    if (choice === "auto") return [...names, ANSWER];
    if (choice === "required") return names;
    const named = choice.function?.name;
    if (!names.includes(named)) throw new Refusal(`tool_choice names ${JSON.stringify(named)}, which is not among the tools`);
    return [named];
}

let calls = 0;
// Answers one request; `on` is told pieces: {text}, {call: {id, name}}, {arguments}.
async function complete(body, signal, on) {
    const tools = body.tools ?? [];
    const names = choices(body, tools);
    const generation = new Generation(body, signal);
    if (names.length > 0) {
        await generation.read(decisionPrompt(body.messages, tools));
        generation.force(DECISION);
        const chosen = (await generation.write({ grammar: await namesGrammar(names), maxTokens: 64 })).text.slice(0, -1);
        if (signal.aborted) return { finish: "stop", generation };
        if (chosen !== ANSWER) {
            const tool = tools.find((tool) => tool.function.name === chosen);
            on({ call: { id: `call_${Date.now().toString(36)}_${++calls}`, name: chosen } });
            generation.force(', "arguments": ');
            const grammar = await argumentsGrammar(tool.function.parameters ?? {});
            const { cut } = await generation.write({ grammar, maxTokens: MAX_ARGUMENT_TOKENS, isWhole: isJson, onText: (text) => on({ arguments: text }) });
            return { finish: cut ? "length" : "tool_calls", generation };
        }
    }
    await generation.read(answerPrompt(body.messages));
    const maxTokens = Math.min(body.max_completion_tokens ?? body.max_tokens ?? MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS);
    const { cut } = await generation.write({ maxTokens, onText: (text) => on({ text }) });
    return { finish: cut ? "length" : "stop", generation };
}

let number = 0;
async function chat(request, response) {
    const body = await readJson(request);
    check(body);
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const base = { id: `chatcmpl-${++number}`, created: Math.floor(Date.now() / 1000), model: MODEL_NAME };
    await inTurn(async () => {
        if (gone.signal.aborted) return;
        const message = { role: "assistant", content: null };
        const send = (fields) => response.write(`data: ${JSON.stringify({ ...base, object: "chat.completion.chunk", ...fields })}\n\n`);
        const delta = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
        const begin = () => {
            if (!body.stream || response.headersSent) return;
            response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
            delta({ role: "assistant", content: "" });
        };
        const on = (piece) => {
            begin();
            if (piece.text !== undefined) {
                message.content = (message.content ?? "") + piece.text;
                if (body.stream) delta({ content: piece.text });
            } else if (piece.call) {
                const { id, name } = piece.call;
                message.tool_calls = [{ id, type: "function", function: { name, arguments: "" } }];
                if (body.stream) delta({ tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: "" } }] });
            } else {
                message.tool_calls[0].function.arguments += piece.arguments;
                if (body.stream) delta({ tool_calls: [{ index: 0, function: { arguments: piece.arguments } }] });
            }
        };
        const alive = setInterval(() => {
            begin();
            if (body.stream) response.write(": reading\n\n");
        }, KEEP_ALIVE_MS);
        const began = Date.now();
        try {
            const { finish, generation } = await complete(body, gone.signal, on);
            begin();
            const usage = generation.usage();
            if (body.stream) {
                delta({}, finish);
                if (body.stream_options?.include_usage) send({ choices: [], usage });
                response.end("data: [DONE]\n\n");
            } else {
                response.setHeader("content-type", "application/json");
                response.end(JSON.stringify({ ...base, object: "chat.completion", usage, choices: [{ index: 0, message, finish_reason: finish }] }));
            }
            console.error(JSON.stringify({ finish: gone.signal.aborted ? "client gone" : finish, ...usage, ms: Date.now() - began, tokensPerSecond: generation.rate, message }));
        } finally {
            clearInterval(alive);
        }
    });
}

const server = http.createServer((request, response) => {
    const answer = (status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (request.method === "GET" && request.url === "/v1/models") {
        answer(200, { object: "list", data: [{ id: MODEL_NAME, object: "model", owned_by: "local" }] });
    } else if (request.method === "POST" && request.url === "/v1/chat/completions") {
        chat(request, response).catch((error) => {
            const refused = error instanceof Refusal;
            if (!refused) console.error(error);
            // Once the stream has begun, only its end can tell that it failed.
            if (response.headersSent) response.destroy();
            else answer(refused ? 400 : 500, { error: { message: error.message, type: refused ? "invalid_request_error" : "server_error", code: error.code ?? null } });
        });
    } else {
        answer(404, { error: { message: "not found", type: "invalid_request_error" } });
    }
});
server.listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
