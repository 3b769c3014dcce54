// A stand-in for three providers, for the test of the probe alone: OpenAI's Chat Completions, Anthropic's Messages and Gemini's
// streamGenerateContent, streamed, by rule. It is not strict: what providers refuse is the business of the tests' scripted model.

import http from "node:http";

const QUERY = { query: "curl", type_name: "Package", limit: 1 };

// What to say next, whatever the protocol: a call of the search, or a text.
function next({ tools, result, last }) {
    const version = result?.match(/"version\\*":\s*\\*"([^"\\]+)/)?.[1];
    if (result !== undefined) return { text: `The version is ${version}.` };
    if (tools.includes("final_answer")) return { call: "final_answer", input: { colour: "blue", reason: "of the scattering" } };
    if (last.includes("version") && tools.includes("search_entities")) return { call: "search_entities", input: QUERY };
    if (last.includes("sky")) return { text: JSON.stringify({ colour: "blue", reason: "of the scattering" }) };
    return { text: last.includes("picture") ? "Red." : "It holds 74 screws." };
}

// Prompts that were sent before are told as cached.
class Cache {
    seen = new Set();
    tokens(prompt) {
        const cached = this.seen.has(prompt) ? Math.floor(prompt.length / 4) : 0;
        this.seen.add(prompt);
        return { input: Math.floor(prompt.length / 4) + 10, cached };
    }
}

const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));

const PROTOCOLS = {
    openai(body, cache) {
        const { input, cached } = cache.tokens(textOf(body.messages[0].content));
        const say = next({
            tools: (body.tools ?? []).map((tool) => tool.function.name),
            result: body.messages.findLast(({ role }) => role === "tool")?.content,
            last: textOf(body.messages.findLast(({ role }) => role === "user").content),
        });
        const delta = say.call
            ? { tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: say.call, arguments: JSON.stringify(say.input) } }] }
            : { content: say.text };
        const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: body.model };
        return [
            { ...base, choices: [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason: null }] },
            { ...base, choices: [{ index: 0, delta: {}, finish_reason: say.call ? "tool_calls" : "stop" }] },
            { ...base, choices: [], usage: { prompt_tokens: input, completion_tokens: 10, total_tokens: input + 10, prompt_tokens_details: { cached_tokens: cached } } },
        ].map((event) => `data: ${JSON.stringify(event)}\n\n`).concat("data: [DONE]\n\n");
    },
    anthropic(body, cache) {
        const { input, cached } = cache.tokens(textOf(body.system));
        const parts = body.messages.flatMap(({ content }) => (typeof content === "string" ? [{ type: "text", text: content }] : content));
        const result = parts.findLast(({ type }) => type === "tool_result");
        const say = next({
            tools: (body.tools ?? []).map(({ name }) => name),
            result: result && textOf(result.content),
            last: parts.findLast(({ type }) => type === "text").text,
        });
        const block = say.call ? { type: "tool_use", id: "toolu_1", name: say.call, input: {} } : { type: "text", text: "" };
        const delta = say.call ? { type: "input_json_delta", partial_json: JSON.stringify(say.input) } : { type: "text_delta", text: say.text };
        const usage = { input_tokens: input - cached, cache_read_input_tokens: cached, cache_creation_input_tokens: 0, output_tokens: 1 };
        return [
            { type: "message_start", message: { id: "msg_1", type: "message", role: "assistant", model: body.model, content: [], stop_reason: null, stop_sequence: null, usage } },
            { type: "content_block_start", index: 0, content_block: block },
            { type: "content_block_delta", index: 0, delta },
            { type: "content_block_stop", index: 0 },
            { type: "message_delta", delta: { stop_reason: say.call ? "tool_use" : "end_turn", stop_sequence: null }, usage: { output_tokens: 10 } },
            { type: "message_stop" },
        ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    },
    gemini(body, cache) {
        const { input, cached } = cache.tokens(textOf(body.systemInstruction?.parts));
        const parts = body.contents.flatMap(({ parts }) => parts);
        const result = parts.findLast((part) => part.functionResponse);
        const say = next({
            tools: (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => name),
            result: result && JSON.stringify(result.functionResponse.response),
            last: parts.findLast((part) => part.text !== undefined).text,
        });
        const part = say.call ? { functionCall: { name: say.call, args: say.input }, thoughtSignature: "c2lnbmVk" } : { text: say.text };
        const usageMetadata = { promptTokenCount: input, candidatesTokenCount: 10, totalTokenCount: input + 10, cachedContentTokenCount: cached };
        return [`data: ${JSON.stringify({ candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }], usageMetadata })}\n\n`];
    },
};

const protocolOf = (url) => (url.includes("chat/completions") ? "openai" : url.includes("/messages") ? "anthropic" : url.includes("streamGenerateContent") ? "gemini" : null);

// `refused`: protocols that answer 400 to everything.
export function standIn({ refused = [] } = {}) {
    const cache = new Cache();
    const server = http.createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const protocol = protocolOf(request.url);
        if (protocol === null || refused.includes(protocol)) {
            response.writeHead(protocol === null ? 404 : 400, { "content-type": "application/json" });
            response.end(JSON.stringify({ error: { message: `the stand-in refuses ${request.url.split("?")[0]}`, type: "invalid_request_error" } }));
            return;
        }
        const events = PROTOCOLS[protocol](JSON.parse(Buffer.concat(chunks).toString("utf8")), cache);
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(events.join(""));
    });
    return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() })));
}
