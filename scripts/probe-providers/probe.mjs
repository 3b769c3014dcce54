// The probe of providers: one question with one tool, one image, one answer as data and one cached repeat for each provider whose key is
// set, through the product's API and worker. Run by scripts/probe-providers.sh; docs/guide/models.md says when.
//
//   node probe.mjs REJOIN
//
// Exit codes: 0 nobody refused or failed, 1 somebody did, 2 no key is set. What this build of the product can't do yet is left out, and said.

import { deflateSync } from "node:zlib";
import { Client, rejoinDev, shown } from "../rejoin-dev.mjs";

// A small current model of each, which can do all that is asked for; a test holds them against the catalogue.
export const PROVIDERS = [
    { word: "openai", key: "OPENAI_API_KEY", model: "openai:gpt-6-luna" },
    { word: "anthropic", key: "ANTHROPIC_API_KEY", model: "anthropic:claude-haiku-4-5" },
    { word: "gemini", key: "GEMINI_API_KEY", model: "gemini:gemini-3.5-flash-lite" },
    { word: "vertex", key: "VERTEX_API_KEY", model: "vertex:gemini-3.5-flash-lite" },
    { word: "azure", key: "AZURE_OPENAI_API_KEY", model: "azure:gpt-6.1-terra" },
    { word: "openrouter", key: "OPENROUTER_API_KEY", model: "openrouter:openai/gpt-6-luna" },
    { word: "bedrock", key: "AWS_BEARER_TOKEN_BEDROCK", model: "bedrock:anthropic.claude-haiku-5-5" },
];
const PACKAGE = "curl";
// Of one turn; a provider that takes longer has failed.
const TURN_TIMEOUT_S = 120;
// Longer than what any provider caches at least (4,096 tokens).
const LONG_PROMPT_LINES = 500;
const SCHEMA = {
    type: "object",
    properties: { colour: { type: "string", enum: ["red", "green", "blue"] }, reason: { type: "string" } },
    required: ["colour", "reason"],
    additionalProperties: false,
};

class Wrong extends Error {}
const expect = (condition, message) => {
    if (!condition) throw new Wrong(message);
};

// A picture of one colour.
export function png(size, [red, green, blue]) {
    const row = Buffer.concat([Buffer.from([0]), ...Array.from({ length: size }, () => Buffer.from([red, green, blue]))]);
    const chunk = (type, data) => {
        const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
        const framed = Buffer.alloc(body.length + 8);
        framed.writeUInt32BE(data.length, 0);
        body.copy(framed, 4);
        framed.writeUInt32BE(crc32(body), body.length + 4);
        return framed;
    };
    const header = Buffer.alloc(13);
    header.writeUInt32BE(size, 0);
    header.writeUInt32BE(size, 4);
    header.set([8, 2, 0, 0, 0], 8);
    return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", header),
        chunk("IDAT", deflateSync(Buffer.concat(Array.from({ length: size }, () => row)))), chunk("IEND", Buffer.alloc(0))]);
}

function crc32(bytes) {
    let crc = ~0;
    for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
    }
    return ~crc >>> 0;
}

// What this build offers, by its OpenAPI document.
function offered(openapi) {
    const chat = openapi.components.schemas.ChatRequest.properties;
    const asData = "outputSchema" in chat;
    return {
        image: "attachments" in chat && Boolean(openapi.paths["/api/files"]?.post),
        data: asData,
        // `usage` events have told cached tokens since answers could be data.
        cached: asData || JSON.stringify(openapi).includes("cachedTokens"),
    };
}

// One turn; an `error` event is what the provider, or the product, refused.
async function ask(client, agent, request) {
    const turn = await client.turn({ ...request, agentDefinitionId: agent.id });
    const { events, text } = shown(turn.events, turn.runId);
    const error = events.find(({ type }) => type === "error");
    const refused = error && new Error(`${error.code}: ${error.error}`);
    if (refused || events.at(-1).status !== "completed") throw refused ?? new Error(`the turn ended as ${events.at(-1).status}`);
    const usage = events.filter(({ type }) => type === "usage");
    return { ...turn, events, text, usage: usage.at(-1) ?? {} };
}

