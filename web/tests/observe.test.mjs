// How users observe the system: the list of runs with its filters and saved views, the trace of a run, and operations. In a real browser over a real
// `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { lastQuestion, story, storyReply } from './support/chat.mjs';
import { deadJob, deadJobs } from './support/database.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

function reply(messages) {
  const text = lastQuestion(messages);
  const isAnswered = messages.at(-1).role === 'tool';
  if (text.includes('refuse this')) return { refusal: 'not like this' };
  if (text.includes('break off')) return { text: 'These words came before it broke.', paceMs: 1, breaks: true };
  if (text.includes('delegate') && !isAnswered) {
    const agents = [{ agent_name: 'helper', task: 'a story of helpers', timeout: null, resume_run_id: null }];
    return { tools: [{ name: 'spawn_agents', arguments: { agents } }] };
  }
  if (text.includes('delegate')) return { text: 'They found **it**.', paceMs: 0 };
  if (text.includes('story of')) return storyReply(text, { helpers: 5 });
  return { text: 'Well.', paceMs: 0 };
}

const { model, dev, browser } = await stage(reply, {});
const agent = skip || (await dev.agent('asker', ['spawn_agents']));
if (!skip) await dev.agent('helper', []);

const ofProject = (path) => `/api/projects/${dev.projectId}${path}`;
const link = (page, name) => page.getByRole('link', { name, exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const select = (page, name) => page.getByRole('combobox', { name, exact: true });
const views = (page) => page.getByRole('navigation', { name: 'Saved views' });
const detail = (page) => page.getByRole('region', { name: 'Selected span' });
const isFocused = (locator) => locator.evaluate((element) => element === document.activeElement);
const short = (id) => id.slice(-12);

/** Starts a run; its id. */
async function begin(input) {
  const { status, body } = await dev.api(ofProject(`/agents/${agent}/trigger`), { method: 'POST', body: { input } });
  assert.equal(status, 202, JSON.stringify(body));
  return body.runId;
}

/** The run, once it is over. */
async function ended(input) {
  const id = await begin(input);
  return over(id);
}

function over(id) {
  return until(`the run ${id} ends`, async () => {
    const { body } = await dev.api(ofProject(`/agent-runs/${id}`));
    return ['completed', 'failed', 'cancelled', 'paused'].includes(body.state) && body;
  });
}

test('the list of runs is filtered by what its address holds', { skip }, async () => {
  const good = await ended('hello');
  const bad = await ended('refuse this');
  assert.deepEqual([good.state, bad.state], ['completed', 'failed']);
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs`);
  const row = (run) => page.getByRole('row').filter({ hasText: short(run.id) });
  await row(good).getByText('hello', { exact: true }).waitFor();
  await page.getByRole('checkbox', { name: 'Failed only' }).click();
  await page.waitForURL(/state=failed/);
  await row(good).waitFor({ state: 'detached' });
  await row(bad).waitFor();
  await eventually(async () => assert.equal(await select(page, 'State').inputValue(), 'failed'));
  await select(page, 'Time').selectOption('hour');
  await page.waitForURL(/period=hour/);
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill(bad.errorCode.toUpperCase());
  await page.waitForURL((url) => url.searchParams.get('q') === bad.errorCode.toUpperCase());
  await page
    .getByRole('status')
    .getByText(/runs? match/)
    .waitFor();
  // A link shows the same.
  await page.reload();
  await row(bad).waitFor();
  await eventually(async () =>
    assert.equal(
      await page.getByRole('searchbox', { name: 'Search', exact: true }).inputValue(),
      bad.errorCode.toUpperCase(),
    ),
  );
  await eventually(async () => assert.equal(await row(good).count(), 0));
  await select(page, 'Time').selectOption('custom');
  await page.getByLabel('From', { exact: true }).fill('2100-01-01T00:00');
  await page.waitForURL((url) => url.searchParams.has('since'));
  await page.getByText('No runs match these filters').waitFor();
  await link(page, 'Clear filters').click();
  await row(good).waitFor();
  assert.equal(new URL(page.url()).search, '');
  await eventually(async () =>
    assert.equal(await page.getByRole('searchbox', { name: 'Search', exact: true }).inputValue(), ''),
  );
  assert.deepEqual(faults, []);
  await context.close();
});

test('filters are saved as a view, which is renamed and deleted', { skip }, async () => {
  await ended('hello');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/runs`);
  await page.getByRole('table').waitFor();
  await eventually(async () => assert.equal(await button(page, 'Save view').count(), 0, 'there is nothing to save'));
  await page.getByRole('checkbox', { name: 'Failed only' }).click();
  await button(page, 'Save view').click();
  const name = page.getByRole('textbox', { name: 'Name of the view' });
  await name.press('Enter');
  await views(page).getByText('Enter a name.').waitFor();
  await accessible(page, 'a view without a name');
  await name.press('Escape');
  await until('the focus is back', () => isFocused(button(page, 'Save view')));
  await button(page, 'Save view').click();
  await name.fill('Failures');
  await name.press('Enter');
  await until('the view has the focus', () => isFocused(link(page, 'Failures')));
  // Another one, which can't have the same name.
  await select(page, 'Agent').selectOption('asker');
  await button(page, 'Save view').click();
  await name.fill('Failures');
  await name.press('Enter');
  await views(page)
    .getByText(/^Another view has this name/)
    .waitFor();
  await name.fill('Of the asker');
  await name.press('Enter');
  await link(page, 'Of the asker').waitFor();
  await page.reload();
  await link(page, 'Failures').click();
  await page.waitForURL((url) => !url.searchParams.has('agent') && url.searchParams.get('state') === 'failed');
  await button(page, 'Rename view: Failures').click();
  await name.fill('Broken');
  await name.press('Enter');
  await link(page, 'Broken').waitFor();
  await eventually(async () => assert.equal(await link(page, 'Failures').count(), 0));
  await eventually(async () => assert.equal(await link(page, 'Broken').getAttribute('aria-current'), 'page'));
  await accessible(page, 'saved views');
  await button(page, 'Delete view: Broken').click();
  await link(page, 'Broken').waitFor({ state: 'detached' });
  // Its filters stay, and can be saved again.
  await until('the focus is near', () => isFocused(button(page, 'Save view')));
  await page.reload();
  await link(page, 'Of the asker').waitFor();
  await eventually(async () => assert.equal(await link(page, 'Broken').count(), 0));
  assert.deepEqual(faults, []);
  await context.close();
});

test('runs are found by words of their input, and sorted', { skip }, async () => {
  const wanted = await ended('an input of zirconium');
  const other = await ended('a story of sorting');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/runs`);
  const row = (run) => page.getByRole('row').filter({ hasText: short(run.id) });
  await row(other).waitFor();
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('ZIRCON input');
  await page.getByText('1 run matches.').waitFor();
  await row(wanted).waitFor();
  await eventually(async () => assert.equal(await row(other).count(), 0));
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('');
  await row(other).waitFor();
  const sorted = async (order) => {
    const { body } = await dev.api(ofProject(`/agent-runs?topLevel=true&limit=100&order=${order}`));
    return body.items.map(({ id }) => short(id));
  };
  for (const [name, order] of [
    ['Longest first', 'longest'],
    ['Most expensive first', 'mostExpensive'],
  ]) {
    await select(page, 'Order').selectOption(name);
    await page.waitForURL((url) => url.searchParams.get('order') === order);
    await page.getByText('Only the newest 10,000 runs that match are sorted.').waitFor();
    await eventually(async () =>
      assert.deepEqual(await page.locator('tbody td code').allInnerTexts(), await sorted(order)),
    );
  }
  await accessible(page, 'a sorted list of runs');
  await select(page, 'Order').selectOption('Newest first');
  await page.waitForURL((url) => !url.searchParams.has('order'));
  assert.deepEqual(faults, []);
  await context.close();
});

test('a thousand runs are read by pages and searched, and then not read again by themselves', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  const run = (nth) => ({
    id: `00000000-0000-4000-8000-${String(nth).padStart(12, '0')}`,
    rootRunId: '00000000-0000-4000-8000-000000000000',
    agent: 'asker',
    state: nth === 950 ? 'failed' : 'completed',
    status: 'completed',
    error: nth === 950 ? 'a needle' : null,
    createdAt: new Date(Date.UTC(2026, 0, 1) - nth * 1_000).toISOString(),
    durationMs: nth,
    totalSteps: 1,
    stepCount: 1,
    attempt: 1,
    depth: 0,
    restricted: false,
    usage: { totalTokens: nth },
  });
  const asked = [];
  await page.route('**/agent-runs?*', (route) => {
    const asks = new URL(route.request().url()).searchParams;
    // Other parts of the page ask for the newest ones.
    if (asks.get('limit') === '100') asked.push(asks.get('cursor'));
    const first = Number(asks.get('cursor') ?? 0);
    // Each page of a search is a part of what is searched.
    if (asks.get('q') === 'needle')
      return route.fulfill({ json: { items: first === 3 ? [run(950)] : [], nextCursor: String(first + 1) } });
    const items = Array.from({ length: 100 }, (_, nth) => run(first + nth));
    return route.fulfill({ json: { items, nextCursor: String(first + 100) } });
  });
  await page.clock.install();
  await page.goto(`${dev.url}/runs`);
  await page.locator('tbody tr').nth(99).waitFor();
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('needle');
  await page.getByText('1 run matches. Load more to search older runs.').waitFor();
  await page.locator('tbody').getByText('a needle').waitFor();
  await eventually(async () => assert.equal(await page.locator('tbody tr').count(), 1));
  await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('');
  for (let rows = 100; rows < 1_000; rows += 100) {
    await page
      .locator('tbody tr')
      .nth(rows - 1)
      .waitFor();
    await button(page, 'Load more').click();
  }
  await page.locator('tbody tr').nth(999).waitFor();
  await page.getByRole('checkbox', { name: 'Compare 000000000998' }).check();
  await page.getByText('Select another run to compare').waitFor();
  await page.getByRole('checkbox', { name: 'Compare 000000000999' }).check();
  await link(page, 'Compare 2 runs').waitFor();
  await page.clock.runFor(30_000);
  const before = [...asked];
  await page.clock.runFor(30_000);
  assert.deepEqual(asked, before, 'ten pages are not read again and again');
  await button(page, 'Load more').click();
  await page.locator('tbody tr').nth(1_099).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a trace nests sub-agents, and arrow keys go through it', { skip }, async () => {
  const run = await ended('delegate it');
  assert.equal(run.state, 'completed');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/runs/${run.id}`);
  const rows = page.locator('.waterfall .span');
  await rows.filter({ hasText: '2 model' }).waitFor();
  const names = await page.locator('.waterfall .name').allInnerTexts();
  assert.deepEqual(
    names.filter((name) => name !== '1 spawn_agents'),
    ['asker', '1 model', 'helper', '2 model'],
  );
  // The log has what each model call used.
  await rows.filter({ hasText: '1 model' }).getByText('20 tokens').waitFor();
  const focused = (text) =>
    until(`the focus is at ${text}`, () =>
      page.evaluate((text) => document.activeElement?.innerText.includes(text), text),
    );
  // One stop of the Tab key; the arrows go on.
  await rows.first().focus();
  await page.keyboard.press('ArrowDown');
  await focused('1 model');
  await detail(page).getByRole('heading', { name: 'Model response, step 1' }).waitFor();
  await detail(page).getByText('Input tokens').waitFor();
  await detail(page).getByText('Calls spawn_agents').waitFor();
  await page.keyboard.press('End');
  await focused('2 model');
  // Words are rendered, and not shown as JSON.
  await detail(page).locator('strong', { hasText: 'it' }).waitFor();
  await page.keyboard.press('ArrowUp');
  await focused('helper');
  await eventually(async () =>
    assert.equal(await rows.filter({ hasText: 'helper' }).getAttribute('aria-expanded'), 'false'),
  );
  await page.keyboard.press('ArrowRight');
  await page.locator('.waterfall .span[aria-expanded="true"]').waitFor();
  await rows.filter({ hasText: '1 model' }).nth(1).waitFor();
  await page.keyboard.press('ArrowDown');
  await focused('1 model');
  await detail(page).getByText(story('helpers', 5)).waitFor();
  await accessible(page, 'a step of a sub-agent');
  // Closed again, the selection is at what was closed.
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowLeft');
  await page.locator('.waterfall .span[aria-expanded="false"]').waitFor();
  await detail(page).getByRole('link', { name: 'Open run' }).waitFor();
  // Below the trace, messages are messages.
  const messages = page
    .locator('section')
    .filter({ has: page.getByRole('heading', { name: 'Messages', exact: true }) });
  await messages.locator('summary').last().click();
  await messages.locator('strong', { hasText: 'it' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a reset is a row of the trace, with its reason', { skip }, async () => {
  const goOn = model.hold('a story of resets');
  const id = await begin('a story of resets');
  const { context, page, faults } = await signedIn(browser, dev);
  const busy = await until('a worker is at it', async () => {
    const { body } = await dev.api(`/api/admin/projects/${dev.projectId}/operations`);
    return body.workers.find((worker) => worker.busy > 0);
  });
  // Once there are some words, its worker is killed.
  await page.goto(`${dev.url}/runs/${id}/log`);
  await page.waitForFunction(() => document.querySelector('.shown .markdown')?.textContent.length > 20);
  process.kill(busy.pid, 'SIGKILL');
  goOn();
  assert.equal((await over(id)).attempt, 2);
  await page.goto(`${dev.url}/runs/${id}`);
  const reset = page.getByRole('button', { name: /^Reset: attempt 2/ });
  await reset.waitFor();
  await page.locator('.waterfall .span').nth(2).waitFor();
  await eventually(async () =>
    assert.deepEqual(
      (await page.locator('.waterfall .name').allInnerTexts()).map((name) => name.replaceAll(/\s+/g, ' ')),
      ['asker', 'Reset: attempt 2', '1 model'],
    ),
  );
  await reset.click();
  await detail(page)
    .getByText(/events? (was|were) discarded/)
    .waitFor();
  await detail(page).getByRole('link', { name: 'Show in the log' }).click();
  await page.locator('.events [aria-selected=true]').getByText('reset', { exact: true }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a failed run shows what came of it and what to do, and is retried', { skip }, async () => {
  const cut = await ended('break off');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs/${cut.id}`);
  await page.getByRole('region', { name: 'Partial answer' }).getByText('These words came before it broke.').waitFor();
  await button(page, 'Fork').waitFor();
  await button(page, 'Retry').click();
  await page.getByText('Forked from').waitFor();
  const again = page.url().split('/').at(-1);
  assert.notEqual(again, cut.id);
  assert.equal((await over(again)).input, 'break off');
  const refused = await ended('refuse this');
  await page.goto(`${dev.url}/runs/${refused.id}`);
  await page.locator('#main > .note.bad').getByText('Check the model and the parameters').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('operations keep what settings have caused apart, and lead to it', { skip }, async () => {
  const refused = await ended('refuse this');
  const cut = await ended('break off');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/operations`);
  await page.getByText(/things? to look at$/).waitFor();
  const kind = (code) => page.locator('#failures').getByRole('row').filter({ hasText: code });
  await kind(refused.errorCode).getByText('Settings or input').waitFor();
  await kind(cut.errorCode).getByText('System', { exact: true }).waitFor();
  await page.getByRole('link', { name: new RegExp(`because of settings or input: ${refused.errorCode}`) }).click();
  await page.waitForURL(/#failures$/);
  await accessible(page, 'operations with failures');
  await kind(refused.errorCode).getByRole('link').getByRole('time').click();
  await page.waitForURL(new RegExp(`/runs/${refused.id}$`));
  assert.deepEqual(faults, []);
  await context.close();
});

test('arrow keys choose a minute of a chart', { skip }, async () => {
  await ended('hello');
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/operations`);
  const minute = page.getByRole('slider', { name: 'Minute of the chart: Runs per minute' });
  await minute.focus();
  const words = () => minute.getAttribute('aria-valuetext');
  await until('a minute is chosen', async () => /^\d\d:\d\d: \d+ started/.test(await words()));
  const last = await words();
  await page.keyboard.press('ArrowLeft');
  await until('another one is', async () => (await words()) !== last);
  const readout = page.locator('.chart').filter({ hasText: 'Runs per minute' }).locator('.readout');
  await until('it is shown', async () => (await readout.innerText()) === (await words()));
  await context.close();
});

test('operations have the 99th percentile, and the time to the first token', { skip }, async () => {
  await ended('hello');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/operations`);
  for (const title of ['Queue wait time', 'Time to first token', 'Run duration']) {
    const chart = page.locator('.chart').filter({ hasText: title });
    await chart
      .locator('.readout')
      .getByText(/p50 \d.*, p95 \d.*, p99 \d/)
      .waitFor();
  }
  await page.getByText('First token, p50', { exact: true }).waitFor();
  await page.getByText('Show as table').click();
  await page.getByRole('columnheader', { name: 'First token (p50, p95, p99)' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('all dead letter jobs that match are retried, once it is confirmed', { skip }, async () => {
  const ids = ['no paper', 'no paper left', 'no ink'].map((error) => deadJob(dev, 'print', error));
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/operations`);
  const jobs = page.locator('#dead-jobs');
  await jobs.getByRole('row', { name: /no ink/ }).waitFor();
  await jobs.getByRole('searchbox', { name: 'Filter' }).fill('paper');
  await jobs.getByRole('row', { name: /no ink/ }).waitFor({ state: 'detached' });
  const all = button(page, 'Retry all that match (2)');
  await all.click();
  await page.getByRole('dialog', { name: 'Retry 2 jobs?' }).waitFor();
  await accessible(page, 'the confirmation');
  await page.keyboard.press('Escape');
  await until('the focus is back', () => isFocused(all));
  // Meanwhile, another admin retries one of them.
  await all.click();
  const path = `/api/admin/projects/${dev.projectId}/operations`;
  assert.equal((await dev.api(`${path}/jobs/${ids[0]}/retry`, { method: 'POST', body: {} })).status, 200);
  await agree(page, 'Retry 2 jobs');
  await jobs.getByText(`Job ${ids[1]} is available again`).waitFor();
  await jobs.getByText('1 job could no longer be retried.').waitFor();
  await jobs.getByText('No jobs match these filters.').waitFor();
  await jobs.getByRole('searchbox', { name: 'Filter' }).fill('');
  // If the server refuses, they stay selected.
  await jobs
    .getByRole('row', { name: /no ink/ })
    .getByRole('checkbox')
    .check();
  const problem = { code: 'busy', detail: 'The database is busy.' };
  await page.route('**/operations/retry-jobs', (route) => route.fulfill({ status: 503, json: problem }));
  await button(page, 'Retry 1 selected').click();
  await jobs.getByText('The database is busy.').waitFor();
  await page.unroute('**/operations/retry-jobs');
  await button(page, 'Retry 1 selected').click();
  await jobs.getByText(`Job ${ids[2]} is available again`).waitFor();
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('503')),
    [],
  );
  await context.close();
});

test('a queue is paused and resumed, once it is confirmed', { skip }, async () => {
  await ended('hello');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/operations`);
  const queue = page.locator('#queues').getByRole('row', { name: /^default/ });
  await queue.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog', { name: 'Pause the queue default?' }).waitFor();
  await accessible(page, 'the confirmation of a pause');
  await agree(page, 'Pause');
  await queue.getByText('Paused').waitFor();
  await page.getByText('Paused: default.').waitFor();
  const problem = { code: 'shared_queue', detail: 'other projects use the queue, too' };
  await page.route('**/queues/default/resume', (route) => route.fulfill({ status: 409, json: problem }));
  await queue.getByRole('button', { name: 'Resume' }).click();
  await page.locator('#queues').getByText('other projects use the queue, too').waitFor();
  await page.unroute('**/queues/default/resume');
  await queue.getByRole('button', { name: 'Resume' }).click();
  await queue.getByRole('button', { name: 'Pause' }).waitFor();
  await ended('hello again');
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('409')),
    [],
  );
  await context.close();
});

test('all dead letter jobs of a kind are retried, also those that are not listed', { skip }, async () => {
  deadJobs(dev, 'scan', 'no light', 60);
  const other = deadJob(dev, 'mail', 'no stamp');
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/operations`);
  const jobs = page.locator('#dead-jobs');
  await jobs.getByText(/^The newest 50 of \d+ are listed/).waitFor();
  await select(page, 'Kind').selectOption('scan');
  await button(page, 'Retry all that match (60)').click();
  await agree(page, 'Retry 60 jobs');
  await jobs.getByText('60 jobs are available again.').waitFor();
  await jobs.getByRole('row', { name: new RegExp(`mail ${other}`) }).waitFor();
  await eventually(async () => assert.equal(await jobs.getByRole('row', { name: /no light/ }).count(), 0));
  assert.deepEqual(faults, []);
  await context.close();
});

test('the list of runs is accessible, light and dark, and as narrow as a phone', { skip }, async () => {
  await ended('refuse this');
  for (const colorScheme of ['light', 'dark']) {
    const { context, page } = await signedIn(browser, dev, { bypassCSP: true, colorScheme });
    await page.goto(`${dev.url}/runs?period=custom`);
    await page.getByRole('table').waitFor();
    await accessible(page, `runs, ${colorScheme}`);
    for (const width of [1280, 640, 320]) {
      await page.setViewportSize({ width, height: 800 });
      const overflow = await page.evaluate(
        () => document.querySelector('#main').scrollWidth - document.querySelector('#main').clientWidth,
      );
      assert.ok(overflow <= 0, `nothing sticks out at ${width}`);
    }
    await context.close();
  }
});
