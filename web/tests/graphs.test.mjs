// Diagrams of workflows and of the knowledge graph, boards and tasks. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildSync } from 'esbuild';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage(() => ({ text: 'Done.', paceMs: 0 }), {});
if (!skip) await dev.agent('worker', []);
const BERLIN = { timezoneId: 'Europe/Berlin' };
const ofProject = (path) => `/api/projects/${dev.projectId}${path}`;

async function posted(path, body) {
  const answer = await dev.api(path, { method: 'POST', body });
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
  return answer.body;
}

const LONG = 14;
/** A chain of tasks that is wider than any screen. */
async function chain() {
  const tasks = Array.from({ length: LONG }, (_, nth) => ({
    id: `t${nth + 1}`,
    title: `Step ${nth + 1}`,
    agent: 'worker',
    after: nth === 0 ? [] : [`t${nth}`],
  }));
  return (await posted(ofProject('/task-dags'), { name: 'A long chain', tasks })).id;
}

test('a graph is laid out from left to right, without overlaps, also a very large one', async () => {
  const { outputFiles } = buildSync({
    entryPoints: [`${import.meta.dirname}/../src/ui/diagram/layout.ts`],
    bundle: true,
    format: 'esm',
    write: false,
  });
  const { layoutOf } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
  const sizes = { width: 100, height: 40, gapX: 50, gapY: 10 };
  for (const count of [40, 2_000]) {
    const ids = Array.from({ length: count }, (_, nth) => `node ${nth}`);
    const lines = ids.slice(1).map((to, nth) => ({ from: ids[nth - (nth % 7)], to }));
    const { places, width, height, path } = layoutOf(ids, lines, sizes);
    for (const { from, to } of lines) assert.ok(places.get(from).x + sizes.width < places.get(to).x, `${from}, ${to}`);
    const corners = [...places.values()].map(({ x, y }) => `${Math.round(x)} ${Math.round(y)}`);
    assert.equal(new Set(corners).size, count, 'each has its own place');
    assert.ok([...places.values()].every(({ x, y }) => x > -1 && y > -1 && x < width && y < height));
    assert.match(path(lines[0]), /^M[\d.]+ [\d.]+ C/);
  }
  // Circles are laid out, too.
  for (const more of [[], Array.from({ length: 700 }, (_, nth) => `more ${nth}`)]) {
    const circle = [
      { from: 'a', to: 'b' },
      { from: 'b', to: 'c' },
      { from: 'c', to: 'a' },
      { from: 'a', to: 'a' },
    ];
    const { places, path } = layoutOf(['a', 'b', 'c', ...more], circle, sizes);
    assert.equal(new Set(['a', 'b', 'c'].map((id) => JSON.stringify(places.get(id)))).size, 3);
    assert.deepEqual(
      circle.map((line) => path(line) !== ''),
      [true, true, true, false],
    );
  }
});

const focused = (page) => page.evaluate(() => document.activeElement?.textContent ?? '');
const widthOf = async (locator) => (await locator.boundingBox()).width;

