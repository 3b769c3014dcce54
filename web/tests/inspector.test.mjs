// What people do with runs, tasks, the graph and operations, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { signedIn } from './support/browser.mjs';
import { deadJob } from './support/database.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const WORDS = 150;
const PACE_MS = 20;

/** So many words, each unlike the others. */
function story(name) {
  return Array.from({ length: WORDS }, (_, nth) => `${name}${nth}`).join(' ');
}

function reply(messages) {
  const asked = messages.findLast((message) => message.role === 'user')?.content ?? '';
  const text = typeof asked === 'string' ? asked : JSON.stringify(asked);
  if (text.includes('look up') && messages.at(-1).role !== 'tool') {
    return {
      text: 'A moment.',
      tools: [{ name: 'search_entities', arguments: { query: /look up (\w+)/.exec(text)[1], limit: 1 } }],
    };
  }
  const name = /story of (\w+)/.exec(text)?.[1];
  return name ? { text: story(name), paceMs: PACE_MS } : { text: 'This is what came of it.', paceMs: 0 };
}

const { model, dev, browser } = await stage(reply, {});
const agent = skip || (await dev.agent('asker', ['search_entities']));

const ofProject = (path) => `/api/projects/${dev.projectId}${path}`;

/** Begins a run; its id. */
async function begin(input) {
  const { status, body } = await dev.api(ofProject(`/agents/${agent}/trigger`), { method: 'POST', body: { input } });
  assert.equal(status, 202, JSON.stringify(body));
  return body.runId;
}

/** The run, once it is over. */
function ended(id) {
  return until(`the run ${id} ends`, async () => {
    const { body } = await dev.api(ofProject(`/agent-runs/${id}`));
    return ['completed', 'failed', 'cancelled', 'paused'].includes(body.state) && body;
  });
}

async function answered(input) {
  const id = await begin(input);
  assert.equal((await ended(id)).state, 'completed');
  return id;
}

function operations() {
  return dev.api(`/api/admin/projects/${dev.projectId}/operations`).then(({ body }) => body);
}

/** Nothing went wrong in the page. Otherwise the warnings and errors of the server are shown. */
function noFaults(faults) {
  const lines = dev
    .stderr()
    .split('\n')
    .filter((line) => / (ERROR|WARN) /.test(line) && !line.includes('EMPTY CHOICE'));
  assert.deepEqual(faults, [], lines.join('\n'));
}

/** The words that the replay shows. */
const shown = (page) => page.locator('.shown .markdown').allInnerTexts();

test('operations show what goes on, and a dead job comes back', { skip }, async () => {
  const id = deadJob(dev, 'report', 'the printer is on fire');
  await answered('anything');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.getByRole('link', { name: 'Operations' }).click();
  await page.getByRole('row', { name: /report .*the printer is on fire/ }).waitFor();
  await page.getByRole('img', { name: /Runs per minute: [1-9]\d* started, [1-9]/ }).waitFor();
  const workers = page.getByRole('table').filter({ hasText: 'Version' }).getByRole('row', { name: /alive/ });
  await eventually(async () => assert.equal(await workers.count(), dev.pids.workers.length));
  await eventually(async () => assert.ok(await page.getByText('Connected', { exact: true }).isVisible()));
  await page.getByRole('button', { name: `Retry report ${id}` }).click();
  await page.getByRole('status').getByText(`job ${id} is available again`).waitFor();
  await page.getByRole('row', { name: /the printer is on fire/ }).waitFor({ state: 'detached' });
  // No worker serves its queue here: it waits there.
  await page.getByRole('row', { name: /^reports 1 0 0 0 0/ }).waitFor();
  noFaults(faults);
  await context.close();
});

test('operations name what needs attention, and dead jobs are retried together', { skip }, async () => {
  for (const error of ['no paper', 'no ink']) deadJob(dev, 'report', error);
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/operations`);
  await page.getByText('2 dead letter jobs need a retry or a fix.').waitFor();
  await page.getByRole('checkbox', { name: 'Select all jobs' }).check();
  await page.getByRole('button', { name: 'Retry 2 selected' }).click();
  await page.getByText('2 jobs are available again').waitFor();
  await page.getByText('No dead letter jobs.').waitFor();
  await page.getByRole('figure').filter({ hasText: 'Runs per minute' }).getByRole('img').hover();
  noFaults(faults);
  await context.close();
});

test('a span of a trace shows its input and output', { skip }, async () => {
  const id = await answered('look up curl');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${id}`);
  const detail = page.getByRole('region', { name: 'Selected span' });
  await detail.getByText('Queue wait time').waitFor();
  await page.getByRole('button', { name: /search_entities/ }).click();
  await detail.getByText('"query": "curl"').waitFor();
  await page.getByRole('button', { name: /1 model/ }).click();
  await detail.getByRole('heading', { name: 'Model response, step 1' }).waitFor();
  await detail.getByText('Calls search_entities').waitFor();
  noFaults(faults);
  await context.close();
});

