// Projects of the work graph as boards, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

/** Makes a project; its id, and those of what it begins with. */
async function made(name, entities = [], relationships = []) {
  const { status, body } = await dev.api('/api/onto/projects/instantiate', {
    method: 'POST',
    body: { project: { name }, entities, relationships },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return { id: body.project.id, ...body.ids };
}

const task = (tempId, title, fields = {}) => ({ tempId, kind: 'task', title, ...fields });
const link = (type, source, target) => ({ type, source, target });
const stored = async (id) => (await dev.api(`/api/onto/tasks/${id}`)).body;
const column = (page, name) => page.getByRole('region', { name, exact: true });
/** What stands in each column, from left to right. */
const shown = (page) =>
  page
    .locator('.column')
    .evaluateAll((columns) =>
      columns.map((one) => [...one.querySelectorAll('[data-part="title"]')].map((title) => title.innerText)),
    );
const is = (page, wanted) =>
  until(
    `the board shows ${JSON.stringify(wanted)}`,
    async () => JSON.stringify(await shown(page)) === JSON.stringify(wanted),
    15_000,
  ).catch(async () => assert.deepEqual(await shown(page), wanted));

test('a first project is made by its name, and tasks where they belong', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.getByRole('link', { name: 'Projects', exact: true }).click();
  await page.getByText('No projects yet').waitFor();
  await accessible(page, 'no project');
  await page.getByLabel('New project name').fill('Moving house');
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByRole('heading', { name: 'Moving house' }).waitFor();
  await page.getByText('No tasks yet').waitFor();
  await page.getByRole('button', { name: 'New task in Blocked' }).click();
  await page.keyboard.type('Find the keys');
  await page.keyboard.press('Enter');
  await column(page, 'Blocked').getByText('Find the keys').waitFor();
  // The field waits for the next one.
  await page.keyboard.type('Ask the landlord');
  await page.keyboard.press('Enter');
  await is(page, [[], [], ['Find the keys', 'Ask the landlord'], [], []]);
  await page.keyboard.press('Escape');
  await until('the button has the focus again', () =>
    page.evaluate(() => document.activeElement?.getAttribute('aria-label') === 'New task in Blocked'),
  );
  const { items } = (await dev.api('/api/onto/tasks?stateKey=blocked')).body;
  const { items: versions } = (await dev.api(`/api/onto/tasks/${items[0].id}/history`)).body;
  assert.equal(versions[0].changeSource, 'ui');
  await page.getByRole('link', { name: 'Find the keys' }).click();
  await page.getByRole('heading', { name: 'Find the keys' }).waitFor();
  assert.match(page.url(), /\/tasks\//);
  await page
    .getByRole('navigation', { name: 'Views', exact: true })
    .getByRole('link', { name: 'Projects', exact: true })
    .click();
  await page.getByRole('row', { name: /Moving house planning/ }).waitFor();
  await accessible(page, 'projects');
  assert.deepEqual(faults, []);
  await context.close();
});

test('tasks are moved by dragging, by keys and by their menu, and the focus goes along', { skip }, async () => {
  const { id, one, two } = await made('Moves', [task('one', 'One', { priority: 1 }), task('two', 'Two')]);
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['One', 'Two'], [], [], [], []]);
  await page.getByRole('link', { name: 'Two', exact: true }).dragTo(column(page, 'Done'));
  await is(page, [['One'], [], [], ['Two'], []]);
  await page.getByText('Moved “Two” to Done.').waitFor();
  await eventually(async () => assert.equal((await stored(two)).stateKey, 'done'));

  await page.getByRole('link', { name: 'One', exact: true }).focus();
  // Twice at once: the second is made of the version that the first one makes.
  await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Shift+ArrowRight');
  await page.getByText('Moved “One” to Blocked.').waitFor();
  await is(page, [[], [], ['One'], ['Two'], []]);
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await eventually(async () => assert.equal(await focused(), 'One'));
  await eventually(async () =>
    assert.deepEqual([(await stored(one)).stateKey, (await stored(one)).version], ['blocked', 3]),
  );
  await page.keyboard.press('ArrowRight');
  await eventually(async () => assert.equal(await focused(), 'Two'));
  await page.keyboard.press('ArrowLeft');
  await eventually(async () => assert.equal(await focused(), 'One'));

  const menu = page.getByLabel('State of Two');
  await menu.focus();
  await menu.selectOption('cancelled');
  await is(page, [[], [], ['One'], [], ['Two']]);
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'State of Two'),
  );
  await page.getByText('Moved “Two” to Cancelled.').waitFor();
  await page.reload();
  await is(page, [[], [], ['One'], [], ['Two']]);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a move of what somebody else has changed is undone, with the reason, and what they did is shown', {
  skip,
}, async () => {
  const { id, one } = await made('Conflicts', [task('one', 'Paint the door')]);
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['Paint the door'], [], [], [], []]);
  const { status } = await dev.api(`/api/onto/tasks/${one}`, {
    method: 'PATCH',
    body: { title: 'Paint the gate', stateKey: 'blocked' },
  });
  assert.equal(status, 200);
  // The answer is kept back, so that what is shown meanwhile can be looked at.
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  await page.route(`**/api/onto/tasks/${one}`, async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole('link', { name: 'Paint the door' }).focus();
  await page.keyboard.press('Shift+ArrowRight');
  await is(page, [[], ['Paint the door'], [], [], []]);
  release();
  await page
    .getByRole('alert')
    .getByText('“Paint the door” was not moved: someone else changed it in the meantime.')
    .waitFor();
  await is(page, [[], [], ['Paint the gate'], [], []]);
  await eventually(async () =>
    assert.equal(
      await page.evaluate(() => document.activeElement?.textContent),
      'Paint the gate',
      'the focus went along, there and back',
    ),
  );
  await accessible(page, 'a conflict');
  await eventually(async () => assert.equal((await stored(one)).stateKey, 'blocked'));
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  // And now it can be moved.
  await page.getByLabel('State of Paint the gate').selectOption('done');
  await is(page, [[], [], [], ['Paint the gate'], []]);
  await until('it is stored', async () => (await stored(one)).stateKey === 'done');
  await page.unroute(`**/api/onto/tasks/${one}`);
  await page.route(`**/api/onto/tasks/${one}`, (route) => route.abort());
  await page.getByLabel('State of Paint the gate').selectOption('todo');
  await page.getByRole('alert').getByText('the server did not respond. Try again.').waitFor();
  await is(page, [[], [], [], ['Paint the gate'], []]);
  await context.close();
});

