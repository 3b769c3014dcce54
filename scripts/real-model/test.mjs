// A real model calls a real tool, through the product's API and worker. Run by scripts/test-model.sh; docs/operations/real-model.md says what
// it proves. The questions, the agent and the graph are the test's; every choice and every word of an answer is the model's.
//
//   node test.mjs REJOIN SERVER.mjs MODEL.gguf      in the folder that has node-llama-cpp

import assert from "node:assert/strict";
import { Client, rejoinDev, shown, start } from "../rejoin-dev.mjs";

const [bin, serverFile, modelFile] = process.argv.slice(2);
const MODEL = "openai:qwen2.5-coder-0.5b";
const AGENT = {
    name: "real-model",
    description: "Answers questions about Debian's packages, with a model of half a billion parameters.",
    systemPrompt: "You answer questions about a knowledge graph of Debian packages. Search for the name of the package that is asked about, " +
        "with the type_name Package and the limit 1. Answer in full sentences.",
    model: { name: MODEL, temperature: 0 },
    tools: ["search_entities"],
    flowType: "single",
    maxSteps: 6,
};
const QUESTION = "What is the summary of the package curl, and which version is it?";
const SMALL_TALK = "Thank you, that was all.";
// The worker is killed when so many pieces of the answer have arrived.
const KILL_AFTER_TOKENS = 3;
const WHOLE_TEST_LIMIT_MS = 400_000;

const say = (label, text) => console.log(`${`${label}:`.padEnd(20)} ${text}`);

const server = start(process.execPath, [serverFile, modelFile, "0"], { env: process.env });
let dev;
const limit = setTimeout(() => {
    console.error(`error: not done after ${WHOLE_TEST_LIMIT_MS} ms\n${server.log}\n${dev?.log() ?? ""}`);
    Promise.allSettled([server.stop(), dev?.stop()]).then(() => process.exit(1));
}, WHOLE_TEST_LIMIT_MS);
try {
    const modelUrl = await server.ready;
    const { OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, REJOIN_MODEL, REJOIN_CHAT_MODEL, REJOIN_URL, REJOIN_API_KEY, ...env } = process.env;
    dev = await rejoinDev(bin, { ...env, OPENAI_BASE_URL: modelUrl });
    const client = new Client(dev);
    const agent = await client.json("POST", `/api/admin/projects/${dev.projectId}/agent-definitions`, AGENT);

    await question(client, agent);
    const talk = await client.turn({ message: SMALL_TALK, agentDefinitionId: agent.id });
    const thanks = shown(talk.events, talk.runId);
    say("small talk", `${SMALL_TALK} -> ${thanks.text}`);
    // Told, not asserted: a model of this size takes some greetings for a search, and which ones may depend on the processor.
    const called = thanks.events.some(({ type }) => type === "mcp_tool");
    say("", called ? "it called the tool for that" : "it called no tool for that");
    assert.equal(thanks.events.at(-1).status, "completed");
    const rates = [...server.log.matchAll(/"tokensPerSecond":([\d.]+)/g)].map((match) => Number(match[1]));
    say("tokens per second", `${Math.max(...rates).toFixed(1)} at best, ${rates.join(", ")} by request (THREADS=${process.env.THREADS ?? 1})`);
    console.log("2 passed, 0 failed");
} catch (error) {
    console.error(error);
    console.error(`the model's server:\n${server.log}\nrejoin dev:\n${dev?.log() ?? ""}`);
    process.exitCode = 1;
} finally {
    clearTimeout(limit);
    await dev?.stop();
    await server.stop();
}

async function question(client, agent) {
    let tokens = 0, called = false, killed = false;
    const turn = await client.turn({ message: QUESTION, agentDefinitionId: agent.id }, (event) => {
        if (event.type === "mcp_tool" && event.status === "completed") called = true;
        if (event.type === "token" && called && !killed && ++tokens === KILL_AFTER_TOKENS) {
            process.kill(dev.pids.workers[0], "SIGKILL");
            killed = true;
        }
    });
    const { events, text } = shown(turn.events, turn.runId);
    const done = turn.events.filter(({ type }) => type === "done");
    const resets = turn.events.filter(({ type }) => type === "reset");
    say("question", QUESTION);

    assert.ok(killed, `the answer was over before its worker could be killed: ${text}`);
    // One, unless the machine is so busy that the second worker is taken for dead, too.
    assert.ok(resets.length >= 1, "the worker that took over did not begin the step anew");
    assert.equal(done.length, 1);
    assert.equal(done[0].status, "completed", JSON.stringify(turn.events.filter(({ type }) => type === "error")));

    // The call is on record, with arguments that the product admitted, and what the tool found.
    const runs = `/api/projects/${client.projectId}/agent-runs/${turn.runId}/tool-calls`;
    const { items } = await client.json("GET", runs);
    assert.ok(items.length >= 1, "the model called no tool");
    const call = await client.json("GET", `${runs}/${items[0].id}`);
    say("tool call", `search_entities ${JSON.stringify(call.input)}`);
    const completed = events.find(({ type, status }) => type === "mcp_tool" && status === "completed");
    assert.equal(completed.tool, "search_entities");
    assert.deepEqual(Object.keys(call.input).sort(), ["limit", "query", "type_name"]);
    assert.match(call.input.query, /curl/i);
    const found = call.output.entities.find(({ key }) => key === "curl");
    assert.ok(found, `the search did not find it: ${JSON.stringify(call.output)}`);

    // The answer: the words that were streamed are the words that are stored, and they hold what only the result can tell.
    const { items: messages } = await client.json("GET", `/api/conversations/${turn.conversationId}/messages`);
    const stored = messages.findLast(({ role }) => role === "assistant");
    say("answer", text);
    assert.equal(stored.content, text);
    const { version, summary } = found.properties;
    assert.ok(text.includes(version), `the answer does not tell the version, ${version}`);
    say("from the result", [version, ...(text.includes(summary) ? [summary] : [])].join("; "));
    const lost = turn.events.filter(({ type, seq }) => type === "token" && seq > resets[0].discardAfter && seq < resets[0].seq);
    say("worker killed", `after ${lost.length} pieces of the answer; \`reset\`, then one \`done\``);
}