test('runs are filtered by agent, and two of them are compared', { skip }, async () => {
  const ids = [await answered('look up curl'), await answered('look up bash')];
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs`);
  for (const id of ids) await page.getByRole('checkbox', { name: `Compare ${id.slice(-12)}` }).check();
  await page.getByRole('link', { name: 'Compare 2 runs' }).click();
  await page.waitForURL(/\/compare\//);
  await page.goto(`${dev.url}/runs`);
  await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption('asker');
  await page.waitForURL(/agent=asker/);
  await page.getByRole('combobox', { name: 'State', exact: true }).selectOption('paused');
  await page.getByText('No runs match these filters').waitFor();
  await page.getByRole('link', { name: 'Clear filters' }).click();
  await page.getByRole('table').waitFor();
  noFaults(faults);
  await context.close();
});

test('the log of a run that lost its worker shows its attempts, and its replay ends with the stored answer', {
  skip,
}, async () => {
  const goOn = model.hold('a story of logs');
  const id = await begin('a story of logs');
  // Once there is some text, its worker is killed.
  const busy = await until('a worker is at it', async () =>
    (await operations()).workers.find((worker) => worker.busy > 0),
  );
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${id}/log`);
  await page.waitForFunction(() => document.querySelector('.shown .markdown')?.textContent.length > 20);
  process.kill(busy.pid, 'SIGKILL');
  goOn();
  const run = await ended(id);
  assert.equal(run.attempt, 2);
  await page.waitForFunction(
    (last) => document.querySelector('.shown .markdown')?.textContent.endsWith(last),
    `logs${WORDS - 1}`,
  );
  await eventually(async () => assert.deepEqual(await shown(page), [story('logs')]));
  assert.equal(run.summary, story('logs'));

  const attempts = page.getByRole('region', { name: 'Attempts' });
  await attempts.getByText(/events were discarded/).waitFor();
  await attempts.getByRole('button', { name: /^Attempt 2/ }).click();
  const seq = Number(/event (\d+)/.exec(await page.locator('output').innerText())[1]);
  // As the reset is read, nothing is left of what it takes back; the event before, all of it is there.
  await eventually(async () => assert.equal((await shown(page)).join(''), ''));
  await page.getByRole('button', { name: 'Previous event' }).click();
  const half = (await shown(page)).join('');
  assert.ok(story('logs').startsWith(half) && half.length > 0, half);
  await eventually(async () =>
    assert.match(await page.locator('.events [aria-selected=true]').getAttribute('class'), /taken/),
  );
  // An address for others: they see the same.
  await page.waitForURL((url) => Number(url.searchParams.get('at')) === seq - 1);
  await page.reload();
  await page.locator('.events [aria-selected=true]').waitFor();
  await eventually(async () => assert.equal((await shown(page)).join(''), half));

  await page.getByRole('checkbox', { name: /^token/ }).click();
  await page.locator('.events').getByText('token', { exact: true }).first().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Last event' }).click();
  await page.getByText(/^Event \d+: done/).waitFor();
  await eventually(async () => assert.deepEqual(await shown(page), [story('logs')]));
  noFaults(faults);
  await context.close();
});