test('a board is narrowed to a plan or a goal, and new tasks are put there', { skip }, async () => {
  const { id, plan, goal } = await made(
    'Garden',
    [
      { tempId: 'plan', kind: 'plan', name: 'Spring' },
      { tempId: 'goal', kind: 'goal', name: 'Vegetables' },
      task('dig', 'Dig'),
      task('sow', 'Sow', { dueAt: '2020-03-01T00:00:00Z' }),
      task('read', 'Read a book'),
      task('eat', 'Eat'),
    ],
    [
      link('in_plan', 'dig', 'plan'),
      link('in_plan', 'sow', 'plan'),
      link('supports_goal', 'plan', 'goal'),
      link('supports_goal', 'eat', 'goal'),
      link('depends_on', 'sow', 'dig'),
    ],
  );
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['Dig', 'Sow', 'Read a book', 'Eat'], [], [], [], []]);
  const sow = page.locator('.card').filter({ hasText: 'Sow' });
  await sow.getByText('waits for “Dig”').waitFor();
  await sow.getByText('was due 1 Mar 2020').waitFor();
  await page.getByRole('combobox', { name: 'Plan', exact: true }).selectOption('Spring');
  await is(page, [['Dig', 'Sow'], [], [], [], []]);
  assert.equal(new URL(page.url()).searchParams.get('plan'), plan);
  await page.getByRole('button', { name: 'New task in To do' }).click();
  await page.keyboard.type('Water');
  await page.keyboard.press('Enter');
  await is(page, [['Dig', 'Sow', 'Water'], [], [], [], []]);
  await page.getByRole('combobox', { name: 'Plan', exact: true }).selectOption('All');
  // What is in a plan that serves the goal serves it, too.
  await page.getByRole('combobox', { name: 'Goal', exact: true }).selectOption('Vegetables');
  await is(page, [['Dig', 'Sow', 'Eat', 'Water'], [], [], [], []]);
  await page.getByText('4 of 5 tasks').waitFor();
  assert.equal(new URL(page.url()).searchParams.get('goal'), goal);
  await page.reload();
  await is(page, [['Dig', 'Sow', 'Eat', 'Water'], [], [], [], []]);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 420]) {
      await page.setViewportSize({ width, height: 800 });
      await accessible(page, `a board, ${colorScheme}, ${width} wide`);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, `nothing sticks out at ${width}`);
      await page.getByRole('navigation', { name: 'Breadcrumbs' }).getByRole('link', { name: 'Projects' }).click();
      await page.getByRole('row', { name: /Garden/ }).waitFor();
      await accessible(page, `projects, ${colorScheme}, ${width} wide`);
      await page.getByRole('link', { name: 'Garden' }).click();
      await is(page, [['Dig', 'Sow', 'Read a book', 'Eat', 'Water'], [], [], [], []]);
    }
  }
  assert.deepEqual(faults, []);
  await context.close();
});

