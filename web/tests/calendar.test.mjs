// Calendars, in a real browser over a real `rejoin dev`. The browser is in Berlin.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { are, calendarsOf, cell, dialog, IN_BERLIN } from './support/calendar.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();
const { made, happening, starts, look } = calendarsOf(dev);
const focusedDay = (page) => page.evaluate(() => document.activeElement?.getAttribute('data-day'));

test('a first calendar is made, and an event with the keyboard alone', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await page.getByRole('link', { name: 'Calendar', exact: true }).click();
  await page.getByText('No calendars yet').waitFor();
  await accessible(page, 'no calendar');
  await eventually(async () => assert.equal(await page.getByLabel('Time zone').inputValue(), 'Europe/Berlin'));
  await page.getByLabel('Name').fill('Work');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('grid').waitFor();
  await page.getByText('No events in this month').waitFor();
  const [{ id }] = (await dev.api('/api/calendars')).body.items;
  await look(page, id);
  await page.getByRole('grid', { name: 'March 2026' }).waitFor();
  await eventually(async () =>
    assert.equal(await page.getByRole('gridcell').count(), 6 * 7, 'March 2026 begins on a Sunday: six weeks'),
  );
  await cell(page, '2026-03-10').focus();
  // To the right, down, to the week's end, and to the next month.
  for (const [key, day] of [
    ['ArrowRight', '2026-03-11'],
    ['ArrowDown', '2026-03-18'],
    ['End', '2026-03-22'],
    ['Home', '2026-03-16'],
    ['PageDown', '2026-04-16'],
    ['ArrowUp', '2026-04-09'],
  ]) {
    await page.keyboard.press(key);
    await until(`${key} leads to ${day}`, async () => (await focusedDay(page)) === day, 5_000);
  }
  await page.getByRole('grid', { name: 'April 2026' }).waitFor();
  await page.keyboard.press('Enter');
  await dialog(page).waitFor();
  await accessible(page, 'a new event');
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await focusedDay(page), '2026-04-09', 'the focus is where it was'));
  await page.keyboard.press('Enter');
  await dialog(page).getByLabel('Title').focus();
  await page.keyboard.type('Dentist');
  await page.keyboard.press('Enter');
  await page.getByText('Saved “Dentist”.').waitFor();
  await are(page, '2026-04-09', ['09:00 Dentist']);
  await eventually(async () => assert.deepEqual(await starts(id, 'Dentist'), ['2026-04-09T09:00:00+02:00']));
  assert.deepEqual(faults, []);
  await context.close();
});