test('the keyboard alone goes through a log', { skip }, async () => {
  const id = await answered('look up curl');
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${id}`);
  await page.getByRole('link', { name: 'Log' }).focus();
  await page.keyboard.press('Enter');
  const list = page.getByRole('listbox', { name: 'Events' });
  await list.waitFor();
  await page.getByRole('option', { name: /done/ }).waitFor();
  while (!(await list.evaluate((element) => element === document.activeElement))) await page.keyboard.press('Tab');
  await page.keyboard.press('Home');
  await page.getByRole('option', { selected: true, name: /meta/ }).waitFor();
  await eventually(async () => assert.deepEqual(await shown(page), []));
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('End');
  await page.getByRole('option', { selected: true, name: /done/ }).waitFor();
  await eventually(async () => assert.deepEqual(await shown(page), ['A moment.', 'This is what came of it.']));
  // To the slider, and a step back with it.
  const slider = page.getByRole('slider', { name: 'Position in the log' });
  while (!(await slider.evaluate((element) => element === document.activeElement)))
    await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('ArrowLeft');
  await page.getByRole('option', { selected: true, name: /usage|message/ }).waitFor();
  await context.close();
});

test('two runs are compared, and what is different is marked', { skip }, async () => {
  const left = await answered('look up curl');
  const right = await answered('look up bash');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${left}`);
  await page.locator('.waterfall li').nth(3).waitFor();
  await eventually(async () =>
    assert.deepEqual(await page.locator('.waterfall .name').allInnerTexts(), [
      'asker',
      '1 model',
      '1 search_entities',
      '2 model',
    ]),
  );
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByLabel('Compare with run').fill(right);
  await page.getByLabel('Compare with run').press('Enter');
  await page.waitForURL(`${dev.url}/runs/${left}/compare/${right}`);
  await page.getByRole('row', { name: /^Input.*different.*look up curl look up bash/ }).waitFor();
  await page.getByRole('row', { name: /^Model openai:scripted openai:scripted/ }).waitFor();
  const different = page.getByRole('group', { name: 'different', exact: true });
  const same = page.getByRole('group', { name: 'the same' });
  await eventually(async () =>
    assert.deepEqual([await different.count(), (await same.count()) > 0], [2, true], 'what was asked, and the call'),
  );
  await different.last().getByText('search_entities').first().click();
  await different.last().getByText('"query": "curl"').waitFor();
  await page.getByRole('checkbox', { name: 'Only differences' }).check();
  await same.first().waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await different.count(), 2));
  noFaults(faults);
  await context.close();
});

test('a run is forked after a step, with other words', { skip }, async () => {
  const id = await answered('look up curl');
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${id}`);
  await page.getByRole('button', { name: 'Fork' }).click();
  await page.getByRole('spinbutton', { name: 'Fork after step' }).fill('0');
  await page.getByRole('textbox', { name: 'New input' }).fill('look up bash');
  await page.getByRole('button', { name: 'Create fork' }).click();
  await page.getByText('Forked from').waitFor();
  assert.equal((await ended(page.url().split('/').at(-1))).state, 'completed');
  await page.getByRole('link', { name: 'compare', exact: true }).click();
  await page.getByRole('row', { name: /^Input.*different.*look up curl look up bash/ }).waitFor();
  await context.close();
});

test('a DAG is watched to its end, with what waits for what', { skip }, async () => {
  const task = (id, title, description, after = []) => ({ id, title, description, agent: 'asker', after });
  const tasks = [
    task('plan', 'Plan it', 'a story of plans'),
    task('left', 'The left half', 'look up curl', ['plan']),
    task('right', 'The right half', 'look up bash', ['plan']),
    task('join', 'Join them', 'anything', ['left', 'right']),
  ];
  const dag = (await dev.api(ofProject('/task-dags'), { method: 'POST', body: { name: 'Halves', tasks } })).body;
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/tasks/${dag.id}`);
  await page.locator('.task.in_progress', { hasText: 'Plan it' }).waitFor();
  // What holds it up stands out while it is looked at.
  await page.getByRole('button', { name: /^Left half|^The left half/ }).focus();
  await page.locator('.task.before', { hasText: 'Plan it' }).waitFor();
  await page.locator('.task.behind', { hasText: 'Join them' }).waitFor();
  await page.locator('.task.apart', { hasText: 'The right half' }).waitFor();
  await page
    .getByRole('heading', { name: 'Halves' })
    .locator('..')
    .getByText('completed', { exact: true })
    .waitFor({ timeout: 60_000 });
  await eventually(async () => assert.equal(await page.locator('.task.completed').count(), tasks.length));
  await page.getByRole('button', { name: /^Join them/ }).click();
  await page
    .getByText('Depends on')
    .getByRole('button', { name: /The right half/ })
    .click();
  await page
    .getByText('Blocks')
    .getByRole('button', { name: /Join them/ })
    .waitFor();
  await page.getByText('This is what came of it.').waitFor();
  await page.getByRole('link', { name: 'View run' }).click();
  await page.getByRole('heading', { name: 'asker' }).waitFor();
  noFaults(faults);
  await context.close();
});

