// The languages of the app, from left to right and from right to left. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, answer, finished, signInLink } from './support/browser.mjs';
import { calendarsOf, cell } from './support/calendar.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const ANSWER = 'Use `f(x)`:\n\n- one\n- two\n\n```sql\nselect 1\n```';
const QUESTION_IN_ARABIC = 'كم عدد الأوامر؟';
/** A computer's, a phone's, and a computer's at 200 %. */
const SIZES = [
  [1280, 800],
  [390, 800],
  [640, 400],
];

const { dev, browser } = await stage(() => ({ text: ANSWER }));
const { made, look } = skip ? {} : calendarsOf(dev);

/** What a text of the app is in a language. */
function wordsIn(language) {
  const catalogue = JSON.parse(readFileSync(`${import.meta.dirname}/../src/languages/${language}.json`, 'utf8'));
  return (text, values = {}) => {
    assert.ok(text in catalogue, `${language} has “${text}”`);
    return Object.entries(values).reduce((words, [name, value]) => words.replace(`{${name}}`, value), catalogue[text]);
  };
}

/** A page that is signed in, and the errors on its console. `prepare` is done before the page loads anything. */
async function entered(locale, prepare = async () => {}) {
  const context = await browser.newContext({
    serviceWorkers: 'block',
    bypassCSP: true,
    timezoneId: 'Europe/Berlin',
    viewport: { width: 1280, height: 800 },
    locale,
  });
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  await prepare(page);
  await page.goto(await signInLink(dev));
  await field(page).waitFor();
  return { context, page, faults };
}

/** The message box, whatever it is called. */
const field = (page) => page.locator('.composer textarea');
const root = (page) => page.evaluate(() => [document.documentElement.lang, document.documentElement.dir]);

async function say(page, words) {
  await field(page).fill(words);
  await field(page).press('Enter');
  await finished(page);
}

/** Chooses a language in the settings, whose label is given in the language before. The page loads again. */
async function choose(page, label, name, code) {
  await page.goto(`${dev.url}/settings`);
  await page.getByRole('group', { name: label, exact: true }).getByRole('button', { name, exact: true }).click();
  await page.locator(`html[lang=${code}]`).waitFor();
  await page.getByRole('button', { name, exact: true, pressed: true }).waitFor();
}

async function posted(path, sent) {
  const { status, body } = await dev.api(`/api/projects/${dev.projectId}${path}`, { method: 'POST', body: sent });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

/** Paths of the main views, with something in each. */
async function views(page) {
  const chat = new URL(page.url()).pathname;
  const { status, body } = await dev.api('/api/onto/projects/instantiate', {
    method: 'POST',
    body: {
      project: { name: 'Moving house' },
      entities: [{ tempId: 'keys', kind: 'task', title: 'Find the keys', priority: 1, dueAt: '2026-03-10T12:00:00Z' }],
    },
  });
  assert.equal(status, 201, JSON.stringify(body));
  const calendar = await made('Travel', [
    { title: 'Night train', start: '2026-03-09T22:00', end: '2026-03-11T06:30' },
    { title: 'Holiday', start: '2026-03-12', end: '2026-03-15', allDay: true },
  ]);
  const set = await posted('/evaluation-sets', { name: `Capitals ${chat}` });
  await posted(`/evaluation-sets/${set.id}/cases`, { cases: [{ question: 'What is the capital of France?' }] });
  const { items: runs } = (await dev.api(`/api/projects/${dev.projectId}/agent-runs?limit=1`)).body;
  return [
    chat,
    '/',
    '/settings',
    '/runs',
    ...runs.map(({ id }) => `/runs/${id}`),
    '/evaluations',
    `/evaluations/${set.id}`,
    `/work/${body.project.id}`,
    `/calendar?calendar=${calendar}&date=2026-03-10`,
    `/calendar?calendar=${calendar}&date=2026-03-10&view=week`,
  ];
}

/** Nothing sticks out of any of these views, in all sizes. */
async function fit(page, paths) {
  for (const path of paths) {
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(dev.url + path);
    await page.locator('#main').waitFor();
    await eventually(async () => assert.equal(await page.locator('.skeleton').count(), 0, `${path} is there`));
    await accessible(page, path);
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      await eventually(async () =>
        assert.deepEqual(await stickingOut(page), [], `nothing sticks out of ${path} at ${width}`),
      );
    }
  }
}