test('a large diagram is zoomed by keys, wheel and buttons, walked by arrow keys, and has a minimap', {
  skip,
}, async () => {
  const id = await chain();
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/tasks/${id}`);
  const step = (nth) => page.locator('.task').filter({ hasText: new RegExp(`^Step ${nth}\\D`) });
  await step(LONG).waitFor({ state: 'attached' });
  await page.locator('.minimap').waitFor();
  await eventually(async () =>
    assert.equal(await page.locator('.task[tabindex="0"]').count(), 1, 'one stop of the Tab key'),
  );
  const picture = page.getByRole('group', { name: 'Tasks and their dependencies', exact: true });
  await step(1).focus();
  for (let nth = 0; nth < 3; nth += 1) await page.keyboard.press('ArrowRight');
  await until('the fourth step has the focus', async () => (await focused(page)).startsWith('Step 4'));
  await page.keyboard.press('ArrowLeft');
  await until('the third step has the focus', async () => (await focused(page)).startsWith('Step 3'));
  const width = await widthOf(step(3));
  await page.keyboard.press('+');
  await until('it is larger', async () => (await widthOf(step(3))) > 1.1 * width);
  await page.keyboard.press('-');
  await until('it is as large as before', async () => Math.abs((await widthOf(step(3))) - width) < 1);
  await step(3).hover();
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, 100);
  await until('the wheel makes it smaller', async () => (await widthOf(step(3))) < 0.9 * width);
  await page.keyboard.up('Control');
  await step(3).focus();
  await page.keyboard.press('0');
  await until('all of it is seen', async () => {
    const [outer, first, last] = await Promise.all([picture, step(1), step(LONG)].map((one) => one.boundingBox()));
    return first.x >= outer.x && last.x + last.width <= outer.x + outer.width + 1;
  });
  await page.locator('.minimap').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Zoom in' }).click();
  for (let nth = 0; nth < 5; nth += 1) await page.getByRole('button', { name: 'Zoom in' }).click();
  const map = page.locator('.minimap');
  await map.waitFor();
  const { x, y, width: mapWidth, height: mapHeight } = await map.boundingBox();
  const left = () => picture.evaluate((element) => element.scrollLeft);
  await page.mouse.click(x + mapWidth - 2, y + mapHeight / 2);
  await until('the end is seen', async () => {
    const [outer, last] = await Promise.all([picture.boundingBox(), step(LONG).boundingBox()]);
    return last.x + last.width <= outer.x + outer.width;
  });
  // The ground is dragged.
  const before = await left();
  const outer = await picture.boundingBox();
  await page.mouse.move(outer.x + 200, outer.y + 5);
  await page.mouse.down();
  await page.mouse.move(outer.x + 320, outer.y + 5, { steps: 4 });
  await page.mouse.up();
  await until('it was dragged', async () => (await left()) < before - 100);
  assert.deepEqual(faults, []);
  await context.close();
});

test('two fingers zoom a diagram', { skip }, async () => {
  const id = await chain();
  const { context, page } = await signedIn(browser, dev, { hasTouch: true, viewport: { width: 800, height: 900 } });
  await page.goto(`${dev.url}/tasks/${id}`);
  const first = page.locator('.task').first();
  await first.waitFor();
  const width = await widthOf(first);
  const { x, y } = await first.boundingBox();
  const touches = await context.newCDPSession(page);
  const touch = (type, ...xs) =>
    touches.send('Input.dispatchTouchEvent', {
      type,
      touchPoints: xs.map((by, id) => ({ x: x + by, y: y + 10, id })),
    });
  await touch('touchStart', 40, 60);
  await touch('touchMove', 30, 80);
  await touch('touchMove', 20, 100);
  await touch('touchEnd');
  await until('it is larger', async () => (await widthOf(first)) > 1.3 * width);
  await context.close();
});

test('the knowledge graph has colours by type, hides relationships, and is expanded', { skip }, async () => {
  const object = async (type, name) =>
    (await posted(ofProject('/graph/objects'), { type, name, key: `diagram-${name}` })).id;
  const [engine, wheel, rim, driver] = [
    await object('Part', 'Engine'),
    await object('Part', 'Wheel'),
    await object('Part', 'Rim'),
    await object('Human', 'Driver'),
  ];
  for (const [type, sourceId, targetId] of [
    ['turns', engine, wheel],
    ['has_rim', wheel, rim],
    ['starts', driver, engine],
  ])
    await posted(ofProject('/graph/relationships'), { type, sourceId, targetId });
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/graph/${engine}`);
  const around = page.getByRole('group', { name: 'Related objects', exact: true });
  const node = (name) => around.getByRole('link', { name: new RegExp(`^${name} `) });
  await node('Wheel').waitFor();
  await page.getByText('3 objects').waitFor();
  const legend = page.getByRole('list', { name: 'Types of objects' });
  await eventually(async () => assert.deepEqual(await legend.getByRole('listitem').allInnerTexts(), ['Part', 'Human']));
  // Incoming on the left, outgoing on the right.
  const [left, middle, right] = await Promise.all(
    ['Driver', 'Engine', 'Wheel'].map(async (name) => (await node(name).boundingBox()).x),
  );
  assert.ok(left < middle && middle < right, JSON.stringify({ left, middle, right }));
  await node('Engine').focus();
  await page.keyboard.press('ArrowLeft');
  await until('the driver has the focus', async () => (await focused(page)).startsWith('Driver'));
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(() => document.activeElement?.blur());
    await accessible(page, `the graph, ${colorScheme}`);
  }
  await page.getByRole('checkbox', { name: 'starts' }).uncheck();
  await node('Driver').waitFor({ state: 'detached' });
  await page.getByRole('checkbox', { name: 'starts' }).check();
  await node('Driver').waitFor();
  await around.getByRole('button', { name: 'Expand Wheel' }).click();
  await node('Rim').waitFor();
  await page.getByText('4 objects').waitFor();
  await around.getByRole('button', { name: 'Collapse Wheel' }).press('Enter');
  await node('Rim').waitFor({ state: 'detached' });
  await until('the focus stays', () =>
    page.evaluate(() => document.activeElement?.getAttribute('aria-label') === 'Expand Wheel'),
  );
  // A refusal is shown, and the diagram stays.
  await page.route(`**/graph/objects/${driver}/edges*`, (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: '{"code":"forbidden","detail":"not for you"}',
    }),
  );
  assert.deepEqual(faults, []);
  await around.getByRole('button', { name: 'Expand Driver' }).click();
  await page.getByRole('alert').getByText('not for you (forbidden)').waitFor();
  await node('Wheel').press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Wheel' }).waitFor();
  await context.close();
});

