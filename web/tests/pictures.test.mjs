// Takes a screenshot of each view, light and dark. `npm run pictures` keeps them in target/pictures. docs/pictures has the few that documents
// show, and must have none that is no longer taken. The appearance depends on the machine's fonts, so only `npm run pictures:docs` replaces those.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ask, finished, launch, PROGRAM, signedIn } from './support/browser.mjs';
import { BINARY, startDev, until } from './support/dev.mjs';
import { noGoogle, startGoogle } from './support/google.mjs';
import { startModel } from './support/model.mjs';
import { skipWithout } from './support/needs.mjs';

const IN_DOCUMENTS = join(import.meta.dirname, '../../docs/pictures');
/** The folder to keep the screenshots in. Without it, they are deleted. */
const FOLDER = process.env.REJOIN_TEST_PICTURES;
const skip = skipWithout(BINARY && PROGRAM, 'REJOIN_TEST_BIN names no binary, or there is no Chromium') || noGoogle;

const VIEWPORT = { width: 1200, height: 750 };

const ANSWER = `**libssl3** is needed by three kinds of packages:

| kind | for example |
| --- | --- |
| programs | \`curl\`, \`openssh-client\` |
| libraries | \`libcurl4\`, \`libpq5\` |

\`\`\`sh
apt rdepends libssl3
\`\`\`
`;

function reply(messages) {
  const last = messages.at(-1);
  const asked = String(messages.findLast((message) => message.role === 'user')?.content);
  if (asked.includes('libssl3')) {
    return last.role === 'tool'
      ? { text: ANSWER, paceMs: 0 }
      : { tools: [{ name: 'search_entities', arguments: { query: 'libssl3', limit: 3 } }] };
  }
  return { text: 'Found what was asked for.', paceMs: 0 };
}

/** A project with tasks and documents, and a calendar; the ids of the project, of a document with two versions, and of the calendar. */
async function boardAndCalendar(dev) {
  const make = async (path, body) => {
    const made = await dev.api(path, { method: 'POST', body });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return made.body;
  };
  const calendar = await make('/api/calendars', { name: 'Work', timeZone: 'Europe/Berlin' });
  for (const event of [
    { title: 'Stand-up', start: '2026-11-02T09:00', end: '2026-11-02T09:15', rrule: 'FREQ=WEEKLY;BYDAY=MO,WE,FR' },
    { title: 'Conference', start: '2026-11-17', end: '2026-11-20', allDay: true, location: 'Lisbon' },
    { title: 'Call with Kyoto', start: '2026-11-24T17:00', timeZone: 'Asia/Tokyo', location: 'online' },
    { title: 'Review of the quarter', start: '2026-11-24T14:00', end: '2026-11-24T16:00', location: 'Room 3' },
    { title: 'Night train', start: '2026-11-26T22:00', end: '2026-11-28T07:00' },
  ]) {
    await make(`/api/calendars/${calendar.id}/events`, event);
  }
  const task = (tempId, title, fields = {}) => ({ tempId, kind: 'task', title, ...fields });
  const { project } = await make('/api/onto/projects/instantiate', {
    project: {
      name: 'Moving house',
      description: 'Out of the old flat by the end of the year, without losing a cat.',
      stateKey: 'active',
    },
    entities: [
      { tempId: 'packing', kind: 'plan', name: 'Packing' },
      task('van', 'Find a van', { priority: 1 }),
      task('books', 'Pack the books', { priority: 3 }),
      task('walls', 'Paint the walls', { priority: 2, stateKey: 'in_progress' }),
      task('keys', 'Hand over the keys'),
      task('floor', 'Ask the landlord about the floor', { stateKey: 'blocked' }),
      task('power', 'Tell the power company', { stateKey: 'done' }),
    ],
    relationships: [
      { type: 'in_plan', source: 'books', target: 'packing' },
      { type: 'depends_on', source: 'keys', target: 'walls' },
    ],
  });
  const document = (title, content, parentId) =>
    make('/api/onto/documents/create', { projectId: project.id, title, content, ...(parentId && { parentId }) });
  const checklist = await document(
    'Checklist',
    '# Before the van comes\n\n1. Empty the **cellar**\n2. Read the meters\n\n| room | who |\n| --- | --- |\n| kitchen | Anna |\n| cellar | Ben |\n',
  );
  await document('Kitchen', 'Plates go first.', checklist.id);
  await document('The lease', 'Ends with the year.');
  const { body: changed, status } = await dev.api(`/api/onto/documents/${checklist.id}`, {
    method: 'PATCH',
    body: {
      content:
        '# Before the van comes\n\n1. Empty the **cellar**\n2. Read the meters\n3. Catch the cat\n\n| room | who |\n| --- | --- |\n| kitchen | Anna |\n| cellar | Carla |\n',
      changeSummary: 'Carla helps',
    },
  });
  assert.equal(status, 200, JSON.stringify(changed));
  return { project: project.id, document: checklist.id, calendar: calendar.id };
}