const CHECKS = {
    async tool(client, make) {
        const agent = await make({
            tools: ["search_entities"],
            systemPrompt: "You answer questions about a knowledge graph of Debian packages. Look everything up with your tool (entities of the type Package), and answer with what it finds.",
        });
        const { events, text, usage } = await ask(client, agent, { message: `Which version of the package ${PACKAGE} is in the graph?` });
        const call = events.find(({ type, status }) => type === "mcp_tool" && status === "completed");
        expect(call, `it called no tool: ${text}`);
        const version = JSON.stringify(call.result).match(new RegExp(`"version":\\s*"([^"]+)"`))?.[1] ?? (await foundVersion(client));
        expect(text.includes(version), `the answer does not tell the version, ${version}: ${text}`);
        return { usage };
    },
    async image(client, make) {
        const agent = await make({ systemPrompt: "You look at pictures." });
        const upload = await client.request("POST", "/api/files?name=picture.png", undefined, { "content-type": "image/png" }, png(64, [255, 0, 0]));
        if (!upload.ok) throw new Error(`POST /api/files answered ${upload.status}: ${await upload.text()}`);
        const attachments = [{ fileId: (await upload.json()).id }];
        const { text, usage } = await ask(client, agent, { message: "Which colour is this picture? One word.", attachments });
        expect(/red/i.test(text), `the picture is red: ${text}`);
        return { usage };
    },
    async data(client, make) {
        const agent = await make({ systemPrompt: "You answer shortly." });
        const { text, usage } = await ask(client, agent, { message: "Which colour has a clear sky at noon, and why?", outputSchema: SCHEMA });
        const answer = JSON.parse(text);
        expect(SCHEMA.properties.colour.enum.includes(answer.colour) && typeof answer.reason === "string", `it does not fit the schema: ${text}`);
        return { usage };
    },
    async cached(client, make) {
        const rules = Array.from({ length: LONG_PROMPT_LINES }, (_, line) => `Rule ${line + 1}: the drawer with the number ${line + 1} holds ${(line * 37) % 101} screws.`);
        const agent = await make({ tools: ["search_entities"], systemPrompt: `You answer shortly, without tools.\n${rules.join("\n")}` });
        const request = { message: "How many screws are in the drawer with the number 2?" };
        await ask(client, agent, request);
        const { usage } = await ask(client, agent, request);
        const cached = usage.cachedTokens ?? 0;
        return { usage, note: cached > 0 ? `${Math.round((100 * cached) / usage.inputTokens)} % cached` : "no hit" };
    },
};

// Where the event holds the result in short.
async function foundVersion(client) {
    const { items } = await client.json("GET", `/api/projects/${client.projectId}/graph/objects?type=Package&key=${PACKAGE}`);
    return items.find(({ key }) => key === PACKAGE).properties.version;
}

async function probe(bin) {
    const keys = PROVIDERS.filter(({ key }) => process.env[key]);
    if (keys.length === 0) {
        console.error(`no provider's key is set: ${PROVIDERS.map(({ key }) => key).join(", ")}`);
        return 2;
    }
    const named = (process.env.MODELS ?? "").split(/\s+/).filter(Boolean);
    const models = named.length > 0 ? named : keys.map(({ model }) => model);
    // What would answer in the place of the models that are asked.
    const { REJOIN_MODEL, REJOIN_CHAT_MODEL, REJOIN_URL, REJOIN_API_KEY, ...env } = process.env;
    const dev = await rejoinDev(bin, env);
    const rows = [];
    const failures = [];
    try {
        const client = new Client(dev);
        const offers = { tool: true, ...offered(await client.json("GET", "/openapi.json")) };
        const left = Object.keys(CHECKS).filter((name) => !offers[name]);
        if (left.length > 0) console.log(`left out, since this build does not offer it: ${left.join(", ")}\n`);
        for (const model of models) {
            const row = { model };
            const began = Date.now();
            let input = 0, output = 0, cost = 0;
            for (const [name, check] of Object.entries(CHECKS)) {
                if (!offers[name]) {
                    row[name] = "left out";
                    continue;
                }
                const make = (content) => client.json("POST", `/api/admin/projects/${dev.projectId}/agent-definitions`, {
                    name: `probe ${rows.length + 1} ${name}`, description: "Of the probe of providers.", model: { name: model }, tools: [],
                    flowType: "single", maxSteps: 6, defaultTimeout: TURN_TIMEOUT_S, ...content,
                });
                try {
                    const { usage, note } = await check(client, make);
                    row[name] = note ?? "ok";
                    input += usage.inputTokens ?? 0;
                    output += usage.outputTokens ?? 0;
                    cost += usage.costUsd ?? NaN;
                } catch (error) {
                    row[name] = error instanceof Wrong ? "WRONG" : "REFUSED";
                    failures.push(`${model}, ${name}: ${error.message}`);
                }
            }
            rows.push({ ...row, tokens: `${input} in, ${output} out`, cost: Number.isNaN(cost) ? "unknown" : `$${cost.toFixed(4)}`, seconds: ((Date.now() - began) / 1000).toFixed(1) });
        }
    } finally {
        await dev.stop();
    }
    table(rows);
    if (failures.length > 0) console.log(`\n${failures.join("\n")}`);
    return failures.length > 0 ? 1 : 0;
}

function table(rows) {
    const columns = Object.keys(rows[0]);
    const width = (column) => Math.max(column.length, ...rows.map((row) => String(row[column]).length));
    const line = (cell) => console.log(`| ${columns.map((column) => String(cell(column)).padEnd(width(column))).join(" | ")} |`);
    line((column) => column);
    line((column) => "-".repeat(width(column)));
    for (const row of rows) line((column) => row[column]);
}

if (import.meta.url === `file://${process.argv[1]}` || process.argv[1]?.endsWith("/probe.mjs")) process.exitCode = await probe(process.argv[2]);
