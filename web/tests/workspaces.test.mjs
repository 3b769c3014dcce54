// Users of several workspaces switch between them. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';
import { another } from './support/users.mjs';

const { dev, browser } = await stage();

/** The menu of workspaces; there is one if the session can go on in another workspace. */
const switcher = (page, name = '') => page.getByRole('button', { name: new RegExp(`^Workspace:\\s*${name}`) });
const choice = (page, name) => page.getByRole('menuitemradio', { name: new RegExp(`^${name}`) });
const chat = (page, name) => page.getByRole('navigation', { name: 'Chats' }).getByRole('link', { name, exact: true });
const me = (page) => page.evaluate(async () => (await fetch('/api/me')).json());
const isFocused = (locator) => locator.evaluate((element) => element === document.activeElement);

async function createChat({ url, apiKey }, title) {
  const made = await fetch(`${url}/api/conversations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ title }),
  });
  assert.equal(made.status, 201);
}

/**
 * A user of the demo's workspace and of `there`, of which the user is the owner, with a chat in each: a key of the first, of the second, and of
 * both, which signs in to the first.
 */
async function ofTwo(handle, there) {
  const first = another(dev, handle);
  const second = another(dev, handle, { project: there, scopes: 'read,write,admin' });
  await createChat(first, `${handle} in demo`);
  await createChat(second, `${handle} elsewhere`);
  return { first, second, both: another(dev, handle, { isForAll: true }) };
}

test('a user of two workspaces switches to the other one, and back', { skip }, async () => {
  const { first, second, both } = await ofTwo('wanda', 'wandas');
  const { context, page, faults } = await signedIn(browser, both, { bypassCSP: true });
  await chat(page, 'wanda in demo').waitFor();
  await switcher(page, 'demo').click();
  await eventually(async () =>
    assert.deepEqual(
      await page
        .getByRole('menuitemradio')
        .evaluateAll((items) => items.map((item) => [item.innerText.split(/\s+/), item.getAttribute('aria-checked')])),
      [
        [['demo', 'member'], 'true'],
        [['wandas', 'owner'], 'false'],
      ],
    ),
  );
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the menu of workspaces, ${colorScheme}`);
  }
  await choice(page, 'wandas').click();
  await switcher(page, 'wandas').waitFor();
  await chat(page, 'wanda elsewhere').waitFor();
  await eventually(async () => assert.equal(await chat(page, 'wanda in demo').count(), 0));
  await eventually(async () => {
    const { projectId, role } = await me(page);
    assert.deepEqual({ projectId, role }, { projectId: second.projectId, role: 'owner' });
  });
  assert.equal(new URL(page.url()).pathname, '/');
  await page.reload();
  await switcher(page, 'wandas').waitFor();
  // Back by the palette.
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search views' }).waitFor();
  await page.keyboard.type('switch to');
  const commands = page.getByRole('dialog', { name: 'Search and commands' });
  await commands.getByRole('option', { name: 'Switch to demo' }).click();
  await switcher(page, 'demo').waitFor();
  await chat(page, 'wanda in demo').waitFor();
  await eventually(async () => assert.equal((await me(page)).projectId, first.projectId));
  assert.deepEqual(faults, []);
  await context.close();
});

test('a switch by keys alone', { skip }, async () => {
  const { both } = await ofTwo('walter', 'walters');
  const { context, page } = await signedIn(browser, both);
  await switcher(page, 'demo').waitFor();
  await page.getByRole('button', { name: 'Hide sidebar' }).focus();
  await page.keyboard.press('Tab');
  await eventually(async () => assert.ok(await isFocused(switcher(page, 'demo'))));
  await page.keyboard.press('Enter');
  await eventually(async () => assert.ok(await isFocused(choice(page, 'demo'))));
  // The current one changes nothing.
  await page.keyboard.press('Enter');
  await eventually(async () => assert.ok(await isFocused(switcher(page, 'demo'))));
  await page.keyboard.press('Enter');
  await eventually(async () => assert.ok(await isFocused(choice(page, 'demo'))));
  await page.keyboard.press('ArrowDown');
  await eventually(async () => assert.ok(await isFocused(choice(page, 'walters'))));
  await page.keyboard.press('Enter');
  await switcher(page, 'walters').waitFor();
  await chat(page, 'walter elsewhere').waitFor();
  await context.close();
});

test('all tabs of a browser go along, and unsaved changes are asked about first', { skip }, async () => {
  const handle = 'wilma';
  another(dev, handle, { scopes: 'read,write,admin' });
  await createChat(another(dev, handle, { project: 'wilmas', scopes: 'read,write,admin' }), 'wilma elsewhere');
  const both = another(dev, handle, { scopes: 'read,write,admin', isForAll: true });
  const { context, page } = await signedIn(browser, both);
  const other = await context.newPage();
  await other.goto(dev.url);
  await switcher(other, 'demo').waitFor();
  await page.goto(`${dev.url}/agents?agent=new`);
  const field = page.getByLabel('Name', { exact: true });
  await field.fill('half an agent');
  await switcher(page, 'demo').click();
  await choice(page, 'wilmas').click();
  const question = page.getByRole('dialog', { name: 'Discard unsaved changes?' });
  await question.getByRole('button', { name: 'Cancel' }).click();
  await question.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await me(page)).projectId, dev.projectId));
  await eventually(async () => assert.equal(await field.inputValue(), 'half an agent'));
  await switcher(page, 'demo').click();
  await choice(page, 'wilmas').click();
  await agree(page, 'Discard changes');
  for (const one of [page, other]) {
    await switcher(one, 'wilmas').waitFor();
    await chat(one, 'wilma elsewhere').waitFor();
  }
  await context.close();
});

test('a session that stays in its workspace has its name, and no menu', { skip }, async () => {
  // The user of one workspace, and a user of two who has signed in with a key of one.
  for (const user of [dev, (await ofTwo('wendy', 'wendys')).first]) {
    const { context, page } = await signedIn(browser, user);
    const shown = page.getByRole('complementary', { name: 'Sidebar' }).getByText('demo', { exact: true });
    await shown.first().waitFor();
    await eventually(async () => assert.equal(await switcher(page).count(), 0));
    await page.keyboard.press('Control+k');
    const commands = page.getByRole('dialog', { name: 'Search and commands' });
    await commands.getByRole('combobox').fill('switch to');
    await commands.getByText('No results for').waitFor();
    await context.close();
  }
});

test('a switch that is refused is explained, and the page stays', { skip }, async () => {
  const { second, both } = await ofTwo('wolf', 'wolfs');
  const { context, page } = await signedIn(browser, both);
  await switcher(page, 'demo').click();
  await choice(page, 'wolfs').waitFor();
  await page.route('**/api/session/project', (route) =>
    route.fulfill({
      status: 404,
      contentType: 'application/problem+json',
      json: { status: 404, code: 'project_not_found', detail: 'The project was not found' },
    }),
  );
  await choice(page, 'wolfs').click();
  await page.getByText('The project was not found').waitFor();
  await switcher(page, 'demo').waitFor();
  await eventually(async () => assert.notEqual((await me(page)).projectId, second.projectId));
  await context.close();
});
