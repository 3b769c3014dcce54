// The week of the calendar: hours, dragging, changes of the clocks, time zones. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { loaded } from './support/bundle.mjs';
import { calendarsOf, dialog, IN_BERLIN } from './support/calendar.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();
const { made, happening, starts, look } = calendarsOf(dev);

process.env.TZ = 'Europe/Berlin';
const pure = await loaded(['calendar/reschedule', 'calendar/draft']);

const hour = (page, day, time) => page.getByRole('button', { name: `New event on ${day} at ${time}`, exact: true });
const day = (page, name) => page.getByRole('region', { name, exact: true });
const event = (page, on, title) => day(page, on).getByRole('button', { name: new RegExp(title) });
const TUESDAY = 'Tuesday 10 March 2026';
const WEDNESDAY = 'Wednesday 11 March 2026';

async function middleOf(locator) {
  const { x, y, width, height } = await locator.boundingBox();
  return { x: x + width / 2, y: y + height / 2 };
}

/** Drags with the mouse from the middle of one element to that of another. */
async function drag(page, from, to) {
  const [start, end] = [await middleOf(from), await middleOf(to)];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move(end.x, end.y, { steps: 5 });
  await page.mouse.up();
}

test('times are dragged by the clock of the browser, also where it changes', () => {
  const at = (times) => Object.values(times).map((ms) => new Date(ms).toISOString().slice(0, 16));
  const morning = { start: '2026-03-28T09:00:00+01:00', end: '2026-03-28T10:00:00+01:00' };
  const DAY = 24 * 60;
  assert.deepEqual(at(pure.dragged(morning, 'event', DAY)), ['2026-03-29T07:00', '2026-03-29T08:00'], 'summer time');
  const night = { start: '2026-03-29T01:30:00+01:00', end: '2026-03-29T03:30:00+02:00' };
  assert.deepEqual(at(pure.dragged(night, 'event', 60)), ['2026-03-29T01:30', '2026-03-29T02:30'], 'a skipped hour');
  assert.deepEqual(
    at(pure.dragged(night, 'event', -DAY)),
    ['2026-03-28T00:30', '2026-03-28T01:30'],
    'as long as before',
  );
  const autumn = { start: '2026-10-25T01:30:00+02:00', end: '2026-10-25T02:00:00+02:00' };
  assert.deepEqual(
    at(pure.dragged(autumn, 'end', 60)),
    ['2026-10-24T23:30', '2026-10-25T02:00'],
    'an hour shown twice',
  );
  assert.deepEqual(
    at(pure.dragged(autumn, 'end', -600)),
    ['2026-10-24T23:30', '2026-10-24T23:45'],
    'never before its start',
  );
  const stamps = (timeZone) =>
    pure.at({ timeZone }, { start: Date.parse('2026-01-10T12:00Z'), end: Date.parse('2026-01-10T13:00Z') }).start;
  assert.deepEqual(['UTC', 'Asia/Tokyo', 'America/St_Johns'].map(stamps), [
    '2026-01-10T12:00:00+00:00',
    '2026-01-10T21:00:00+09:00',
    '2026-01-10T08:30:00-03:30',
  ]);
  assert.equal(pure.shownHour('2026-03-29T02:00'), '2026-03-29T03:00');
  const { startTime, endDay, endTime } = pure.newDraft('2026-03-10', '23:30');
  assert.deepEqual([startTime, endDay, endTime], ['23:30', '2026-03-11', '00:30']);
});

test('an hour is gone to by keys, and creates an event then', { skip }, async () => {
  const id = await made('Hours by keys');
  const { context, page, faults } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id, '2026-03-10', 'week');
  await hour(page, TUESDAY, '09:00').waitFor();
  await eventually(async () =>
    assert.equal(await page.locator('.hour[tabindex="0"]').count(), 1, 'one stop of the Tab key'),
  );
  await hour(page, TUESDAY, '13:00').focus();
  for (const key of ['ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  await until('the hour has the focus', () =>
    page.evaluate(() => document.activeElement?.getAttribute('data-hour') === '2026-03-11T14:00'),
  );
  await page.keyboard.press('Enter');
  await dialog(page).getByLabel('Title').waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Starts').inputValue(), '2026-03-11'));
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Start time').inputValue(), '14:00'));
  await eventually(async () => assert.equal(await dialog(page).getByLabel('End time').inputValue(), '15:00'));
  await dialog(page).getByLabel('Title').fill('Review');
  await page.keyboard.press('Enter');
  await page.getByText('Saved “Review”.').waitFor();
  await event(page, WEDNESDAY, 'Review').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Review'), ['2026-03-11T14:00:00+01:00']));
  // The lower half of an hour is half past.
  const cell = hour(page, TUESDAY, '10:00');
  const { width, height } = await cell.boundingBox();
  await cell.click({ position: { x: width / 2, y: 0.75 * height } });
  await dialog(page).getByLabel('Title').waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Start time').inputValue(), '10:30'));
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('data-hour')), '2026-03-10T10:00'),
  );
  await accessible(page, 'hours of a week');
  assert.deepEqual(faults, []);
  await context.close();
});

