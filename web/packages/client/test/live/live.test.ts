/** Against a real server: PostgreSQL, API and worker of `rejoin dev`; with a proxy between that does what networks do. */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client, Follower, SendOptions, Turn, WireEvent } from '../../src/index.js';
import { createClient } from '../../src/index.js';
import { browser, inPage } from './page.js';
import { FaultyProxy } from './proxy.js';
import { Server, skip, skipped } from './server.js';

const QUESTION = 'Which packages need libssl3, and why?';
const MEETINGS = Number(process.env.REJOIN_TEST_MEETINGS ?? 20);
if (skipped) console.warn(skipped);

describe.skipIf(skipped)(skipped ? `live (${skipped})` : 'live', () => {
  let server: Server;
  let proxy: FaultyProxy;
  /** Straight to the server, to look at what is stored. */
  let direct: Client;
  /** Through the proxy. */
  let client: Client;
  let agentDefinitionId: string;

  beforeAll(async () => {
    // An answer of 300 words takes 5 s.
    server = await Server.start({ REJOIN_DEMO_WORD_MS: '15' });
    direct = createClient(server);
    const path = `/api/admin/projects/${server.projectId}/agent-definitions`;
    agentDefinitionId = (await direct.request<{ items: { id: string }[] }>('GET', path)).items[0]!.id;
  });
  afterAll(async () => {
    direct?.close();
    await server?.stop();
  });
  beforeEach(async () => {
    proxy = await FaultyProxy.to(server.url);
    client = createClient({ url: proxy.url, apiKey: server.apiKey, heartbeatMs: 1000 });
  });
  afterEach(async () => {
    client.close();
    await proxy.close();
  });

  const ask = (options: Partial<SendOptions> = {}) => client.send({ message: QUESTION, agentDefinitionId, ...options });

  /** The turn is over, and says what is stored: every word once. */
  async function complete(follower: Follower, conversationId: string, runId: string): Promise<Turn> {
    const turn = await follower.turn(runId);
    const { items } = await direct.conversations.messages(conversationId, { limit: 200 });
    const stored = items.find((message) => message.id === turn.message?.id)!;
    expect(turn.status).toBe('completed');
    expect(stored.content.length).toBeGreaterThan(200);
    expect(turn.text).toBe(stored.content);
    expect(turn.message!.content).toBe(stored.content);
    return turn;
  }

  /** Waits until so much of the run's text is there. */
  function grown(follower: Follower, runId: string, chars: number): Promise<void> {
    const { transcript } = follower;
    return new Promise((resolve) => {
      const look = (): void => {
        const turn = transcript.turn(runId);
        if (!turn || (turn.text.length < chars && !turn.message)) return;
        unsubscribe();
        resolve();
      };
      const unsubscribe = transcript.subscribe(look);
      look();
    });
  }

  const becomes = async (follower: Follower, status: Follower['status']) => {
    await expect.poll(() => follower.status, { timeout: 20_000, interval: 10 }).toBe(status);
  };

  test('a late reader has the words at once, and all else on demand', async () => {
    const { conversationId, runId } = await ask();
    const seen = await complete(client.follow(conversationId), conversationId, runId);
    const late = createClient(server);
    const follower = late.follow(conversationId);
    const before = await complete(follower, conversationId, runId);
    expect(before).toMatchObject({ partial: true, toolCalls: [] });
    await follower.complete(runId);
    const after = follower.transcript.turn(runId)!;
    const content = (turn: Turn) =>
      turn.parts.map((part) =>
        part.type === 'tool' ? [part.tool, part.input, part.output] : part.type === 'text' ? part.text : part.type,
      );
    expect(content(after)).toEqual(content(seen));
    expect(after.toolCalls.length).toBeGreaterThan(0);
    late.close();
  });

  test('a turn, from its message to its end', async () => {
    const events: [number | undefined, string][] = [];
    const { conversationId, runId, messageId } = await ask();
    const follower = client.follow(conversationId, { onEvent: (event, seq) => events.push([seq, event.type]) });
    const turn = await complete(follower, conversationId, runId);
    expect(turn).toMatchObject({
      runId,
      messageId,
      agent: 'graph-query-agent',
      model: 'demo:graph',
      attempt: 1,
      errors: [],
      notices: [],
    });
    expect(turn.toolCalls.map(({ tool, status }) => [tool, status])).toEqual([
      ['hybrid_search', 'completed'],
      ['get_entity_edges', 'completed'],
    ]);
    expect(turn.usage!.steps).toBe(3);
    const numbers = events.flatMap(([seq]) => seq ?? []);
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
    const { items, active } = follower.transcript.getSnapshot();
    expect(items.map((item) => item.type)).toEqual(['message', 'turn']);
    expect(active).toBeUndefined();
    expect(proxy.connections).toBeGreaterThan(0);
  });

  test('a run by itself ends with it', async () => {
    const { runId, conversationId } = await ask();
    const follower = client.follow({ runId });
    await complete(follower, conversationId, runId);
    await becomes(follower, 'ended');
    expect(follower.error).toBeUndefined();
    const again = client.follow({ runId });
    expect((await again.turn(runId)).text).toBe(follower.transcript.turn(runId)!.text);
  });

  test.each(
    Array.from({ length: MEETINGS }, (_, index) => [['cut', 'freeze', 'refuse', 'slow'][index % 4]!, index + 1]),
  )('the network does its worst in mid-answer, at a random moment (%s, number %i)', async (fault) => {
    const { conversationId, runId } = await ask();
    const follower = client.follow(conversationId);
    await grown(follower, runId, Math.random() * 1200);
    if (fault === 'cut') proxy.cut();
    if (fault === 'slow') proxy.slow = true;
    if (fault === 'freeze') {
      proxy.freeze();
      await becomes(follower, 'connecting');
      proxy.thaw();
    }
    if (fault === 'refuse') {
      proxy.refusing = true;
      proxy.cut();
      await becomes(follower, 'connecting');
      setTimeout(() => (proxy.refusing = false), Math.random() * 1500);
    }
    const turn = await complete(follower, conversationId, runId);
    expect(turn.toolCalls).toHaveLength(2);
    expect(follower.transcript.getSnapshot().messages).toHaveLength(2);
  });

  test('the connection is cut again and again', async () => {
    const { conversationId, runId } = await ask();
    const follower = client.follow(conversationId);
    const cutting = setInterval(() => proxy.cut(), 300);
    try {
      await complete(follower, conversationId, runId);
    } finally {
      clearInterval(cutting);
    }
    expect(proxy.connections).toBeGreaterThan(2);
  });

  test('a worker is killed in mid-answer', async () => {
    const { conversationId, runId } = await ask();
    const follower = client.follow(conversationId);
    const joinedLater = createClient(server);
    await grown(follower, runId, 300);
    // Its snapshot holds what will be taken back.
    const late = joinedLater.follow(conversationId);
    await grown(late, runId, 1);
    const workers = server.workers();
    expect(workers).toHaveLength(1);
    for (const pid of workers) process.kill(pid, 'SIGKILL');
    const turn = await complete(follower, conversationId, runId);
    expect(turn.attempt).toBe(2);
    expect(turn.notices).toMatchObject([{ kind: 'resumed', text: 'worker lost, resumed at step 3' }]);
    await complete(late, conversationId, runId);
    expect((await late.turn(runId)).notices).toMatchObject([{ kind: 'resumed' }]);
    joinedLater.close();
  });

  test('two followers see the same, over one stream', async () => {
    const { conversationId, runId } = await ask();
    const seen: [WireEvent, number | undefined][][] = [[], []];
    const followers = seen.map((events) =>
      client.follow(conversationId, { onEvent: (event, seq) => events.push([event, seq]) }),
    );
    const [one, two] = followers as [Follower, Follower];
    expect(one.transcript).toBe(two.transcript);
    const before = proxy.streams;
    const other = createClient({ url: server.url, apiKey: server.apiKey });
    const elsewhere = other.follow(conversationId);
    await Promise.all([
      complete(one, conversationId, runId),
      complete(two, conversationId, runId),
      complete(elsewhere, conversationId, runId),
    ]);
    expect(seen[0]).toEqual(seen[1]);
    expect(proxy.streams - before).toBe(1);
    expect(elsewhere.transcript.turn(runId)!.text).toBe(one.transcript.turn(runId)!.text);
    other.close();
    one.close();
    expect([one.status, two.status]).toEqual(['ended', 'live']);
  });

  test('a second message while the first is at work waits its turn, is refused, or ends it', async () => {
    const first = await ask();
    const { conversationId } = first;
    const follower = client.follow(conversationId);
    await grown(follower, first.runId, 50);
    const second = await client.send({ conversationId, message: 'What is adduser?' });
    await expect(client.send({ conversationId, message: 'no', onBusy: 'reject' })).rejects.toMatchObject({
      name: 'RejoinError',
      status: 409,
    });
    await expect.poll(() => follower.transcript.turn(second.runId)?.status).toBe('queued');
    await complete(follower, conversationId, first.runId);
    expect((await follower.turn(second.runId)).status).toBe('completed');
    const third = await client.send({ conversationId, message: QUESTION });
    await grown(follower, third.runId, 50);
    const fourth = await client.send({ conversationId, message: 'What is adduser?', onBusy: 'interrupt' });
    expect((await follower.turn(third.runId)).status).toBe('cancelled');
    await follower.turn(fourth.runId);
    const shown = follower.transcript
      .getSnapshot()
      .items.map((item) => (item.type === 'turn' ? item.turn.runId : item.message.id));
    expect(shown).toEqual([first, second, third, fourth].flatMap(({ messageId, runId }) => [messageId, runId]));
  });

  test('a reader that joins while messages wait sees each answer behind its message', async () => {
    const first = await ask();
    const second = await client.send({ conversationId: first.conversationId, message: 'What is adduser?' });
    const follower = client.follow(first.conversationId);
    await follower.turn(second.runId);
    const shown = () =>
      follower.transcript.getSnapshot().items.map((item) => (item.type === 'turn' ? item.turn.runId : item.message.id));
    await expect.poll(shown).toEqual([first, second].flatMap(({ messageId, runId }) => [messageId, runId]));
  });

  test('a run is steered, and is cancelled', async () => {
    const { conversationId, runId } = await ask();
    const follower = client.follow(conversationId);
    await grown(follower, runId, 50);
    await client.tell(runId, 'Hurry.');
    await expect.poll(() => follower.transcript.turn(runId)!.parts.some((part) => part.type === 'message')).toBe(true);
    await client.cancel(runId);
    const turn = await follower.turn(runId);
    expect(turn.status).toBe('cancelled');
    expect(turn.text).toBe(turn.message!.content);
    await expect(client.tell(runId, 'Too late.')).rejects.toMatchObject({ status: 409, code: 'run_ended' });
  });

  test('a message whose answer is lost is stored once', async () => {
    const message = `What is adduser? ${Math.random()}`;
    proxy.swallowNext = true;
    const accepted = await client.send({ message });
    expect(proxy.connections).toBeGreaterThan(1);
    const { items } = await direct.conversations.messages(accepted.conversationId);
    expect(items.filter((item) => item.role === 'user').map((item) => [item.id, item.content])).toEqual([
      [accepted.messageId, message],
    ]);
    const conversations = await direct.conversations.list({ limit: 200 });
    expect(
      conversations.items.filter(
        (conversation) => conversation.title === message || conversation.id === accepted.conversationId,
      ),
    ).toHaveLength(1);
    await client.cancel(accepted.runId);
  });

  test('a message is sent until somebody is there', async () => {
    proxy.refusing = true;
    const sent = client.send({ message: 'What is adduser?' });
    setTimeout(() => (proxy.refusing = false), 1000);
    const { runId } = await sent;
    await client.cancel(runId);
    proxy.refusing = true;
    proxy.cut();
    await expect(client.send({ message: 'x', retryLimitMs: 300 })).rejects.toMatchObject({
      status: 0,
      code: 'unreachable',
    });
    await expect(client.send({ message: 'x', signal: AbortSignal.timeout(100) })).rejects.toThrow(/abort|timeout/i);
  });

  test('conversations are made, renamed, listed and deleted; a reader of a deleted one is informed', async () => {
    const { id } = await client.conversations.create({ title: 'one' });
    expect((await client.conversations.rename(id, 'two')).title).toBe('two');
    expect((await client.conversations.get(id)).title).toBe('two');
    expect((await client.conversations.list({ limit: 1 })).items.map((conversation) => conversation.id)).toEqual([id]);
    const follower = client.follow(id);
    await becomes(follower, 'live');
    const never = follower.turn('0192f0c1-0000-7000-8000-000000000000');
    never.catch(() => {});
    await client.conversations.delete(id);
    await becomes(follower, 'ended');
    expect(follower.error).toMatchObject({ status: 404, code: 'conversation_not_found' });
    await expect(never).rejects.toMatchObject({ status: 404 });
    await expect(client.conversations.get(id)).rejects.toMatchObject({ status: 404 });
  });

  test('a run is forked after a step, and one that is not paused is not resumed', async () => {
    const { conversationId, runId } = await ask();
    await complete(client.follow(conversationId), conversationId, runId);
    const fork = await client.fork(runId, { step: 1, message: 'What is adduser?' });
    const follower = client.follow({ runId: fork.runId });
    expect((await follower.turn(fork.runId)).status).toBe('completed');
    await expect(client.resume(runId)).rejects.toMatchObject({ status: 409, code: 'run_not_paused' });
    await expect(client.answer(runId, 'yes')).rejects.toMatchObject({ status: 404, code: 'question_not_found' });
    expect((await client.runs.get(runId)).state).toBe('completed');
    expect((await client.questions.list({ status: 'pending' })).items).toEqual([]);
    expect((await client.agents.list()).items.map(({ name }) => name)).toContain('graph-query-agent');
  });

  const define = async (definition: object): Promise<string> => {
    const base = {
      name: `agent ${Math.random()}`,
      description: 'for a test',
      systemPrompt: 'Look it up.',
      model: { name: 'demo:graph' },
      tools: ['*'],
      flowType: 'single',
    };
    const path = `/api/admin/projects/${server.projectId}/agent-definitions`;
    return (await direct.request<{ id: string }>('POST', path, { ...base, ...definition })).id;
  };

  test('a run that a limit has paused is resumed, in a new turn', async () => {
    const { conversationId, runId } = await ask({ agentDefinitionId: await define({ maxSteps: 1 }) });
    const follower = client.follow(conversationId);
    const paused = await follower.turn(runId);
    expect(paused).toMatchObject({ status: 'paused', limits: [{ limit: 'step_limit' }] });
    await client.resume(runId, 'Go on.');
    const next = await follower.turn(runId, paused);
    expect(next.id).toBe(`${runId}#2`);
    expect(next.message!.content).toBe(next.text);
    const { items, messages } = follower.transcript.getSnapshot();
    expect(items.map((item) => item.type)).toEqual(['message', 'turn', 'message', 'turn']);
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    // A later reader sees the same.
    const other = createClient(server);
    const later = other.follow(conversationId);
    await expect
      .poll(() => later.transcript.getSnapshot().turns.map((turn) => turn.text))
      .toEqual([paused.text, next.text]);
    other.close();
  });

  test('a question is asked and answered; a worker that is killed meanwhile costs nothing', async () => {
    const { conversationId, runId } = await ask({
      agentDefinitionId: await define({ config: { confirm: ['hybrid_search'] } }),
    });
    const follower = client.follow(conversationId);
    const open = () => follower.transcript.getSnapshot().questions;
    await expect.poll(() => open().length, { timeout: 20_000 }).toBe(1);
    await expect.poll(() => follower.transcript.turn(runId)!.status).toBe('waiting');
    const other = createClient(server);
    const late = other.follow(conversationId);
    await expect
      .poll(() => late.transcript.getSnapshot().questions.map(({ questionId }) => questionId))
      .toEqual([open()[0]!.questionId]);
    expect(late.transcript.turn(runId)!.status).toBe('waiting');
    expect((await client.questions.list({ status: 'pending' })).items.map(({ id }) => id)).toEqual([
      open()[0]!.questionId,
    ]);
    for (const pid of server.workers()) process.kill(pid, 'SIGKILL');
    await client.answer(open()[0]!.questionId, 'approve');
    const turn = await complete(follower, conversationId, runId);
    expect(turn.questions).toMatchObject([{ status: 'answered', answer: { decision: 'approve' } }]);
    expect(turn.toolCalls.map(({ status }) => status)).toEqual(['completed', 'completed']);
    await complete(late, conversationId, runId);
    expect(open()).toEqual([]);
    other.close();
  });

  test('sub-agents are turns within the turn, also for late readers', async () => {
    const name = `helper ${Math.random()}`;
    await define({ name });
    const flow = await define({ flowType: 'sequential', config: { flow: { agents: [name] } } });
    const { conversationId, runId } = await ask({ agentDefinitionId: flow });
    const follower = client.follow(conversationId);
    await expect
      .poll(() => follower.transcript.turn(runId)?.agents[0]?.text.length ?? 0, { timeout: 20_000 })
      .toBeGreaterThan(50);
    expect(follower.transcript.turn(runId)!.status).toBe('waiting');
    const other = createClient(server);
    const late = other.follow(conversationId);
    await expect.poll(() => late.transcript.turn(runId)?.agents[0]?.text.length ?? 0).toBeGreaterThan(50);
    proxy.cut();
    const [one, two] = [await complete(follower, conversationId, runId), await complete(late, conversationId, runId)];
    const [agent] = one.agents;
    expect(agent).toMatchObject({ agent: name, parentRunId: runId, source: 'sub_agent', status: 'completed' });
    expect(agent!.text).toContain('libssl3');
    expect(agent!.toolCalls.map(({ tool, status }) => [tool, status])).toEqual([
      ['hybrid_search', 'completed'],
      ['get_entity_edges', 'completed'],
    ]);
    expect(two.agents[0]).toMatchObject({
      runId: agent!.runId,
      text: agent!.text,
      status: 'completed',
      summary: agent!.summary,
    });
    const alone = other.follow({ runId: agent!.runId });
    expect((await alone.turn(agent!.runId)).text).toBe(agent!.text);
    await becomes(alone, 'ended');
    other.close();
  });

  test('a wrong key ends it with an error', async () => {
    const stranger = createClient({ url: proxy.url, apiKey: 'rejoin_wrong' });
    const follower = stranger.follow('0192f0c1-0000-7000-8000-000000000000');
    await becomes(follower, 'ended');
    expect(follower.error).toMatchObject({ status: 401 });
    await expect(stranger.send({ message: 'x' })).rejects.toMatchObject({ status: 401 });
  });

  test('a cursor that is ahead of the log starts over', async () => {
    const { conversationId, runId } = await ask();
    const follower = client.follow(conversationId, { from: 100_000 });
    await complete(follower, conversationId, runId);
  });

  const noBrowser = browser ? '' : ` (${skip('there is no Chromium')})`;
  test.skipIf(!browser)(`in a browser, with the session’s cookie, through a cut${noBrowser}`, async () => {
    const result = await inPage(
      server.url,
      `import { createClient } from '/client.js';
      const post = (body) => fetch('/result', { method: 'POST', body: JSON.stringify(body) });
      try {
        await fetch('/api/session', { method: 'POST', headers: { authorization: ${JSON.stringify(`Bearer ${server.apiKey}`)} } });
        const client = createClient();
        const { conversationId, runId } = await client.send({ message: ${JSON.stringify(QUESTION)}, agentDefinitionId: ${JSON.stringify(agentDefinitionId)} });
        const statuses = [];
        const follower = client.follow(conversationId, { onStatus: (status) => statuses.push(status) });
        let [updates, cut] = [0, false];
        follower.transcript.subscribe(() => {
          updates++;
          if (!cut && (follower.transcript.turn(runId)?.text.length ?? 0) > 300) {
            cut = true;
            fetch('/cut');
          }
        });
        const turn = await follower.turn(runId);
        const { items } = await client.conversations.messages(conversationId);
        await post({ status: turn.status, same: turn.text === items[1].content, length: turn.text.length, statuses, updates, cursor: follower.transcript.getSnapshot().cursor });
      } catch (error) {
        await post({ error: String(error) });
      }`,
    );
    expect(result).toMatchObject({ status: 'completed', same: true, statuses: ['live', 'connecting', 'live'] });
    const { updates, cursor, length } = result as { updates: number; cursor: number; length: number };
    expect(length).toBeGreaterThan(1000);
    expect(updates).toBeLessThanOrEqual(cursor);
  });

  test('the README’s chat works as it stands there', async () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    const code = /```js\n([\s\S]*?)```/.exec(readme)![1]!;
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(20);
    const { spawn } = await import('node:child_process');
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      cwd: new URL('../..', import.meta.url),
      env: { ...process.env, REJOIN_URL: server.url, REJOIN_API_KEY: server.apiKey },
    });
    let out = '';
    child.stdout.on('data', (bytes: Buffer) => (out += bytes.toString()));
    child.stderr.on('data', (bytes: Buffer) => (out += bytes.toString()));
    const code0 = await new Promise((resolve) => child.on('exit', resolve));
    expect(code0, out).toBe(0);
    const last = (await direct.conversations.list({ limit: 1 })).items[0]!;
    const stored = (await direct.conversations.messages(last.id)).items.find(
      (message) => message.role === 'assistant',
    )!;
    expect(out).toContain(stored.content);
  });
});