/** What is wider than its place. */
const stickingOut = (page) =>
  page.evaluate(() =>
    ['html', '#main', '.said', '.topbar', '.head'].filter((selector) => {
      const element = document.querySelector(selector);
      return element && element.scrollWidth > element.clientWidth;
    }),
  );

test('in a German browser the app is German', { skip }, async () => {
  const de = wordsIn('de');
  const { context, page, faults } = await entered('de-DE');
  assert.deepEqual(await root(page), ['de', 'ltr']);
  await page.getByRole('textbox', { name: 'Nachricht' }).waitFor();
  await page
    .getByRole('navigation', { name: de('Views'), exact: true })
    .getByRole('link', { name: 'Läufe' })
    .waitFor();
  await page.getByRole('link', { name: 'Neuer Chat' }).waitFor();
  await page.getByRole('searchbox', { name: de('Search chats') }).waitFor();
  // Numbers as in German.
  const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x'.repeat(1234)) };
  await page.locator('.composer input[type=file]').setInputFiles(file);
  await page.getByText('1.234 Zeichen').waitFor();
  await say(page, 'Wie viele?');
  await page
    .getByRole('article', { name: de('You'), exact: true })
    .getByText('Wie viele?')
    .waitFor();
  const copy = de('{action}: {what}', { action: de('Copy'), what: de('the answer') });
  for (const name of [copy, de('Helpful'), de('Regenerate in a new branch')])
    await answer(page).getByRole('button', { name, exact: true }).waitFor();
  await answer(page)
    .getByRole('link', { name: de('View trace') })
    .waitFor();
  await page.locator('.conversations').getByRole('heading', { name: 'Heute', exact: true }).waitFor();
  const paths = await views(page);
  await page.goto(`${dev.url}/settings`);
  await page.getByRole('heading', { level: 1, name: 'Einstellungen' }).waitFor();
  await page.getByRole('group', { name: 'Sprache' }).getByRole('button', { name: 'Deutsch', pressed: true }).waitFor();
  await until('the tab is named', async () => (await page.title()).includes('Einstellungen'));
  // Dates, too.
  await page.goto(dev.url + paths.find((path) => path.endsWith('date=2026-03-10')));
  await page.getByRole('grid', { name: 'März 2026' }).waitFor();
  await page.getByRole('columnheader', { name: 'Mo', exact: true }).waitFor();
  await eventually(async () => assert.match(await cell(page, '2026-03-09').innerText(), /22:00\s+Night train/));
  await fit(page, paths);
  assert.deepEqual(faults, []);
  await context.close();
});

test('in Arabic the app runs from right to left, and English can be chosen again', { skip }, async () => {
  const ar = wordsIn('ar');
  const { context, page, faults } = await entered('en-US');
  await choose(page, 'Language', 'العربية', 'ar');
  assert.deepEqual(await root(page), ['ar', 'rtl']);
  await page.getByRole('heading', { level: 1, name: ar('Settings') }).waitFor();
  // The sidebar is at the right edge, the page beside it.
  const sidebar = await page.getByRole('complementary', { name: ar('Sidebar') }).boundingBox();
  const main = await page.locator('#main').boundingBox();
  assert.equal(sidebar.x + sidebar.width, 1280);
  assert.equal(main.x, 0);
  assert.ok(Math.abs(main.x + main.width - sidebar.x) < 1, 'the page ends where the sidebar begins');
  const scale = (name) =>
    page
      .locator(`.lucide-${name}`)
      .first()
      .evaluate((icon) => getComputedStyle(icon).scale);
  assert.equal(await scale('panel-left'), '-1 1');
  // A menu is below its button, at its side.
  await page.getByRole('button', { name: new RegExp(`^${ar('User menu:')}`) }).click();
  const menu = await page.getByRole('menu').boundingBox();
  assert.ok(Math.abs(menu.x + menu.width - (sidebar.x + sidebar.width)) < 24, 'the menu is at the right');
  await page.keyboard.press('Escape');
  await page.goto(dev.url);
  await page.getByRole('textbox', { name: ar('Message'), exact: true }).waitFor();
  await say(page, QUESTION_IN_ARABIC);
  // Texts have the direction of their own words, and code runs from left to right.
  const directionOf = (selector) =>
    page
      .locator(selector)
      .last()
      .evaluate((element) => getComputedStyle(element).direction);
  assert.equal(await directionOf('.mine p'), 'rtl');
  for (const selector of ['.turn .markdown ul', '.turn .markdown pre', '.turn .markdown p code'])
    assert.equal(await directionOf(selector), 'ltr', selector);
  const paths = await views(page);
  await fit(page, paths);
  // The drawer of a phone comes from the right.
  await page.setViewportSize({ width: 390, height: 800 });
  await page.getByRole('button', { name: ar('Show sidebar') }).click();
  await eventually(async () => {
    const drawer = await page.locator('#sidebar').boundingBox();
    assert.equal(drawer.x + drawer.width, 390);
  });
  await accessible(page, 'the drawer');
  await page.keyboard.press('Escape');
  await page.setViewportSize({ width: 1280, height: 800 });
  // It is chosen in this browser, also after the page is loaded again.
  await choose(page, ar('Language'), 'English', 'en');
  assert.deepEqual(await root(page), ['en', 'ltr']);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
  assert.deepEqual(await root(page), ['en', 'ltr']);
  assert.deepEqual(faults, []);
  await context.close();
});

