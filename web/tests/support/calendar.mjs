// Calendars of a `rejoin dev`, and their page. The browser is in Berlin.
import assert from 'node:assert/strict';
import { until } from './dev.mjs';

export const IN_BERLIN = { bypassCSP: true, timezoneId: 'Europe/Berlin', viewport: { width: 1280, height: 900 } };

/** Makes calendars in a `rejoin dev`, reads them, and opens them on the page. */
export function calendarsOf(dev) {
  /** Makes a calendar with these events; its id. */
  async function made(name, events = [], timeZone = 'Europe/Berlin') {
    const { status, body } = await dev.api('/api/calendars', { method: 'POST', body: { name, timeZone } });
    assert.equal(status, 201, JSON.stringify(body));
    for (const event of events) {
      const put = await dev.api(`/api/calendars/${body.id}/events`, { method: 'POST', body: event });
      assert.equal(put.status, 201, JSON.stringify(put.body));
    }
    return body.id;
  }

  /** The occurrences of a calendar in 2026, from the API. */
  async function happening(calendar) {
    const { body } = await dev.api(
      `/api/calendars/${calendar}/events?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z`,
    );
    return body.items;
  }

  /** When the occurrences with this title start. */
  const starts = async (calendar, title) =>
    (await happening(calendar)).filter((one) => one.title === title).map((one) => one.start);

  const look = (page, calendar, date = '2026-03-10', view = '') =>
    page.goto(`${dev.url}/calendar?calendar=${calendar}&date=${date}${view && `&view=${view}`}`);

  return { made, happening, starts, look };
}

export const cell = (page, day) => page.locator(`[data-day="${day}"]`);

/** Titles on a day of the grid, with their times. */
const on = async (page, day) => (await cell(page, day).locator('.event').allInnerTexts()).map((text) => text.trim());

/** Waits until a day of the grid shows these events. */
export const are = (page, day, wanted) =>
  until(
    `${day} shows ${wanted}`,
    async () => JSON.stringify(await on(page, day)) === JSON.stringify(wanted),
    15_000,
  ).catch(async () => assert.deepEqual(await on(page, day), wanted));

export const dialog = (page) => page.getByRole('dialog');