/** Makes a project with tasks; its id, and theirs. */
async function project(name, entities, relationships = []) {
  const { project, ids } = await posted('/api/onto/projects/instantiate', {
    project: { name },
    entities: entities.map((title, nth) => ({ tempId: `t${nth}`, kind: 'task', title })),
    relationships,
  });
  return { id: project.id, ...ids };
}

const stored = async (id) => (await dev.api(`/api/onto/tasks/${id}`)).body;

test('a card whose move is refused goes back, with the reason', { skip }, async () => {
  const { id, t0 } = await project('Refused moves', ['Paint']);
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/work/${id}`);
  const column = (name) => page.getByRole('region', { name, exact: true });
  await column('To do').getByText('Paint').waitFor();
  await page.route(`**/api/onto/tasks/${t0}`, (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: '{"code":"forbidden","detail":"not for you"}',
    }),
  );
  await page.getByRole('link', { name: 'Paint', exact: true }).dragTo(column('Done'));
  await page.getByRole('alert').getByText('“Paint” was not moved: not for you (forbidden).').waitFor();
  await column('To do').getByText('Paint').waitFor();
  await eventually(async () => assert.equal((await stored(t0)).stateKey, 'todo'));
  await context.close();
});

test('a task has a page, where all of it is changed', { skip }, async () => {
  const { id, t0 } = await project('Boat', ['Scrape', 'Varnish'], [{ type: 'depends_on', source: 't0', target: 't1' }]);
  const { context, page, faults } = await signedIn(browser, dev, { ...BERLIN, bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}`);
  await page.getByRole('link', { name: 'Scrape', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Scrape' }).waitFor();
  await page.getByRole('link', { name: 'Varnish' }).waitFor();
  await page.getByLabel('Title').fill('Scrape the hull');
  await page.getByLabel('Description (Markdown)').fill('With **care**');
  await page.getByRole('combobox', { name: 'State', exact: true }).selectOption('in_progress');
  await page.getByRole('combobox', { name: 'Priority' }).selectOption('2');
  await page.getByLabel('Due date').fill('2026-07-01');
  await page.getByLabel('Assignee').fill('Ada');
  await page.getByLabel(/^Labels/).fill('hull, outside, hull');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.', { exact: true }).waitFor();
  await page.getByRole('heading', { level: 1, name: 'Scrape the hull' }).waitFor();
  const { name, stateKey, properties } = await stored(t0);
  assert.deepEqual(
    [name, stateKey, properties.description, properties.priority],
    ['Scrape the hull', 'in_progress', 'With **care**', 2],
  );
  assert.deepEqual(properties.props, { assignee: 'Ada', labels: ['hull', 'outside'] });
  assert.equal(Date.parse(properties.due_at), Date.parse('2026-07-01T23:59:00+02:00'));
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `a task, ${colorScheme}`);
  }
  assert.deepEqual(faults, []);
  // Another user changes it: what was typed stays, and is saved over the new version.
  await dev.api(`/api/onto/tasks/${t0}`, { method: 'PATCH', body: { priority: 1 } });
  await page.getByLabel('Assignee').fill('Grace');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').getByText('another user changed the task').waitFor();
  await eventually(async () => assert.equal(await page.getByLabel('Assignee').inputValue(), 'Grace'));
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.', { exact: true }).waitFor();
  const now = (await stored(t0)).properties;
  assert.deepEqual([now.priority, now.props], [1, { assignee: 'Grace', labels: ['hull', 'outside'] }]);
  await eventually(async () => assert.equal(await page.getByRole('combobox', { name: 'Priority' }).inputValue(), '1'));
  // The board shows it, and suggests who has tasks.
  await page.getByRole('link', { name: 'Board of Boat' }).click();
  const card = page.locator('.card').filter({ hasText: 'Scrape the hull' });
  await card.getByText('Grace').waitFor();
  await card.getByText('outside').waitFor();
  await page.getByRole('link', { name: 'Scrape the hull' }).click();
  await page.getByRole('button', { name: 'Delete task' }).click();
  await agree(page, 'Delete task');
  await page.waitForURL(new RegExp(`/work/${id}$`));
  await page.getByRole('link', { name: 'Varnish' }).waitFor();
  await eventually(async () => assert.equal((await dev.api(`/api/onto/tasks/${t0}`)).status, 404));
  await page.goto(`${dev.url}/work/${id}/tasks/${t0}`);
  await page.getByRole('heading', { name: 'This task was not found' }).waitFor();
  await context.close();
});