test('from right to left, arrow keys lead to where they point', { skip }, async () => {
  const ar = wordsIn('ar');
  const { context, page, faults } = await entered('ar-EG');
  assert.deepEqual(await root(page), ['ar', 'rtl']);
  const calendar = await made('Keys');
  const focused = () =>
    page.evaluate(() => document.activeElement?.dataset.day ?? document.activeElement?.dataset.hour);
  const left = async () => (await page.locator(':focus').boundingBox()).x;
  await look(page, calendar);
  await cell(page, '2026-03-10').focus();
  const middle = await left();
  for (const [key, day] of [
    ['ArrowLeft', '2026-03-11'],
    ['ArrowRight', '2026-03-10'],
    ['ArrowRight', '2026-03-09'],
  ]) {
    await page.keyboard.press(key);
    await eventually(async () => assert.equal(await focused(), day, key));
  }
  assert.ok((await left()) > middle, 'the day before is to the right');
  // So do the buttons: the one at the right shows the month before.
  const [before, after] = await Promise.all(
    ['Previous month', 'Next month'].map((name) =>
      page.getByRole('button', { name: ar(name), exact: true }).boundingBox(),
    ),
  );
  assert.ok(before.x > after.x);
  await look(page, calendar, '2026-03-10', 'week');
  await page.locator('[data-hour="2026-03-10T09:00"]').focus();
  await page.keyboard.press('ArrowLeft');
  await eventually(async () => assert.equal(await focused(), '2026-03-11T09:00'));
  await page.keyboard.press('ArrowRight');
  await eventually(async () => assert.equal(await focused(), '2026-03-10T09:00'));
  assert.deepEqual(faults, []);
  await context.close();
});

test('where the browser prefers a language that the app does not speak, it is English, with texts in theirs', {
  skip,
}, async () => {
  const { context, page, faults } = await entered('fr-FR');
  assert.deepEqual(await root(page), ['en', 'ltr']);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await say(page, QUESTION_IN_ARABIC);
  await answer(page).getByRole('link', { name: 'View trace' }).waitFor();
  const words = page.locator('.mine p').last();
  const looks = await words.evaluate((element) => getComputedStyle(element).direction);
  assert.equal(looks, 'rtl');
  assert.deepEqual(faults, []);
  await context.close();
});

test('where the translations can’t be loaded, the app is English, and works', { skip }, async () => {
  let isRefused = false;
  const { context, page } = await entered('ar', (page) =>
    page.route(/\/assets\/ar-[^/]*\.js$/, (route) => {
      isRefused = true;
      return route.abort();
    }),
  );
  assert.equal(isRefused, true, 'they were asked for');
  assert.deepEqual(await root(page), ['en', 'ltr']);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await say(page, 'How many?');
  await answer(page).getByRole('link', { name: 'View trace' }).waitFor();
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await context.close();
});
