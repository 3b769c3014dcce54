// `rejoin dev` of its own, and a reader of its streams: shared by the test with a real model and by the probe of providers.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const READY_LIMIT_MS = 90_000;
// How often a stream that ends without `done` is taken up again.
const MAX_RECONNECTS = 20;
// What a server's log may hold before its beginning is forgotten.
const MAX_LOG_CHARACTERS = 200_000;

// A child process, its log, and a promise of the first line of its output.
export function start(program, args, options = {}) {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    const started = { child, log: "", line: undefined };
    child.stderr.on("data", (data) => (started.log = (started.log + data).slice(-MAX_LOG_CHARACTERS)));
    started.ready = new Promise((resolve, reject) => {
        let out = "";
        const timer = setTimeout(() => reject(new Error(`${program} said nothing in ${READY_LIMIT_MS} ms:\n${started.log}`)), READY_LIMIT_MS);
        child.stdout.on("data", (data) => {
            out += data;
            if (out.includes("\n")) {
                clearTimeout(timer);
                resolve(out.split("\n")[0]);
            }
        });
        child.on("error", reject);
        child.on("exit", (code) => reject(new Error(`${program} ended with ${code}:\n${started.log}`)));
    });
    started.ready.catch(() => {});
    started.stop = () => new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve();
        child.on("exit", resolve);
        child.kill("SIGTERM");
    });
    return started;
}

// An API, one worker and PostgreSQL, with the demo project. `env` stands in the place of this process's environment.
export async function rejoinDev(bin, env) {
    const dir = mkdtempSync(path.join(tmpdir(), "rejoin-model-"));
    const dev = start(bin, ["dev", "--json", "--port", "0", "--workers", "1", "--data-dir", path.join(dir, "data")], { env });
    const stop = async () => {
        await dev.stop();
        rmSync(dir, { recursive: true, force: true });
    };
    try {
        return { ...JSON.parse(await dev.ready), stop, log: () => dev.log };
    } catch (error) {
        await stop();
        throw error;
    }
}

export class Client {
    constructor({ url, apiKey, projectId }) {
        Object.assign(this, { url, apiKey, projectId });
    }

    // `bytes`: a body as it is, in the place of `body` as JSON.
    request(method, where, body, headers = {}, bytes = undefined) {
        return fetch(this.url + where, {
            method,
            headers: { authorization: `Bearer ${this.apiKey}`, "x-project-id": this.projectId, ...(body && { "content-type": "application/json" }), ...headers },
            body: bytes ?? (body && JSON.stringify(body)),
        });
    }

    async json(method, where, body) {
        const response = await this.request(method, where, body);
        const text = await response.text();
        if (!response.ok) throw new Error(`${method} ${where} answered ${response.status}: ${text}`);
        return text === "" ? null : JSON.parse(text);
    }

    // One turn, to its `done`, over as many connections as it takes. `onEvent(event)` sees each event once, in order.
    async turn(request, onEvent = () => {}) {
        const events = [];
        let runId, conversationId, seq = 0;
        let response = await this.request("POST", "/api/chat/stream", request, { accept: "text/event-stream" });
        for (let connections = 1; ; connections++) {
            if (!response.ok) throw new Error(`the stream answered ${response.status}: ${await response.text()}`);
            runId ??= response.headers.get("x-run-id");
            conversationId ??= response.headers.get("x-conversation-id");
            for await (const { id, event } of frames(response.body)) {
                if (id === undefined) continue;
                if (id <= seq) throw new Error(`event ${id} came after event ${seq}`);
                seq = id;
                const stored = { seq: id, at: performance.now(), ...event };
                events.push(stored);
                onEvent(stored);
                if (event.type === "done") return { runId, conversationId, events, connections };
            }
            if (connections > MAX_RECONNECTS) throw new Error(`no \`done\` after ${connections} connections`);
            response = await this.request("GET", `/api/runs/${runId}/events`, undefined, { "last-event-id": String(seq) });
        }
    }
}

async function* frames(body) {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of body) {
        text += decoder.decode(bytes, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
            const fields = text.slice(0, end).split("\n");
            const id = fields.find((line) => line.startsWith("id: "));
            const data = fields.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
            if (data !== "") yield { id: id === undefined ? undefined : Number(id.slice(4)), event: JSON.parse(data) };
        }
    }
}

// What a client that applies `reset` shows at the end of a turn.
export function shown(events, runId) {
    let kept = [];
    for (const event of events) {
        if (event.type === "reset") kept = kept.filter(({ seq }) => seq <= event.discardAfter);
        else kept.push(event);
    }
    const text = kept.filter((event) => event.type === "token" && event.runId === runId).map((event) => event.token).join("");
    return { events: kept, text };
}