test('an event is dragged to another day and time, and made longer by its end', { skip }, async () => {
  const id = await made('Drags', [{ title: 'Talk', start: '2026-03-10T10:00', end: '2026-03-10T11:00' }]);
  const { context, page, faults } = await signedIn(browser, dev, { ...IN_BERLIN, bypassCSP: false });
  await look(page, id, '2026-03-10', 'week');
  await event(page, TUESDAY, 'Talk').waitFor();
  await drag(page, event(page, TUESDAY, 'Talk'), hour(page, WEDNESDAY, '13:00'));
  await page.getByText('Moved “Talk” to Wed 11 Mar, 13:00–14:00.').waitFor();
  await event(page, WEDNESDAY, 'Talk').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Talk'), ['2026-03-11T13:00:00+01:00']));
  await eventually(async () => assert.equal(await dialog(page).count(), 0, 'the end of a drag opens nothing'));
  await drag(page, day(page, WEDNESDAY).locator('.resize'), hour(page, WEDNESDAY, '15:00'));
  await page.getByText('Moved “Talk” to Wed 11 Mar, 13:00–15:30.').waitFor();
  await eventually(async () => assert.equal((await happening(id))[0].end, '2026-03-11T15:30:00+01:00'));
  // Escape ends a drag.
  const [start, end] = [await middleOf(event(page, WEDNESDAY, 'Talk')), await middleOf(hour(page, TUESDAY, '10:00'))];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move(end.x, end.y, { steps: 3 });
  await page.locator('.ghost').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.ghost').waitFor({ state: 'detached' });
  await page.mouse.up();
  await eventually(async () => assert.deepEqual(await starts(id, 'Talk'), ['2026-03-11T13:00:00+01:00']));
  // A click still opens it.
  await event(page, WEDNESDAY, 'Talk').click();
  await dialog(page).getByLabel('Title').waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByLabel('End time').inputValue(), '15:30'));
  assert.deepEqual(faults, []);
  await context.close();
});

test('a finger drags an event after a long press', { skip }, async () => {
  const id = await made('Fingers', [{ title: 'Tea', start: '2026-03-10T10:00', end: '2026-03-10T11:00' }]);
  const { context, page } = await signedIn(browser, dev, { ...IN_BERLIN, hasTouch: true });
  await look(page, id, '2026-03-10', 'week');
  await event(page, TUESDAY, 'Tea').waitFor();
  const [from, to] = [await middleOf(event(page, TUESDAY, 'Tea')), await middleOf(hour(page, WEDNESDAY, '12:00'))];
  const touches = await context.newCDPSession(page);
  const touch = (type, ...touchPoints) => touches.send('Input.dispatchTouchEvent', { type, touchPoints });
  await touch('touchStart', from);
  await page.locator('.ghost').waitFor();
  await touch('touchMove', { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 });
  await touch('touchMove', to);
  await touch('touchEnd');
  await page.getByText('Moved “Tea” to Wed 11 Mar, 12:00–13:00.').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Tea'), ['2026-03-11T12:00:00+01:00']));
  await context.close();
});