test('a board is filtered by words', { skip }, async () => {
  const { id } = await made('Words', [task('one', 'Sing a song'), task('two', 'Bake a cake')]);
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['Sing a song', 'Bake a cake'], [], [], [], []]);
  await page.getByRole('searchbox', { name: 'Filter tasks' }).fill('CAKE');
  await is(page, [['Bake a cake'], [], [], [], []]);
  await page.getByText('1 of 2 tasks').waitFor();
  await page.getByRole('searchbox', { name: 'Filter tasks' }).fill('tea');
  await page.getByText('No tasks match “tea”.').waitFor();
  await context.close();
});

test('who comes back to the window sees what others did meanwhile', { skip }, async () => {
  const { id, one } = await made('Others', [task('one', 'Sing')]);
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['Sing'], [], [], [], []]);
  await dev.api(`/api/onto/tasks/${one}`, { method: 'PATCH', body: { stateKey: 'done' } });
  await eventually(async () => assert.deepEqual(await shown(page), [['Sing'], [], [], [], []]));
  await page.evaluate(() => window.dispatchEvent(new Event('focus')));
  await is(page, [[], [], [], ['Sing'], []]);
  await context.close();
});

test('who may only read sees the board, and nothing that changes it', { skip }, async () => {
  const { id } = await made('Read only', [task('one', 'Look')]);
  const { body } = await dev.api(`/api/admin/projects/${dev.projectId}/keys`, {
    method: 'POST',
    body: { name: 'reader', scopes: ['read'] },
  });
  const { context, page, faults } = await signedIn(browser, { ...dev, apiKey: body.key }, { bypassCSP: true });
  await page.goto(`${dev.url}/work/${id}`);
  await is(page, [['Look'], [], [], [], []]);
  await page.getByText('Your key is read-only').waitFor();
  await eventually(async () => assert.equal(await page.locator('#main').getByRole('button').count(), 0));
  await eventually(async () => assert.equal(await page.getByLabel('State of Look').count(), 0));
  await page.getByRole('link', { name: 'Look' }).focus();
  await page.keyboard.press('Shift+ArrowRight');
  await eventually(async () => assert.deepEqual(await shown(page), [['Look'], [], [], [], []]));
  await accessible(page, 'a board to read');
  assert.deepEqual(faults, []);
  await context.close();
});

test('a missing project and a failing server are errors that say what to do', { skip }, async () => {
  const { id } = await made('Troubles', [task('one', 'Wait')]);
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/work/${crypto.randomUUID()}`);
  await page.getByText('It may have been deleted.').waitFor();
  const path = `**/api/onto/projects/${id}/graph`;
  await page.route(path, (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: '{"code":"forbidden","detail":"not for you"}',
    }),
  );
  await page.goto(`${dev.url}/work/${id}`);
  await page.getByRole('alert').getByText('not for you (forbidden)').waitFor();
  await page.unroute(path);
  await page.getByRole('button', { name: 'Retry' }).click();
  await is(page, [['Wait'], [], [], [], []]);
  await context.close();
});