/** The calendar and one of Google's are in sync; an event was changed on both sides, and a notice reports it. */
async function keptTheSame(dev, google, calendar) {
  const call = async (path, method, body) => {
    const { body: answer, status } = await dev.api(path, { method, body });
    assert.ok(status < 300, JSON.stringify(answer));
    return answer;
  };
  const link = `/api/calendars/${calendar}/google`;
  const over = () =>
    until('both are the same', async () => {
      const now = await call(link, 'GET');
      return now.syncedAt && !now.isSyncing && now.waiting === 0 && now;
    });
  const { url } = await call(link, 'POST', {});
  const back = new URL((await fetch(url, { redirect: 'manual' })).headers.get('location')).searchParams;
  await call('/api/google/consents', 'POST', { state: back.get('state'), code: back.get('code') });
  const chosen = 'team@group.calendar.google.com';
  await call(link, 'PUT', { googleCalendarId: chosen });
  await over();
  const there = (await google.ask(`/calendars/${chosen}/events`)).items.find(({ summary }) => summary === 'Conference');
  await google.ask(`/calendars/${chosen}/events/${there.id}`, { method: 'PATCH', body: { location: 'Porto' } });
  const here = (
    await call(`/api/calendars/${calendar}/events?from=2026-11-17T00:00:00Z&to=2026-11-20T00:00:00Z`, 'GET')
  ).items.find(({ title }) => title === 'Conference');
  await call(`/api/calendar-events/${here.eventId}?scope=all`, 'PATCH', { location: 'Madrid' });
  await until("a notice reports that Google's version wins", async () => (await call(link, 'GET')).notes.length > 0);
  await over();
}

