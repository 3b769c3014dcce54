// Tests the probe against a stand-in on this machine: a table where all answer, a failure where one refuses, advice where no key is set.
//
//   node test.mjs REJOIN

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { PROVIDERS } from "./probe.mjs";
import { standIn } from "./stand-in.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const plain = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/_API_KEY$|_BASE_URL$|^AWS_|^MODELS$|^REJOIN_(MODEL|CHAT_MODEL)$/.test(name)));

function run(program, args, env) {
    return new Promise((resolve) => {
        const child = spawn(program, args, { env: { ...plain, ...env }, stdio: ["ignore", "pipe", "pipe"] });
        let out = "", told = "";
        child.stdout.on("data", (data) => (out += data));
        child.stderr.on("data", (data) => (told += data));
        child.on("close", (code) => resolve({ code, out, told }));
    });
}

async function against(options) {
    const stand = await standIn(options);
    try {
        return await run(process.execPath, [here("probe.mjs"), process.argv[2]], {
            OPENAI_API_KEY: "x", OPENAI_BASE_URL: `${stand.url}/v1`,
            ANTHROPIC_API_KEY: "x", ANTHROPIC_BASE_URL: stand.url,
            GEMINI_API_KEY: "x", GEMINI_BASE_URL: `${stand.url}/v1beta`,
        });
    } finally {
        stand.close();
    }
}

const catalogue = JSON.parse(readFileSync(here("../../data/models.json"), "utf8"));
const models = new Map((Array.isArray(catalogue) ? catalogue : catalogue.models).map((model) => [model.name, model]));
const today = new Date().toISOString().slice(0, 10);
for (const { model } of PROVIDERS) {
    const known = models.get(model);
    assert.ok(known?.price && (known.can?.includes("tools") ?? true), `${model} is not in the catalogue with a price and tools`);
    assert.ok(!known.retiresOn || known.retiresOn > today, `${model} is retired`);
}

const none = await run(here("keys.sh"), [], {});
assert.equal(none.code, 2);
for (const { key } of PROVIDERS) assert.ok(none.told.includes(key), `${key} is not named`);

const all = await against({});
process.stdout.write(all.out);
assert.equal(all.code, 0, all.out + all.told);
for (const word of ["openai", "anthropic", "gemini"]) assert.match(all.out, new RegExp(`\\| ${word}:\\S+ +\\| ok `));

const refusing = await against({ refused: ["anthropic"] });
process.stdout.write(`\n${refusing.out}`);
assert.equal(refusing.code, 1, refusing.told);
assert.match(refusing.out, /\| anthropic:\S+ +\| REFUSED /);
assert.match(refusing.out, /anthropic:\S+, tool: .*the stand-in refuses/);
assert.match(refusing.out, /\| gemini:\S+ +\| ok /);
console.log("4 passed, 0 failed");
