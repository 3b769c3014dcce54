// The planning chat from its first question to its last answer, as somebody lives it in a browser, while workers and the API are killed:
// a product launch is begun after a question, planned in ten steps, edited, approved, carried out by three executors, one step planned again; a web
// page is read, the calendar filled, the focus moved, and sixty turns are summarised. Whatever died, each thing is there in the end, once.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { ask, launch, PROGRAM, signedIn } from './support/browser.mjs';
import { BINARY, eventually, startDev, until } from './support/dev.mjs';
import { startModel } from './support/model.mjs';
import { skipWithout } from './support/needs.mjs';

/** The first of them is the test command's; `REJOIN_TEST_STORIES=10` lives through ten. Kills and their moments follow from the seed. */
const SEEDS = Number(process.env.REJOIN_TEST_STORIES ?? 1);
/** Kills in one chapter of a story; after them it is left alone, or it would not end. */
const KILLS = 4;
const STEPS = 10;
/** The step that fails, and is planned again. */
const BROKEN = 7;
const TURNS = 60;
const CHAPTER_MS = 150_000;

const steps = (seventh) =>
  Array.from({ length: STEPS }, (_, nth) => {
    const stepNumber = nth + 1;
    const [description, tools] =
      stepNumber === BROKEN
        ? [seventh, ['create_onto_task']]
        : stepNumber === 4
          ? ['Book the evening', ['create_calendar_event']]
          : stepNumber === 5
            ? ['Read the news', ['web_visit', 'create_onto_document']]
            : [`Task ${stepNumber}`, ['create_onto_task']];
    return {
      stepNumber,
      type: 'action',
      description,
      executorRequired: true,
      tools,
      dependsOn: stepNumber === STEPS ? [1, 2, 3] : [],
    };
  });

const planned = (seventh, mode, revises) => ({
  tools: [
    {
      name: 'agent_create_plan',
      arguments: {
        objective: 'Launch',
        execution_mode: mode,
        plan: { steps: steps(seventh) },
        ...(revises && { revises }),
      },
    },
  ],
});

/** What each of these tools gave since the user's last word. */
function results(messages) {
  const since = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1);
  const calls = since.flatMap((message) => message.tool_calls ?? []);
  return (tool) => {
    const call = calls.findLast((one) => one.function.name === tool);
    const answer = call && since.find((message) => message.tool_call_id === call.id);
    if (!answer) return undefined;
    try {
      return JSON.parse(answer.content);
    } catch {
      return { raw: answer.content };
    }
  };
}