test('each picture in the documents is one that is still taken', { skip }, async (t) => {
  const folder = FOLDER ?? mkdtempSync(join(tmpdir(), 'rejoin-pictures-'));
  mkdirSync(folder, { recursive: true });
  const model = await startModel(reply);
  const data = realpathSync(mkdtempSync(join(tmpdir(), 'rejoin-pictures-data-')));
  const google = await startGoogle();
  t.after(google.stop);
  const dev = await startDev(model.url, { env: { ...google.env, REJOIN_SOURCE_FOLDERS: data } });
  mkdirSync(join(data, dev.projectId));
  const database = join(data, dev.projectId, 'shop.db');
  execFileSync('sqlite3', [
    database,
    "create table orders (id integer primary key, customer text, euros real); insert into orders values (1, 'Anna', 12.5), (2, 'Berta', null), (3, 'Carlos', 99)",
  ]);
  const { body: source } = await dev.api(`/api/projects/${dev.projectId}/data-sources`, {
    method: 'POST',
    body: { name: 'shop', kind: 'sqlite', settings: { path: database } },
  });
  const browser = await launch();
  const task = (id, title, after = []) => ({ id, title, agent: 'graph-query-agent', after });
  const tasks = [
    task('left', 'What does apt depend on?'),
    task('right', 'What depends on apt?'),
    task('old', 'What did it depend on in bookworm?'),
    task('compare', 'Compare', ['left', 'right']),
    task('report', 'Write it down', ['compare', 'old']),
  ];
  const { project, document, calendar } = await boardAndCalendar(dev);
  await keptTheSame(dev, google, calendar);
  const dag = await dev.api(`/api/projects/${dev.projectId}/task-dags`, {
    method: 'POST',
    body: { name: 'Dependencies of apt', tasks },
  });
  const files = new Set();
  for (const colorScheme of ['light', 'dark']) {
    const { context, page } = await signedIn(browser, dev, {
      colorScheme,
      viewport: VIEWPORT,
      timezoneId: 'Europe/Berlin',
    });
    const taken = new Set();
    const take = async (name) => {
      const file = `${name}-${colorScheme}.png`;
      await page.screenshot({ path: join(folder, file) });
      taken.add(name);
      files.add(file);
    };
    await ask(page, 'Which packages need libssl3, and why?');
    await finished(page);
    // The list of chats learns of the answer's end a moment later.
    await page.getByRole('img', { name: 'Running' }).waitFor({ state: 'detached' });
    await take('chat');
    const chat = page.url();
    await page.getByRole('link', { name: 'View trace', exact: true }).click();
    await page.getByRole('heading', { name: 'Tool calls' }).waitFor();
    await page.locator('.records li').nth(5).waitFor();
    await take('run');
    await page.getByRole('link', { name: 'Log', exact: true }).click();
    await page.getByRole('slider').fill('6');
    await page.getByText(/^Event \d+/).waitFor();
    await take('log');
    await page.goto(`${dev.url}/runs`);
    await page.getByRole('table').waitFor();
    await take('runs');
    await page.goto(`${dev.url}/tasks/${dag.body.id}`);
    await page.getByRole('button', { name: /Write it down/ }).waitFor();
    await page.locator('.task.completed').nth(4).waitFor({ timeout: 60_000 });
    await page.getByRole('button', { name: /Write it down/ }).click();
    await take('tasks');
    await page.goto(`${dev.url}/graph?q=secure+shell`);
    await page.getByRole('listitem').nth(5).waitFor();
    await take('graph');
    await page.goto(`${dev.url}/work/${project}`);
    await page.getByText('Paint the walls').first().waitFor();
    await take('work');
    await page.goto(`${dev.url}/work/${project}/documents/${document}?view=versions`);
    await page.getByRole('region', { name: 'From version 1 to version 2' }).getByText('Catch the cat').waitFor();
    await take('documents');
    await page.goto(`${dev.url}/calendar?date=2026-11-24`);
    await page.getByText('Night train').first().waitFor();
    await take('calendar');
    await page.getByRole('button', { name: 'Google…' }).click();
    await page.getByRole('dialog', { name: 'Google Calendar' }).getByText('Recent notices').waitFor();
    await take('google');
    await page.goto(`${dev.url}/operations`);
    await page.getByRole('row', { name: /alive/ }).first().waitFor();
    await take('operations');
    await page.goto(`${dev.url}/agents`);
    await page.getByRole('link', { name: 'graph-query-agent' }).click();
    await page.getByRole('textbox', { name: 'System prompt' }).waitFor();
    await page.getByRole('textbox', { name: 'Test message' }).fill('Which packages need libssl3, and why?');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await finished(page);
    await take('agents');
    for (const [name, path] of [
      ['tools', 'tools'],
      ['sources', 'sources'],
      ...['members', 'keys', 'usage', 'prices'].map((part) => [`settings-${part}`, `settings?part=${part}`]),
    ]) {
      await page.goto(`${dev.url}/${path}`);
      await page.locator('#main :is(table, form)').first().waitFor();
      await take(name);
    }
    await page.goto(chat);
    await finished(page);
    await page.getByRole('button', { name: /^Consoles/ }).click();
    await page.getByRole('button', { name: 'New console' }).click();
    await page.getByLabel('Console text').click();
    await page.keyboard.insertText('select customer, euros\nfrom orders\norder by euros desc');
    await page.getByLabel('Data source').selectOption(source.id);
    await page.locator('.console').getByText('Saved', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText(/^3 rows in/).waitFor();
    await take('consoles');
    await page.getByRole('button', { name: 'Hide consoles' }).click();
    await page.setViewportSize({ width: 400, height: 750 });
    await page.goto(chat);
    await finished(page);
    await take('chat-narrow');
    await page.setViewportSize(VIEWPORT);
    // Views that are not named above get a picture, too.
    const views = page.getByRole('navigation', { name: 'Views', exact: true }).getByRole('link');
    for (const [name, href] of await views.evaluateAll((links) =>
      links.map((link) => [link.innerText.toLowerCase(), link.href]),
    )) {
      if (taken.has(name)) continue;
      await page.goto(href);
      await page.locator('#main').waitFor();
      await page.waitForLoadState('networkidle');
      await take(name);
    }
    await context.close();
  }
  await browser.close();
  await dev.stop();
  await model.stop();
  rmSync(data, { recursive: true });
  assert.deepEqual(
    readdirSync(IN_DOCUMENTS).filter((file) => !files.has(file)),
    [],
    'docs/pictures has only pictures that this test takes: `npm run pictures:docs` in web/ replaces them',
  );
  if (!FOLDER) rmSync(folder, { recursive: true });
});
