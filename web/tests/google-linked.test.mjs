// A calendar that is linked with one at Google, all the way: a real browser over a real `rejoin dev`, and a stand-in for Google that is as strict
// as Google is. What the page shows of every state is in google.test.mjs.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { agree, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { noGoogle, startGoogle } from './support/google.mjs';
import { skip as noStage, stage } from './support/stage.mjs';

const skip = noStage || noGoogle;
const google = skip ? undefined : await startGoogle();
after(() => google?.stop());
const { dev, browser } = skip ? {} : await stage(undefined, { workers: 1, env: google.env });

const TEAM = '/calendars/team@group.calendar.google.com/events';
const button = (page, name) => page.getByRole('button', { name, exact: true });
const dialog = (page) => page.getByRole('dialog', { name: 'Google Calendar' });

test('events go both ways once a calendar is linked, and stay where they are when it is unlinked', {
  skip,
}, async () => {
  const { body: calendar } = await dev.api('/api/calendars', {
    method: 'POST',
    body: { name: 'Work', timeZone: 'Europe/Berlin' },
  });
  const here = async (title, start) =>
    assert.equal(
      (await dev.api(`/api/calendars/${calendar.id}/events`, { method: 'POST', body: { title, start } })).status,
      201,
    );
  const titles = async () =>
    (await google.ask(TEAM)).items.filter(({ status }) => status !== 'cancelled').map(({ summary }) => summary);
  const today = new Date().toISOString().slice(0, 10);
  await here('Made here', `${today}T09:00`);
  const at = (time) => ({ dateTime: `${today}T${time}:00+01:00`, timeZone: 'Europe/Berlin' });
  const event = await google.ask(TEAM, {
    method: 'POST',
    body: { summary: 'Made there', start: at('11:00'), end: at('12:00') },
  });

  const { context, page, faults } = await signedIn(browser, dev, {
    timezoneId: 'Europe/Berlin',
    viewport: { width: 1280, height: 900 },
  });
  await page.goto(`${dev.url}/calendar?calendar=${calendar.id}`);
  const grid = page.getByRole('grid');
  await grid.getByText('Made here').waitFor();
  await button(page, 'Google…').click();
  await button(page, 'Go to Google').click();
  await dialog(page).getByRole('radio', { name: /Team/ }).check();
  assert.equal(
    page.url(),
    `${dev.url}/calendar?calendar=${calendar.id}&dialog=google`,
    'neither code nor state is in the address',
  );
  await button(page, 'Link').click();
  await grid.getByText('Made there').waitFor();
  await dialog(page).getByText('just now').waitFor();
  await dialog(page).getByText('0 changes').waitFor();
  await eventually(async () => assert.deepEqual((await titles()).sort(), ['Made here', 'Made there']));

  // A change there, seen when it is asked for.
  await google.ask(`${TEAM}/${event.id}`, { method: 'PATCH', body: { summary: 'Changed there' } });
  await button(page, 'Sync now').click();
  await grid.getByText('Changed there').waitFor();
  await button(page, 'Sync now').waitFor();
  await button(page, 'Close').click();
  // A change here goes there by itself.
  await grid
    .getByRole('button', { name: /Made here/ })
    .first()
    .click();
  await page.getByRole('dialog').getByLabel('Title').fill('Changed here');
  await button(page, 'Save').click();
  await until('Google has it', async () => (await titles()).includes('Changed here'));

  // Linked, it is not deleted.
  await button(page, 'Delete calendar').click();
  await agree(page, 'Delete calendar');
  await page.getByRole('alert').getByText('calendar_linked').waitFor();
  await button(page, 'Google…').click();
  await button(page, 'Unlink…').click();
  await agree(page, 'Unlink');
  await button(page, 'Go to Google').waitFor();
  await button(page, 'Close').click();
  await grid.getByText('Changed there').waitFor();
  await eventually(async () => assert.deepEqual((await titles()).sort(), ['Changed here', 'Changed there']));
  assert.deepEqual(
    faults.filter((fault) => !/40[49]/.test(fault)),
    [],
  );
  await context.close();
});

test('what comes back twice, or from nowhere, links nothing', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/calendar/google?state=made-up&code=made-up`);
  await page.getByRole('alert').getByText('consent_unknown').waitFor();
  await page.getByText('has expired, was already used').waitFor();
  assert.equal(page.url(), `${dev.url}/calendar/google`);
  await context.close();
});