test('an object is drawn among its neighbours, and goes back to what it was', { skip }, async () => {
  const find = async (words) => (await dev.api(ofProject(`/graph/search?query=${words}&limit=1`))).body.data[0].object;
  const curl = await find('curl');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/graph/${curl.id}`);
  const around = page.getByRole('group', { name: 'Related objects' });
  await around.getByRole('link', { name: /^libcurl4 / }).waitFor();
  // It is zoomed by buttons.
  const width = async () => (await around.getByRole('link', { name: /^libcurl4 / }).boundingBox()).width;
  const before = await width();
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await eventually(async () => assert.ok((await width()) > 1.1 * before));
  await page.getByRole('button', { name: 'Zoom out' }).click();
  const near = await around.getByRole('link').count();
  await page.getByRole('checkbox', { name: 'One step further' }).check();
  await page.waitForFunction((near) => document.querySelectorAll('.picture a').length > near, near);
  await eventually(async () => assert.ok((await around.getByRole('link').count()) <= 40));
  await around.getByRole('link', { name: /^libcurl4 / }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'libcurl4' }).waitFor();

  await dev.api(ofProject(`/graph/objects/${curl.id}`), {
    method: 'PATCH',
    body: { properties: { summary: 'wrong', added: 1 } },
  });
  await page.goto(`${dev.url}/graph/${curl.id}`);
  await page.getByText('"summary": "wrong"').waitFor();
  await page.getByText('History').click();
  await page.locator('.records summary').last().click();
  await page.getByRole('button', { name: 'Restore version 1' }).click();
  await page.getByText('version 3').waitFor();
  const now = (await dev.api(ofProject(`/graph/objects/${curl.id}`))).body;
  assert.deepEqual(now.properties, curl.properties);
  noFaults(faults);
  await context.close();
});

test('none of these views has a serious fault of accessibility, light or dark', { skip }, async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  deadJob(dev, 'report', 'again');
  const [left, right] = [await answered('look up curl'), await answered('look up bash')];
  const object = (await dev.api(ofProject('/graph/search?query=curl&limit=1'))).body.data[0].object.id;
  const tasks = [
    { id: 'one', title: 'One', agent: 'asker' },
    { id: 'two', title: 'Two', agent: 'asker', after: ['one'] },
  ];
  const dag = (await dev.api(ofProject('/task-dags'), { method: 'POST', body: { name: 'Two', tasks } })).body;
  const views = {
    '/operations': 'table',
    [`/runs/${left}`]: '.records li',
    [`/runs/${left}/log`]: '.shown .markdown',
    [`/runs/${left}/compare/${right}`]: '.pair',
    [`/tasks/${dag.id}`]: '.task',
    [`/graph/${object}`]: '.picture a',
  };
  for (const colorScheme of ['light', 'dark']) {
    // The page's policy takes no scripts of others: for the test they are let in.
    const { context, page } = await signedIn(browser, dev, { colorScheme, bypassCSP: true });
    for (const [path, awaited] of Object.entries(views)) {
      await page.goto(dev.url + path);
      await page.locator(awaited).first().waitFor();
      for (const name of ['Fork', 'Compare']) {
        const button = page.getByRole('button', { name, exact: true });
        if ((await button.count()) > 0) await button.click();
      }
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(
        serious.map(({ id, nodes }) => `${colorScheme} ${path} ${id}: ${nodes[0].html}`),
        [],
      );
    }
    await context.close();
  }
});

test('on a narrow screen nothing is wider than the page', { skip }, async () => {
  const [left, right] = [await answered('look up curl'), await answered('look up bash')];
  const object = (await dev.api(ofProject('/graph/search?query=curl&limit=1'))).body.data[0].object.id;
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 360, height: 740 } });
  for (const path of [
    '/operations',
    `/runs/${left}`,
    `/runs/${left}/log`,
    `/runs/${left}/compare/${right}`,
    `/graph/${object}`,
  ]) {
    await page.goto(dev.url + path);
    await page.locator('h2').first().waitFor();
    const { inner, outer } = await page
      .locator('#main')
      .evaluate((main) => ({ inner: main.scrollWidth, outer: innerWidth }));
    assert.ok(inner <= outer, `${path} is ${inner} px wide`);
  }
  await context.close();
});