test('days, several days and nights are where they belong, and other time zones are named', { skip }, async () => {
  const id = await made('Zones', [
    { title: 'Holiday', start: '2026-03-12', end: '2026-03-15', allDay: true },
    { title: 'Night train', start: '2026-03-09T22:00', end: '2026-03-11T06:30' },
    { title: 'Until midnight', start: '2026-03-17T20:00', end: '2026-03-18T00:00' },
    { title: 'Call', start: '2026-03-19T02:00', timeZone: 'Asia/Tokyo' },
    { title: 'Birthday there', start: '2026-03-20', allDay: true, timeZone: 'Pacific/Auckland' },
  ]);
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id);
  await are(page, '2026-03-09', ['22:00 Night train']);
  await are(page, '2026-03-10', ['Night train']);
  await are(page, '2026-03-11', ['Night train']);
  await are(page, '2026-03-12', ['Holiday']);
  await are(page, '2026-03-14', ['Holiday']);
  await are(page, '2026-03-15', []);
  await are(page, '2026-03-17', ['20:00 Until midnight']);
  await are(page, '2026-03-18', ['18:00 Call']);
  await are(page, '2026-03-19', []);
  await are(page, '2026-03-20', ['Birthday there']);
  await are(page, '2026-03-21', []);
  await page.getByRole('gridcell', { name: 'Thursday 12 March 2026 Holiday' }).waitFor();
  await look(page, id, '2026-03-18', 'week');
  const day = page.getByRole('region', { name: 'Wednesday 18 March 2026' });
  await day.getByText('02:00 in Asia/Tokyo').waitFor();
  await page.getByRole('region', { name: 'Tuesday 17 March 2026' }).getByText('20:00–00:00').waitFor();
  await day.getByRole('button', { name: /Call/ }).click();
  await dialog(page).getByText('In your time zone (Europe/Berlin): Wed 18 Mar, 18:00 – Wed 18 Mar, 19:00.').waitFor();
  await eventually(async () =>
    assert.equal(await dialog(page).getByLabel('Start time').inputValue(), '02:00', 'by its own clock'),
  );
  await dialog(page).getByLabel('Start time').fill('03:00');
  await dialog(page).getByLabel('End time').fill('04:00');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await day.getByText('19:00–20:00').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Call'), ['2026-03-19T03:00:00+09:00']));
  await look(page, id, '2026-03-09', 'week');
  await page.getByRole('region', { name: 'Tuesday 10 March 2026' }).getByText('All day').waitFor();
  await page.getByRole('region', { name: 'Wednesday 11 March 2026' }).getByText('Until 06:30').waitFor();
  await page.getByRole('region', { name: 'Friday 13 March 2026' }).getByText('Day 2 of 3').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('an event of all day is made and made longer, its last day as people say it', { skip }, async () => {
  const id = await made('Whole days');
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id);
  await page.getByRole('button', { name: 'New event', exact: true }).click();
  await dialog(page).getByLabel('Title').fill('Fair');
  await dialog(page).getByLabel('All day').check();
  await dialog(page).getByLabel('Last day').fill('2026-03-11');
  await dialog(page).getByRole('button', { name: 'Create' }).click();
  await are(page, '2026-03-11', ['Fair']);
  await are(page, '2026-03-12', []);
  const [fair] = await happening(id);
  assert.deepEqual([fair.start, fair.end, fair.allDay], ['2026-03-10', '2026-03-12', true]);
  // Later by a week: it stays as long as it is.
  await cell(page, '2026-03-10').getByRole('button', { name: 'Fair' }).click();
  await dialog(page).getByLabel('First day').fill('2026-03-17');
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Last day').inputValue(), '2026-03-18'));
  await dialog(page).getByLabel('Last day').fill('2026-03-16');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).getByText('The event ends before it starts').waitFor();
  await dialog(page).getByLabel('Last day').fill('2026-03-18');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await are(page, '2026-03-18', ['Fair']);
  await are(page, '2026-03-10', []);
  await context.close();
});

const ICS = [
  'BEGIN:VCALENDAR',
  'VERSION:2.0',
  'PRODID:-//test//EN',
  'BEGIN:VEVENT',
  'UID:one@example.org',
  'DTSTAMP:20260301T000000Z',
  'DTSTART;TZID=Europe/Berlin:20260310T140000',
  'DTEND;TZID=Europe/Berlin:20260310T150000',
  'SUMMARY:Review',
  'END:VEVENT',
  'BEGIN:VEVENT',
  'DTSTAMP:20260301T000000Z',
  'DTSTART:20260311T140000Z',
  'SUMMARY:Nameless',
  'END:VEVENT',
  'END:VCALENDAR',
  '',
].join('\r\n');