/** The model's answer, from the request alone: a request that is repeated after a kill gets the same answer. */
function reply(messages, newsUrl) {
  const system = String(messages[0].content);
  const asked = String(messages.findLast(({ role }) => role === 'user')?.content);
  const result = results(messages);
  if (system.includes('Decide whether the user has given enough')) {
    return {
      text: JSON.stringify(
        asked.includes('in May') ? { clear: true } : { clear: false, questions: [{ question: 'By when?' }] },
      ),
      paceMs: 0,
    };
  }
  // A request to keep the facts gets the facts as its answer.
  if (asked.includes('# New messages'))
    return { text: [...new Set(asked.match(/fact-\d+ is \w+\./g))].join(' '), paceMs: 0 };
  if (system.includes('EXECUTOR')) {
    const title = asked.split('\n')[0].replace(/^# /, '');
    if (title.startsWith('Break')) return { refusal: 'not like this' };
    if (title === 'Book the evening') {
      const event = {
        title: 'The evening',
        start: '2027-05-03T18:00:00Z',
        end: '2027-05-03T21:00:00Z',
        time_zone: 'Europe/Berlin',
      };
      return result('create_calendar_event')
        ? { text: 'It is booked.' }
        : { tools: [{ name: 'create_calendar_event', arguments: event }] };
    }
    if (title === 'Read the news') {
      const page = result('web_visit');
      if (!page) return { tools: [{ name: 'web_visit', arguments: { url: newsUrl } }] };
      if (result('create_onto_document')) return { text: 'It is written down.' };
      return {
        tools: [
          { name: 'create_onto_document', arguments: { title: 'News', content: String(page.content ?? page.raw) } },
        ],
      };
    }
    return result('create_onto_task')
      ? { text: `${title} is made, and all of it is said slowly.`, paceMs: 60 }
      : { tools: [{ name: 'create_onto_task', arguments: { title } }] };
  }
  if (asked.startsWith('Plan a product launch')) {
    return result('create_onto_project')
      ? { text: 'The launch is begun.' }
      : {
          tools: [
            {
              name: 'create_onto_project',
              arguments: {
                project: { name: 'Launch' },
                entities: [{ temp_id: 'g', kind: 'goal', title: 'Sell' }],
                relationships: [],
                context_document: { title: 'About', content: 'In May.' },
              },
            },
          ],
        };
  }
  if (asked.startsWith('Draft')) {
    const done = result('agent_create_plan');
    if (!done) return planned('Break it', 'draft_only');
    if (done.status === 'completed_with_errors') return planned('Mend it', 'auto_execute', done.plan_id);
    return { text: `The plan is ${done.status}.` };
  }
  if (asked.startsWith('Which'))
    return { text: `You said: ${/fact-1 is \w+\./.exec(JSON.stringify(messages))?.[0] ?? 'nothing of it'}` };
  if (asked.startsWith('Where')) return { text: `We are in ${/Project: (\w+)/.exec(system)?.[1] ?? 'nothing'}.` };
  return { text: 'Noted.', paceMs: 0 };
}

const skip = skipWithout(BINARY && PROGRAM, 'REJOIN_TEST_BIN names no binary, or there is no Chromium');
let news;
let model;
let dev;
let browser;
let planner;

before(async () => {
  if (skip) return;
  news = createServer((request, response) => {
    if (request.url === '/robots.txt') return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end(
      '<html><head><title>News</title></head><body><article><h1>News</h1><p>The moon is sold out until June, say those who sell it.</p></article></body></html>',
    );
  });
  await new Promise((resolve) => news.listen(0, '127.0.0.1', resolve));
  const newsUrl = `http://127.0.0.1:${news.address().port}/today`;
  model = await startModel((messages) => reply(messages, newsUrl));
  dev = await startDev(model.url, { workers: 3, env: { REJOIN_WEB_HOSTS: '127.0.0.1' } });
  const admin = `/api/admin/projects/${dev.projectId}`;
  const did = async (path, method, body) => {
    const answer = await dev.api(path, { method, body });
    assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await did(`${admin}/install-default-agents?set=planner`, 'POST', {});
  await did(`${admin}/web`, 'PUT', { visit: true });
  const tools = ['ask_user', 'agent_create_plan', 'create_onto_*', 'list_onto_*', 'create_calendar_event', 'web_visit'];
  const config = { planning: { executor: 'my-executor' } };
  const make = (name, systemPrompt) =>
    did(`${admin}/agent-definitions`, 'POST', {
      name,
      description: `Is ${name}.`,
      systemPrompt,
      model: { name: 'openai:scripted' },
      tools,
      config,
    });
  await make('my-executor', 'EXECUTOR');
  planner = (await make('my-planner', 'PLANNER')).id;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await dev?.stop();
  await model?.stop();
  await new Promise((resolve) => (news ? news.close(resolve) : resolve()));
});

/** Numbers between 0 and 1, the same for the same seed (mulberry32). */
function randomly(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The last answer, without the runs within it. */
const answer = (page) => page.locator('.items > li > article.turn').last();
const plan = (page) => page.getByRole('region', { name: 'Plan: Launch' });
const isOver = (page) =>
  page.evaluate(
    () => document.querySelector('.items > li:last-child > article.turn')?.getAttribute('aria-busy') === 'false',
  );

/** 1 if there was something to kill: the fleet's list names the dead for a while. */
function killed(pid) {
  try {
    process.kill(pid, 'SIGKILL');
    return 1;
  } catch {
    return 0;
  }
}

/** Kills a worker that is at it, sometimes the API, again and again until the last answer is over. How often it hit. */
async function underFire(page, random) {
  const began = Date.now();
  let kills = 0;
  let apiPid = dev.pids.api;
  while (!(await isOver(page))) {
    await eventually(async () =>
      assert.ok(Date.now() - began < CHAPTER_MS, `the answer does not end: ${await answer(page).innerText()}`),
    );
    const moment = Date.now() + 100 + random() * 1_200;
    await until('the next kill, or the end', async () => Date.now() >= moment || isOver(page));
    if (kills >= KILLS) continue;
    const { status, body } = await dev
      .api(`/api/admin/projects/${dev.projectId}/operations`)
      .catch(() => ({ status: 0 }));
    const busy = status === 200 ? body.workers.filter((worker) => worker.busy > 0) : [];
    const victim = random() < 0.2 && apiPid ? apiPid : busy[Math.floor(random() * busy.length)]?.pid;
    if (!victim) continue;
    // Its successor's number is not known.
    if (victim === apiPid) apiPid = undefined;
    kills += killed(victim);
  }
  return kills;
}

/** A response of the API, which may be dead at the moment. */
const get = (path) => until(path, () => dev.api(path).catch(() => null));

/** All of what a list of the work graph holds. */
async function listed(kind, projectId) {
  const { status, body } = await get(`/api/onto/${kind}?projectId=${projectId}&limit=100`);
  assert.equal(status, 200, JSON.stringify(body));
  return body.items.map(({ name }) => name).sort();
}

for (let seed = 1; seed <= SEEDS; seed += 1) {
  // Requirements: E13, E28, E33, E42, E44, E47, E57, E59.
  test(`a launch is lived through while processes die (seed ${seed})`, {
    skip,
    timeout: 600_000,
  }, async () => {
    const random = randomly(seed);
    let kills = 0;
    const before = new Set((await get('/api/onto/projects?limit=100')).body.items.map(({ id }) => id));
    const { context, page, faults } = await signedIn(browser, dev);
    const about = page.getByRole('group', { name: 'Conversation context' });
    await page.getByLabel('Agent', { exact: true }).selectOption(planner);
    await ask(page, 'hello');
    await page.waitForURL(/\/c\//);
    await until('the greeting is over', () => isOver(page));
    const conversation = page.url().split('/c/')[1];

    // It asks before it begins, and begins once.
    await about.getByLabel('Context', { exact: true }).selectOption('project_create');
    await until(
      'the context is stored',
      async () => (await get(`/api/conversations/${conversation}`)).body.contextType === 'project_create',
    );
    await ask(page, 'Plan a product launch');
    const card = answer(page).getByRole('form', { name: 'The agent asks' });
    await card.getByText('By when?').waitFor();
    await card.getByLabel('Your answer').fill('in May');
    await card.getByRole('button', { name: 'Answer' }).click();
    kills += await underFire(page, random);
    await answer(page).getByText('The launch is begun.').waitFor();
    await about.locator('.chip').getByText('Launch').waitFor();
    const made = (await get('/api/onto/projects?limit=100')).body.items.filter(({ id }) => !before.has(id));
    assert.equal(made.length, 1, 'one project was begun');
    const projectId = made[0].id;

    // A draft, edited in its place, approved, and carried out; what fails is planned again.
    await ask(page, 'Draft the plan');
    await plan(page).getByText('pending review').waitFor();
    await plan(page).getByRole('button', { name: 'Edit', exact: true }).click();
    const field = plan(page).getByRole('textbox', { name: 'Plan steps (JSON)' });
    const edited = JSON.parse(await field.inputValue());
    edited[0].description = 'Task 1, gladly';
    await field.fill(JSON.stringify(edited));
    await plan(page).getByRole('button', { name: 'Approve with changes' }).click();
    kills += await underFire(page, random);
    await answer(page).getByText('The plan is completed.').waitFor();
    await plan(page).getByText(`${STEPS} of ${STEPS} steps`).waitFor();
    const tasks = [1, 2, 3, 6, 8, 9, 10].map((nth) => (nth === 1 ? 'Task 1, gladly' : `Task ${nth}`));
    await eventually(async () =>
      assert.deepEqual(
        await listed('tasks', projectId),
        [...tasks, 'Mend it'].sort(),
        `${kills} kills: each task once`,
      ),
    );
    await eventually(async () => assert.deepEqual(await listed('goals', projectId), ['Sell']));
    await eventually(async () => assert.deepEqual(await listed('documents', projectId), ['About', 'News']));
    const calendars = (await get('/api/calendars')).body.items.filter(
      (calendar) => calendar.workProjectId === projectId,
    );
    assert.equal(calendars.length, 1, 'the project has its calendar');
    const events = (
      await get(`/api/calendars/${calendars[0].id}/events?from=2027-05-01T00:00:00Z&to=2027-06-01T00:00:00Z`)
    ).body.items;
    assert.deepEqual(
      events.map(({ title }) => title),
      ['The evening'],
    );

    // Elsewhere and back: the answers are about the place where the user is.
    const other = await dev.api('/api/onto/projects/instantiate', {
      method: 'POST',
      body: { project: { name: `Orbit${seed}` }, entities: [], relationships: [] },
    });
    assert.equal(other.status, 201, JSON.stringify(other.body));
    await page.reload();
    await about.getByRole('button', { name: 'Change project' }).click();
    await about.getByRole('searchbox').fill(`Orbit${seed}`);
    await about.getByRole('button', { name: `Orbit${seed}`, exact: true }).click();
    await about.locator('.chip').getByText(`Orbit${seed}`).waitFor();
    await ask(page, 'Where are we?');
    await answer(page).getByText(`We are in Orbit${seed}.`).waitFor();
    await until('it is over', () => isOver(page));

    // Sixty turns, and the first message is still known in the end.
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const sent = await dev.api('/api/chat/stream', {
        method: 'POST',
        body: {
          message: `fact-${turn} is secret${turn}. ${'And so on and on. '.repeat(12)}`,
          conversationId: conversation,
        },
      });
      assert.ok(sent.status < 300, JSON.stringify(sent.body));
      await until('its answer', async () => {
        const { status, body } = await dev
          .api(`/api/projects/${dev.projectId}/agent-runs/${sent.body.runId}`)
          .catch(() => ({ status: 0 }));
        return status === 200 && body.status === 'completed';
      });
      if (turn % 20 === 0) {
        const { workers } = (await get(`/api/admin/projects/${dev.projectId}/operations`)).body;
        kills += killed(workers[Math.floor(random() * workers.length)].pid);
      }
    }
    await ask(page, 'Which was the first?');
    kills += await underFire(page, random);
    await answer(page).getByText('You said: fact-1 is secret1.').waitFor();
    const last = answer(page).locator('.markdown');
    const usage = await about.getByRole('meter').getAttribute('aria-label');
    assert.match(usage, /of 2,500 tokens/);

    // What is shown is what is stored.
    await page.reload();
    await answer(page).getByText('You said: fact-1 is secret1.').waitFor();
    const stored = (await get(`/api/conversations/${conversation}/messages?limit=1&order=desc`)).body.items;
    assert.ok(stored.length >= 1);
    await eventually(async () => assert.equal((await last.allInnerTexts()).join(''), 'You said: fact-1 is secret1.'));
    assert.ok(kills > 0, 'nothing was killed, and nothing is shown');
    assert.deepEqual(
      faults.filter((fault) => !/Failed to load resource|ERR_/.test(fault)),
      [],
    );
    await context.close();
  });
}