test('who may only read sees a task, and no form', { skip }, async () => {
  const { id, t0 } = await project('Look only', ['Watch']);
  const { key } = await posted(`/api/admin/projects/${dev.projectId}/keys`, { name: 'reader', scopes: ['read'] });
  const { context, page, faults } = await signedIn(browser, { ...dev, apiKey: key }, { bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}/tasks/${t0}`);
  await page.getByText('Your key is read-only. Changing tasks').waitFor();
  await eventually(async () => assert.equal(await page.locator('#main').getByRole('button').count(), 0));
  await accessible(page, 'a task to read');
  assert.deepEqual(faults, []);
  await context.close();
});

test('a project is renamed and deleted, with its tasks', { skip }, async () => {
  const { id, t0 } = await project('Old name', ['Sweep']);
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}`);
  await page.getByRole('button', { name: 'Rename project' }).click();
  const rename = page.getByRole('dialog', { name: 'Rename project' });
  await eventually(async () => assert.equal(await rename.getByLabel('Name').inputValue(), 'Old name'));
  await accessible(page, 'the new name of a project');
  // Another user renames it first.
  await dev.api(`/api/onto/projects/${id}`, { method: 'PATCH', body: { name: 'Their name' } });
  await rename.getByLabel('Name').fill('New name');
  await rename.getByRole('button', { name: 'Save' }).click();
  await rename.getByRole('alert').getByText('another user changed it').waitFor();
  await rename.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'New name' }).waitFor();
  await rename.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await dev.api(`/api/onto/projects/${id}`)).body.name, 'New name'));
  await page.getByRole('button', { name: 'Delete project' }).click();
  await page.getByRole('dialog').getByText('Its tasks, documents, plans and goals are deleted too.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Delete project' }).click();
  await agree(page, 'Delete project');
  await page.waitForURL(/\/work$/);
  await page.getByText('Deleted “New name”.').waitFor();
  await eventually(async () => assert.equal((await dev.api(`/api/onto/projects/${id}`)).status, 404));
  await eventually(async () => assert.equal((await dev.api(`/api/onto/tasks/${t0}`)).status, 404));
  await context.close();
});