test('a file is imported with a report of what it did, and exported for other programs', { skip }, async () => {
  const id = await made('Files');
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id);
  const give = (name, text) =>
    page.getByLabel('iCalendar file').setInputFiles({ name, mimeType: 'text/calendar', buffer: Buffer.from(text) });
  const report = page.getByRole('region', { name: 'Import result' });
  await give('a.ics', ICS);
  await report.getByText('1 added, 0 changed, 0 unchanged, 1 rejected.').waitFor();
  await report.getByText(/^Line 11: .*UID/).waitFor();
  await are(page, '2026-03-10', ['14:00 Review']);
  await accessible(page, 'the report of an import');
  await give('a.ics', ICS.replace('SUMMARY:Review', 'SUMMARY:Second review'));
  await report.getByText('0 added, 1 changed, 0 unchanged, 1 rejected.').waitFor();
  await are(page, '2026-03-10', ['14:00 Second review']);
  await report.getByRole('button', { name: 'Close report' }).click();
  await report.waitFor({ state: 'detached' });
  const downloading = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  const file = await downloading;
  assert.equal(file.suggestedFilename(), 'Files.ics');
  const text = readFileSync(await file.path(), 'utf8');
  assert.match(text, /SUMMARY:Second review/);
  assert.match(text, /DTSTART;TZID=Europe\/Berlin:20260310T140000/);
  assert.deepEqual(faults, []);
  await give('b.ics', 'no calendar');
  await page.getByRole('alert').getByText('invalid_icalendar').waitFor();
  await give('c.ics', 'x'.repeat(5 * 1024 * 1024 + 1));
  await page.getByRole('alert').getByText('“c.ics” is larger than 5 MiB. Split it and import the parts.').waitFor();
  await page.getByRole('button', { name: 'Delete calendar' }).click();
  await agree(page, 'Delete calendar');
  await until('the calendar is gone', async () =>
    (await dev.api('/api/calendars')).body.items.every((one) => one.id !== id),
  );
  await until(
    'another calendar is chosen',
    async () => (await page.getByRole('combobox', { name: 'Calendar' }).inputValue()) !== id,
  );
  await context.close();
});

test('an address to subscribe to is made, shown once, replaced and taken away', { skip }, async () => {
  const calendar = await made('Shared', [{ title: 'Standup', start: '2027-05-03T09:00' }]);
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, calendar, '2027-05-03');
  const open = () => page.getByRole('button', { name: 'Subscribe…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Subscribe from another app' });
  const titleIn = async (url) => {
    const answer = await fetch(url);
    return answer.status === 200 ? /SUMMARY:(.*)/.exec(await answer.text())[1].trim() : answer.status;
  };
  await open();
  await dialog.getByText('No feed address yet.').waitFor();
  await dialog.getByRole('button', { name: 'Create an address' }).click();
  const first = await dialog.locator('code.address').innerText();
  await eventually(async () => assert.equal(await titleIn(first), 'Standup'));
  await accessible(page, 'the dialog with the address');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await open();
  await dialog.getByText('A feed address exists.').waitFor();
  await eventually(async () => assert.equal(await dialog.locator('code.address').count(), 0, 'shown once'));
  await dialog.getByRole('button', { name: 'Create a new address' }).click();
  const second = await dialog.locator('code.address').innerText();
  await eventually(async () => assert.deepEqual([await titleIn(first), await titleIn(second)], [404, 'Standup']));
  await dialog.getByRole('button', { name: 'Delete address' }).click();
  await dialog.getByText('No feed address yet.').waitFor();
  await eventually(async () => assert.equal(await titleIn(second), 404));
  assert.deepEqual(faults, []);
  await context.close();
});

test('in a week, events lie where their times are, side by side where they overlap', { skip }, async () => {
  const id = await made('Hours', [
    { title: 'Early', start: '2026-03-10T08:00', end: '2026-03-10T10:00' },
    { title: 'Beside', start: '2026-03-10T09:00', end: '2026-03-10T11:00' },
    { title: 'Late', start: '2026-03-10T20:00', end: '2026-03-10T21:00' },
  ]);
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id, '2026-03-10', 'week');
  const day = page.getByRole('region', { name: 'Tuesday 10 March 2026' });
  await day.getByRole('button', { name: /Early/ }).waitFor();
  const [early, beside, late] = await Promise.all(
    ['Early', 'Beside', 'Late'].map((title) => day.getByRole('button', { name: new RegExp(title) }).boundingBox()),
  );
  assert.ok(early.y < beside.y && beside.y < late.y, JSON.stringify({ early, beside, late }));
  assert.ok(early.x + early.width <= beside.x + 1, 'side by side');
  assert.ok(Math.abs(early.height - 2 * late.height) < 8, 'twice as long');
  assert.ok(late.width > 1.8 * early.width, 'alone it has the whole width');
  await context.close();
});

