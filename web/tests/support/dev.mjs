// `rejoin dev` as a newcomer runs it, with a model of the test's.
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { copyPrepared, newFolder } from './prepared.mjs';

export const BINARY = process.env.REJOIN_TEST_BIN;

/** Starts it, and waits until it is ready. */
export async function startDev(modelUrl, { workers = 2, env = {} } = {}) {
  const folder = newFolder();
  const settings = {
    ...process.env,
    DATABASE_URL: '',
    OPENAI_BASE_URL: modelUrl,
    OPENAI_API_KEY: 'scripted',
    REJOIN_MODEL: 'openai:scripted',
    // A worker that is killed is missed soon.
    REJOIN_LEASE_MS: '3000',
    REJOIN_HEARTBEAT_MS: '1000',
    ...env,
  };
  let stderr = '';
  let child;
  const start = async (port, data = folder) => {
    child = spawn(BINARY, ['dev', '--port', String(port), '--workers', String(workers), '--data-dir', data, '--json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: settings,
    });
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).once('line', resolve);
      child.once('exit', (code) => reject(new Error(`rejoin dev ended with ${code}:\n${stderr}`)));
    });
    return JSON.parse(line);
  };
  const halt = async () => {
    if (child.exitCode !== null) return;
    const over = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGINT');
    await over;
  };
  await copyPrepared(BINARY, folder, async (fresh) => {
    await start(0, fresh);
    await halt();
  });
  stderr = '';
  const ready = await start(0);
  const api = async (path, { method = 'GET', body } = {}) => {
    const response = await fetch(ready.url + path, {
      method,
      headers: {
        authorization: `Bearer ${ready.apiKey}`,
        accept: 'application/json',
        ...(body && { 'content-type': 'application/json' }),
      },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, body: text && JSON.parse(text) };
  };
  return {
    ...ready,
    api,
    /** Makes an agent of the scripted model; its id. */
    agent: async (name, tools, config = {}) => {
      const body = {
        name,
        description: `Is ${name}.`,
        systemPrompt: 'You answer.',
        model: { name: 'openai:scripted' },
        tools,
        config,
      };
      const made = await api(`/api/admin/projects/${ready.projectId}/agent-definitions`, { method: 'POST', body });
      if (made.status !== 201) throw new Error(`the agent ${name} was not made: ${JSON.stringify(made.body)}`);
      return made.body.id;
    },
    /** All that it has written to its standard error. */
    stderr: () => stderr,
    /** Stops all of it for a while; what it has stored stays. */
    halt,
    /** Starts it again, at the same address. */
    resume: () => start(new URL(ready.url).port),
    stop: async () => {
      await halt();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Asks until it is so. */
export async function until(what, holds, limitMs = 60_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Checks until it holds: what a page shows follows what happened, a moment later. The last failure is thrown after `limitMs`. */
export async function eventually(check, limitMs = 15_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    try {
      return await check();
    } catch (failure) {
      if (failure.code !== 'ERR_ASSERTION' || Date.now() > end) throw failure;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