test('a drag that the server refuses goes back, with the reason', { skip }, async () => {
  const id = await made('Refusals', [{ title: 'Lunch', start: '2026-03-10T12:00', end: '2026-03-10T13:00' }]);
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id, '2026-03-10', 'week');
  await event(page, TUESDAY, 'Lunch').waitFor();
  await page.route('**/api/calendar-events/*', (route) =>
    route.request().method() === 'PATCH'
      ? route.fulfill({
          status: 403,
          contentType: 'application/problem+json',
          body: '{"code":"forbidden","detail":"not for you"}',
        })
      : route.continue(),
  );
  await drag(page, event(page, TUESDAY, 'Lunch'), hour(page, WEDNESDAY, '14:00'));
  await page.getByRole('alert').getByText('“Lunch” was not moved: not for you (forbidden).').waitFor();
  await event(page, TUESDAY, 'Lunch').waitFor();
  await eventually(async () => assert.equal(await event(page, WEDNESDAY, 'Lunch').count(), 0));
  await accessible(page, 'a refused drag');
  await page.getByRole('alert').getByRole('button', { name: 'Close' }).click();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await page.unroute('**/api/calendar-events/*');
  // Another user has changed it: what they did is shown.
  const [{ eventId }] = await happening(id);
  const { status } = await dev.api(`/api/calendar-events/${eventId}`, {
    method: 'PATCH',
    body: { start: '2026-03-11T08:00', end: '2026-03-11T09:00' },
  });
  assert.equal(status, 200);
  await drag(page, event(page, TUESDAY, 'Lunch'), hour(page, TUESDAY, '14:00'));
  await page.getByRole('alert').getByText('someone else changed it in the meantime').waitFor();
  await event(page, WEDNESDAY, 'Lunch').getByText('08:00–09:00').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Lunch'), ['2026-03-11T08:00:00+01:00']));
  await context.close();
});

test('an event that repeats is dragged into the editor, where the occurrences are chosen', { skip }, async () => {
  const id = await made('Series', [
    { title: 'Standup', start: '2026-03-10T10:00', end: '2026-03-10T10:30', rrule: 'FREQ=WEEKLY;COUNT=2' },
  ]);
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  await look(page, id, '2026-03-10', 'week');
  await event(page, TUESDAY, 'Standup').waitFor();
  await drag(page, event(page, TUESDAY, 'Standup'), hour(page, WEDNESDAY, '12:00'));
  await dialog(page).getByRole('radio', { name: 'Only this event' }).waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Starts').inputValue(), '2026-03-11'));
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Start time').inputValue(), '12:15'));
  await dialog(page).getByRole('radio', { name: 'All events' }).check();
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await event(page, WEDNESDAY, 'Standup').waitFor();
  await eventually(async () =>
    assert.deepEqual(await starts(id, 'Standup'), ['2026-03-11T12:15:00+01:00', '2026-03-18T12:15:00+01:00']),
  );
  await context.close();
});

test('in another time zone, a drag moves by the clock there and keeps the zone of the event', { skip }, async () => {
  const id = await made('Far away', [{ title: 'Call', start: '2026-03-10T15:00', end: '2026-03-10T16:00' }]);
  const { context, page } = await signedIn(browser, dev, { ...IN_BERLIN, timezoneId: 'America/New_York' });
  await look(page, id, '2026-03-10', 'week');
  await event(page, TUESDAY, 'Call').getByText('10:00–11:00').waitFor();
  await event(page, TUESDAY, 'Call').getByText('15:00 in Europe/Berlin').waitFor();
  await drag(page, event(page, TUESDAY, 'Call'), hour(page, WEDNESDAY, '13:00'));
  await page.getByText('Moved “Call” to Wed 11 Mar, 13:00–14:00.').waitFor();
  await eventually(async () => assert.deepEqual(await starts(id, 'Call'), ['2026-03-11T18:00:00+01:00']));
  await event(page, WEDNESDAY, 'Call').getByText('18:00 in Europe/Berlin').waitFor();
  await context.close();
});

test('the present time is a line, and an hour that the clocks skip says so', { skip }, async () => {
  const id = await made('Clocks');
  const { context, page } = await signedIn(browser, dev, IN_BERLIN);
  await page.clock.setFixedTime(new Date('2026-03-29T10:00:00Z'));
  await look(page, id, '2026-03-29', 'week');
  const sunday = day(page, 'Sunday 29 March 2026');
  await sunday.locator('.now').waitFor();
  await eventually(async () => assert.equal(await page.locator('.now').count(), 1));
  const [line, hours] = [await sunday.locator('.now').boundingBox(), await sunday.locator('.hours').boundingBox()];
  assert.ok(
    Math.abs(line.y - hours.y - hours.height / 2) < 2,
    `noon is in the middle: ${JSON.stringify({ line, hours })}`,
  );
  await hour(page, 'Sunday 29 March 2026', '02:00 (the clocks skip this hour)').focus();
  await page.keyboard.press('Enter');
  await dialog(page).getByLabel('Title').waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByLabel('Start time').inputValue(), '03:00'));
  await context.close();
});