test('month and week are accessible: light, dark, and on narrow screens', { skip }, async () => {
  const id = await made('Looks', [
    { title: 'Holiday', start: '2026-03-12', end: '2026-03-15', allDay: true },
    ...['08:00', '09:00', '10:00', '11:00', '12:00'].map((time) => ({
      title: `At ${time}`,
      start: `2026-03-10T${time}`,
    })),
  ]);
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id);
  await cell(page, '2026-03-10').getByText('2 more').waitFor();
  await eventually(async () =>
    assert.equal(
      await page.getByRole('region', { name: 'Tuesday 10 March 2026' }).getByRole('listitem').count(),
      5,
      'the day beside the grid has all of them',
    ),
  );
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 420]) {
      await page.setViewportSize({ width, height: 800 });
      for (const view of ['Month', 'Week']) {
        await page.getByRole('button', { name: view, exact: true }).click();
        await page.getByRole('button', { name: view, exact: true, pressed: true }).waitFor();
        await accessible(page, `${view}, ${colorScheme}, ${width} wide`);
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(overflow, 0, `nothing sticks out at ${width}`);
      }
      await page
        .getByRole('region', { name: 'Thursday 12 March 2026' })
        .getByRole('button', { name: /Holiday/ })
        .click();
      await dialog(page).getByLabel('Title').waitFor();
      await accessible(page, `an event, ${colorScheme}, ${width} wide`);
      await dialog(page).getByRole('button', { name: 'Close' }).click();
    }
  }
  await page.getByRole('button', { name: 'Next week' }).click();
  await page.getByRole('heading', { name: 'Mon 16 Mar – Sun 22 Mar 2026' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('the calendar of a project leads to its board', { skip }, async () => {
  const id = await made('Of a project');
  const { body } = await dev.api('/api/onto/projects/instantiate', {
    method: 'POST',
    body: { project: { name: 'Apollo' } },
  });
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  // Agents make such calendars, in conversations that are about a project.
  const items = [{ id, name: 'Of a project', timeZone: 'Europe/Berlin', workProjectId: body.project.id }];
  await page.route('**/api/calendars', (route) => route.fulfill({ json: { items } }));
  await look(page, id);
  await page.getByRole('link', { name: 'Open project' }).click();
  await page.getByRole('heading', { name: 'Apollo' }).waitFor();
  await context.close();
});

test('a reader sees events, and nothing that changes them; a failing server is an error', { skip }, async () => {
  const id = await made('Read only', [{ title: 'Concert', start: '2026-03-10T20:00', description: 'Bring earplugs' }]);
  const { body } = await dev.api(`/api/admin/projects/${dev.projectId}/keys`, {
    method: 'POST',
    body: { name: 'reader', scopes: ['read'] },
  });
  const { context, page, faults } = await signedIn(browser, { ...dev, apiKey: body.key }, IN_BERLIN);
  await look(page, id);
  await are(page, '2026-03-10', ['20:00 Concert']);
  for (const name of ['New event', 'Import', 'Delete calendar', 'New calendar'])
    await eventually(async () => assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name));
  await cell(page, '2026-03-10').focus();
  await page.keyboard.press('Enter');
  await eventually(async () => assert.equal(await dialog(page).count(), 0));
  await cell(page, '2026-03-10').locator('.event').click();
  await dialog(page).getByText('Bring earplugs').waitFor();
  await dialog(page).getByText('Your key is read-only').waitFor();
  await accessible(page, 'an event to read');
  await eventually(async () => assert.equal(await dialog(page).getByRole('button').count(), 1, 'it can be closed'));
  assert.deepEqual(faults, []);
  await page.route('**/api/calendars/*/events?*', (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: '{"code":"forbidden","detail":"not for you"}',
    }),
  );
  await look(page, id);
  await page.getByRole('alert').getByText('not for you (forbidden)').waitFor();
  await page.unroute('**/api/calendars/*/events?*');
  await page.getByRole('button', { name: 'Retry' }).click();
  await are(page, '2026-03-10', ['20:00 Concert']);
  await context.close();
});
