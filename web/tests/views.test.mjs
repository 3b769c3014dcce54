// What all views share: titles, what is not there, lists of chats; and the settings of prompts. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

const NOWHERE = '00000000-0000-4000-8000-000000000000';
const field = (page) => page.getByRole('textbox', { name: 'Message', exact: true });
const chats = (page) => page.getByRole('navigation', { name: 'Chats' });

async function chat(title) {
  const made = await dev.api('/api/conversations', { method: 'POST', body: { title } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.id;
}

test('chats are searched on the server, by titles and messages, and a search without hits says so', {
  skip,
}, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a needle in a haystack');
  await finished(page);
  const id = page.url().split('/c/')[1];
  await dev.api(`/api/conversations/${id}`, { method: 'PATCH', body: { title: 'Renamed' } });
  // It is behind pages that are not loaded yet.
  for (let nth = 0; nth < 60; nth += 1) await chat(`hay ${nth}`);
  await page.goto(dev.url);
  await chats(page).getByRole('link', { name: 'hay 59' }).waitFor();
  await eventually(async () => assert.equal(await chats(page).getByRole('link', { name: 'Renamed' }).count(), 0));
  const search = chats(page).getByRole('searchbox', { name: 'Search chats' });
  await search.fill('NEEDLE');
  await chats(page).getByRole('region', { name: 'Chats' }).getByRole('link', { name: 'Renamed' }).waitFor();
  await chats(page).getByRole('link', { name: 'hay 59' }).waitFor({ state: 'detached' });
  await search.fill('nowhere at all');
  await chats(page).getByText('No chats match “nowhere at all”.').waitFor();
  await search.fill('');
  await chats(page).getByRole('link', { name: 'hay 59' }).waitFor();
  await context.close();
});

test('a name is stored when its field is left, and Escape leaves it as it was', { skip }, async () => {
  const id = await chat('An old name');
  const { context, page } = await signedIn(browser, dev);
  const rename = async (name) => {
    await chats(page).getByRole('link', { name }).hover();
    await chats(page)
      .getByRole('button', { name: `Actions for ${name}` })
      .click();
    await page.getByRole('menuitem', { name: 'Rename' }).click();
    return chats(page).getByRole('textbox', { name: 'New name' });
  };
  await (await rename('An old name')).fill('A new name');
  await field(page).click();
  await until('it is stored', async () => (await dev.api(`/api/conversations/${id}`)).body.title === 'A new name');
  const again = await rename('A new name');
  await again.fill('Another');
  await again.press('Escape');
  await chats(page).getByRole('link', { name: 'A new name' }).waitFor();
  await eventually(async () => assert.equal((await dev.api(`/api/conversations/${id}`)).body.title, 'A new name'));
  // After a deletion the focus is still among the chats.
  await chats(page).getByRole('link', { name: 'A new name' }).hover();
  await chats(page).getByRole('button', { name: 'Actions for A new name' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('dialog', { name: 'Delete “A new name”?' }).getByRole('button', { name: 'Delete chat' }).click();
  await chats(page).getByRole('link', { name: 'A new name' }).waitFor({ state: 'detached' });
  await eventually(async () =>
    assert.ok(await chats(page).evaluate((element) => element.contains(document.activeElement))),
  );
  await context.close();
});

test('a title is listed without the text of files, as wide as the list', { skip }, async () => {
  const title = 'Read these long and winding notes of mine File `notes.md`: ``` # Notes';
  await chat(title);
  const { context, page } = await signedIn(browser, dev);
  const link = chats(page).getByRole('link', { name: 'Read these long and winding notes of mine' });
  await link.waitFor();
  await eventually(async () => assert.doesNotMatch(await link.innerText(), /File/));
  const [outer, inner] = await Promise.all([chats(page).locator('ul').first().boundingBox(), link.boundingBox()]);
  assert.ok(inner.width > outer.width - 2, JSON.stringify({ outer, inner }));
  await context.close();
});

test('what is missing is an error within the page, and requested once', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.clock.install();
  const asked = [];
  page.on('request', (request) => {
    if (request.url().includes(NOWHERE) && request.url().includes('/api/')) asked.push(request.url());
  });
  for (const [path, heading] of [
    ['/nope', 'This page was not found'],
    [`/c/${NOWHERE}`, 'This chat was not found'],
    [`/runs/${NOWHERE}`, 'This run was not found'],
    [`/tasks/${NOWHERE}`, 'This task graph was not found'],
    [`/evaluations/${NOWHERE}`, 'This evaluation set was not found'],
    [`/evaluations/${NOWHERE}/${NOWHERE}`, 'This evaluation was not found'],
  ]) {
    asked.length = 0;
    await page.goto(dev.url + path);
    const main = page.locator('main#main');
    await main.getByRole('heading', { level: 1, name: heading }).waitFor();
    await eventually(async () => assert.equal(await field(page).count(), 0, `${path}: there is nothing to write to`));
    await eventually(async () => assert.equal(await page.title(), `${heading} · Rejoin`));
    const count = asked.length;
    if (path.startsWith('/c/')) continue;
    // Longer than both views take between two looks at what is there.
    await page.clock.runFor(10_000);
    assert.equal(asked.length, count, `${path} is asked for again and again: ${asked.join(' ')}`);
  }
  await context.close();
});

test('each view has its own title', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await eventually(async () => assert.equal(await page.title(), 'New chat · Rejoin'));
  for (const [path, title] of [
    ['/runs', 'Runs'],
    ['/tasks', 'Workflows'],
    ['/graph?q=libssl3', 'Knowledge graph: libssl3'],
    ['/work', 'Projects'],
    ['/calendar', 'Calendar'],
    ['/operations', 'Operations'],
    ['/agents', 'Agents'],
    ['/evaluations', 'Evaluations'],
    ['/settings?part=agents', 'Agents'],
    ['/settings?part=programs', 'Tools and MCP'],
    ['/settings?part=members', 'Members: Settings'],
  ]) {
    await page.goto(dev.url + path);
    await page.waitForFunction((title) => document.title === title, `${title} · Rejoin`);
  }
  await page.goto(dev.url);
  await ask(page, 'what is in a title?');
  await finished(page);
  await page.waitForFunction(() => document.title === 'what is in a title? · Rejoin');
  await context.close();
});

test('a graph without an embedding model is searched once, and says why', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/graph?q=libssl3`);
  await page.getByRole('region', { name: 'By keyword' }).getByRole('link', { name: 'libssl3' }).first().waitFor();
  await eventually(async () => assert.equal(await page.getByRole('region', { name: /^By / }).count(), 1));
  await eventually(async () => assert.equal(await page.locator('.note').count(), 1));
  await context.close();
});

test('a telephone shows no keyboard by itself, and nothing sticks out', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, {
    viewport: { width: 390, height: 800 },
    hasTouch: true,
    isMobile: true,
  });
  await eventually(async () => assert.notEqual(await page.evaluate(() => document.activeElement?.id), 'words'));
  await ask(page, 'hello');
  await finished(page);
  for (const path of ['/runs', '/settings?part=usage']) {
    await page.goto(dev.url + path);
    await page.locator('#main table').first().waitFor();
    await eventually(async () =>
      assert.equal(await page.evaluate(() => document.querySelector('#main').scrollWidth), 390, path),
    );
  }
  await context.close();
});

// Requirements: D47, D50.
test('an admin sets the prompt of all agents, and the preferred agent', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/settings?part=prompts`);
  await page.getByRole('textbox', { name: 'For everyone in the project' }).fill('Be brief.');
  await page.getByRole('textbox', { name: 'For your own chats' }).fill('Call me Ishmael.');
  await page.locator('section').filter({ hasText: 'Custom prompts' }).getByRole('button', { name: 'Save' }).click();
  await until(
    'they are stored',
    async () => (await dev.api(`/api/workspaces/${dev.projectId}/custom-prompt`)).body.userPrompt !== '',
  );
  await eventually(async () =>
    assert.deepEqual((await dev.api(`/api/workspaces/${dev.projectId}/custom-prompt`)).body, {
      customPrompt: 'Be brief.',
      userPrompt: 'Call me Ishmael.',
    }),
  );
  const routing = page.locator('section').filter({ hasText: 'Routing' });
  await routing.getByLabel('Preferred agent').selectOption({ index: 1 });
  const preferred = await routing.getByLabel('Preferred agent').inputValue();
  await routing.getByLabel('Share of new chats to route (%)').fill('25');
  await routing.getByRole('button', { name: 'Save' }).click();
  const path = `/api/admin/projects/${dev.projectId}/routing`;
  await until('it is stored', async () => (await dev.api(path)).body.percent === 25);
  await eventually(async () => assert.equal((await dev.api(path)).body.preferredAgent, preferred));
  await page.reload();
  await until('it is shown', async () => (await routing.getByLabel('Preferred agent').inputValue()) === preferred);
  await eventually(async () =>
    assert.equal(await page.getByRole('textbox', { name: 'For your own chats' }).inputValue(), 'Call me Ishmael.'),
  );
  await context.close();
});
