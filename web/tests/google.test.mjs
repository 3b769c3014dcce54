// Calendars that are linked with Google's, in a real browser over a real `rejoin dev`. What the API answers about Google is played here, by
// interception: this is about what the page shows and sends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

const GOOGLE = 'https://accounts.google.example';
const OPTIONS = { bypassCSP: true, viewport: { width: 1280, height: 900 } };
const CHOICES = [
  { id: 'anna@example.org', name: 'Anna', timeZone: 'Europe/Berlin', isReadOnly: false, isPrimary: true },
  { id: 'team', name: 'Team', timeZone: 'Asia/Tokyo', isReadOnly: false, isPrimary: false },
  { id: 'holidays', name: 'Holidays', timeZone: 'Europe/Berlin', isReadOnly: true, isPrimary: false },
];
const CHOOSING = {
  state: 'choosing',
  choices: CHOICES,
  googleCalendar: null,
  syncedAt: null,
  isSyncing: false,
  waiting: 0,
  problem: null,
  notes: [],
};
const LINKED = {
  ...CHOOSING,
  state: 'linked',
  choices: [],
  googleCalendar: { id: 'team', name: 'Team', isReadOnly: false },
  syncedAt: '2026-11-23T10:00:00Z',
};

const problem = (status, code, detail) => ({
  status,
  contentType: 'application/problem+json',
  body: JSON.stringify({ code, detail }),
});

/** A calendar, and a page over an API that knows Google. `requests`: the requests of the page; `google.link`: the state of the calendar there. */
async function opened({ link = null, isAvailable = true, name = 'Work' } = {}) {
  const { body, status } = await dev.api('/api/calendars', {
    method: 'POST',
    body: { name, timeZone: 'Europe/Berlin' },
  });
  assert.equal(status, 201, JSON.stringify(body));
  const { id } = body;
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  const google = { link, comesBack: (state) => `state=${state}&code=a-code`, consent: null, asked: 0 };
  const requests = [];
  await page.route('**/api/calendars', async (route) => {
    if (route.request().method() !== 'GET') return route.fallback();
    const { items } = (await dev.api('/api/calendars')).body;
    const listed = items.map((one) => ({ ...one, google: one.id === id ? (google.link?.state ?? null) : null }));
    return route.fulfill({ json: { items: listed, googleAvailable: isAvailable } });
  });
  await page.route(`**/api/calendars/${id}/google**`, (route) => {
    const request = route.request();
    const what = `${request.method()} ${new URL(request.url()).pathname.split(id)[1]}`;
    if (what !== 'GET /google') requests.push(what === 'PUT /google' ? [what, request.postDataJSON()] : [what]);
    else google.asked += 1;
    if (google.refuses) return route.fulfill(google.refuses);
    if (what === 'POST /google')
      return route.fulfill({ status: 201, json: { url: google.url ?? `${GOOGLE}/o/oauth2/v2/auth?state=s1` } });
    if (what === 'DELETE /google') {
      google.link = null;
      return route.fulfill({ status: 204 });
    }
    if (google.link === null) return route.fulfill(problem(404, 'google_link_not_found', 'the calendar is not linked'));
    if (what === 'PUT /google') {
      const chosen = CHOICES.find((one) => one.id === request.postDataJSON().googleCalendarId);
      google.link = {
        ...LINKED,
        googleCalendar: { id: chosen.id, name: chosen.name, isReadOnly: chosen.isReadOnly },
        syncedAt: null,
        isSyncing: true,
      };
    }
    if (what === 'POST /google/sync') google.link = { ...google.link, isSyncing: true };
    return route.fulfill({ status: what === 'POST /google/sync' ? 202 : 200, json: google.link });
  });
  await page.route('**/api/google/consents', (route) => {
    requests.push(['POST /consents', route.request().postDataJSON()]);
    if (google.consent) return route.fulfill(google.consent);
    google.link = CHOOSING;
    return route.fulfill({ json: { calendarId: id, link: CHOOSING } });
  });
  // Google's page, where people agree at once.
  await context.route(`${GOOGLE}/**`, (route) => {
    const back = `${dev.url}/calendar/google?${google.comesBack(new URL(route.request().url()).searchParams.get('state'))}`;
    return route.fulfill({
      contentType: 'text/html',
      body: `<script>location.replace(${JSON.stringify(back)})</script>`,
    });
  });
  await page.goto(`${dev.url}/calendar?calendar=${id}&date=2026-03-10`);
  await page.getByRole('grid').waitFor();
  return { id, context, page, faults, google, requests };
}

const button = (page, name) => page.getByRole('button', { name, exact: true });
const dialog = (page) => page.getByRole('dialog', { name: 'Google Calendar' });
const isFocused = (locator) => locator.evaluate((one) => one === document.activeElement);

/** Nothing serious, and nothing that sticks out, in light and dark, wide and narrow. */
async function fine(page, place) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 420]) {
      await page.setViewportSize({ width, height: 900 });
      await accessible(page, `${place}, ${colorScheme}, ${width} wide`);
      const overflow = await dialog(page).evaluate((one) => one.scrollWidth - one.clientWidth);
      assert.equal(overflow, 0, `${place}: nothing sticks out at ${width}`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 900 });
}

test('a calendar is linked with one of Google’s by keys, and what comes from there is shown', { skip }, async () => {
  const { id, context, page, faults, google, requests } = await opened();
  await button(page, 'Google…').press('Enter');
  await dialog(page).getByText('to keep both in sync').waitFor();
  await dialog(page).getByText("Google's version wins").waitFor();
  await fine(page, 'not linked');
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await eventually(async () =>
    assert.equal(await isFocused(button(page, 'Google…')), true, 'the focus is where it was'),
  );
  await page.keyboard.press('Enter');
  await button(page, 'Go to Google').press('Enter');
  // Back from Google: the calendar that it was about, and its dialog.
  await dialog(page).getByRole('group', { name: 'Choose a Google calendar' }).waitFor();
  assert.deepEqual(requests, [['POST /google'], ['POST /consents', { state: 's1', code: 'a-code' }]], 'sent once');
  assert.equal(page.url(), `${dev.url}/calendar?calendar=${id}&dialog=google`);
  await dialog(page).getByText('primary, Europe/Berlin').waitFor();
  await dialog(page).getByText('Europe/Berlin, read-only: changes here are not sent to Google').waitFor();
  await fine(page, 'choosing');
  await dialog(page).getByRole('radio', { name: /Anna/ }).focus();
  await page.keyboard.press('ArrowDown');
  await eventually(async () => assert.equal(await dialog(page).getByRole('radio', { name: /Team/ }).isChecked(), true));
  await page.keyboard.press('Enter');
  await button(page, 'Syncing…').waitFor();
  assert.deepEqual(requests.slice(2), [['PUT /google', { googleCalendarId: 'team' }]]);
  await eventually(async () =>
    assert.equal(
      await dialog(page).evaluate((one) => one.contains(document.activeElement)),
      true,
      'the focus stays in the dialog',
    ),
  );
  // It ends with an event that was only at Google: asked for again, and shown, without anybody doing anything.
  const today = new Date().toISOString().slice(0, 10);
  const made = await dev.api(`/api/calendars/${id}/events`, {
    method: 'POST',
    body: { title: 'From Google', start: `${today}T12:00` },
  });
  assert.equal(made.status, 201);
  google.link = { ...LINKED, syncedAt: new Date().toISOString(), waiting: 2 };
  await page.locator('[role="grid"]').getByText('From Google').waitFor({ timeout: 10_000 });
  await dialog(page).getByText('2 changes').waitFor();
  google.link = { ...google.link, waiting: 0 };
  await dialog(page).getByText('0 changes').waitFor();
  // Nothing is on its way: nothing is asked.
  const { asked } = google;
  await page.waitForTimeout(3_000);
  assert.equal(google.asked, asked);
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('404')),
    [],
  );
  await page.goBack();
  assert.doesNotMatch(page.url(), /code=/, 'the history has not kept it');
  await context.close();
});

test('the state of a linked calendar is shown: problems, notices, and what is read only', { skip }, async () => {
  const notes = [
    { at: '2026-11-22T10:00:00Z', text: '“Each hour” comes back too often: it is not taken.' },
    { at: '2026-11-23T10:00:00Z', text: "“Review” was changed on both sides: Google's version is kept." },
  ];
  const link = {
    ...LINKED,
    googleCalendar: { id: 'holidays', name: 'Holidays', isReadOnly: true },
    waiting: 0,
    problem: 'Google did not answer (500): tried again in five minutes.',
    notes,
  };
  const { context, page, google, requests } = await opened({ link });
  await button(page, 'Google…').click();
  await dialog(page).getByText('Holidays (read-only: changes here are not sent to Google)').waitFor();
  await dialog(page).getByRole('alert').getByText('tried again in five minutes').waitFor();
  const notices = await dialog(page)
    .getByRole('list', { name: 'Recent notices' })
    .getByRole('listitem')
    .allInnerTexts();
  assert.deepEqual(
    notices.map((text) => text.slice(0, 6)),
    ['“Revie', '“Each '],
    'the newest first',
  );
  await fine(page, 'linked, with a problem');
  await button(page, 'Sync now').click();
  await button(page, 'Syncing…').waitFor();
  google.link = { ...LINKED, syncedAt: new Date().toISOString() };
  await button(page, 'Sync now').waitFor();
  await dialog(page).getByText('just now').waitFor();
  await eventually(async () => assert.equal(await dialog(page).getByRole('alert').count(), 0));
  // Unlinked only by word; the events stay.
  await button(page, 'Unlink…').click();
  await agree(page, 'Cancel');
  assert.deepEqual(requests, [['POST /google/sync']]);
  await button(page, 'Unlink…').click();
  await agree(page, 'Unlink');
  await button(page, 'Go to Google').waitFor();
  assert.deepEqual(requests, [['POST /google/sync'], ['DELETE /google']]);
  await context.close();
});

test('a withdrawn permission of Google is shown beside the calendar, with what to do', { skip }, async () => {
  const { context, page, requests } = await opened({
    link: { ...LINKED, state: 'revoked', waiting: 3 },
    isAvailable: false,
  });
  await page.getByText('this calendar is no longer syncing').waitFor();
  await button(page, 'Google…').click();
  await dialog(page).getByText('Google access was revoked').waitFor();
  await dialog(page).getByText('3 changes').waitFor();
  await button(page, 'Unlink…').waitFor();
  await fine(page, 'revoked');
  await button(page, 'Go to Google').click();
  await dialog(page).getByRole('radio').first().waitFor();
  assert.deepEqual(
    requests.map(([what]) => what),
    ['POST /google', 'POST /consents'],
  );
  // Who wants none of them after all is where it began.
  await button(page, 'Cancel linking').click();
  await button(page, 'Go to Google').waitFor();
  assert.deepEqual(requests.at(-1), ['DELETE /google']);
  await context.close();
});

test('a refusal says what to do, and is sent once', { skip }, async () => {
  const { id, context, page, google, requests } = await opened();
  const cases = [
    [
      'state=s1&error=access_denied',
      problem(400, 'consent_refused', 'you did not allow it'),
      { state: 's1', error: 'access_denied' },
      'nothing was sent to Google',
    ],
    [
      'state=old&code=c',
      problem(400, 'consent_unknown', 'no consent is pending'),
      { state: 'old', code: 'c' },
      'has expired, was already used',
    ],
    [
      'state=s1&code=c',
      problem(502, 'google_failed', 'Google answered 500'),
      { state: 's1', code: 'c' },
      'Try again later',
    ],
  ];
  for (const [brought, refusal, sent, words] of cases) {
    requests.length = 0;
    google.consent = refusal;
    await page.goto(`${dev.url}/calendar/google?${brought}`);
    await page.getByRole('alert').waitFor();
    await page.getByText(words).waitFor();
    assert.equal(page.url(), `${dev.url}/calendar/google`);
    assert.deepEqual(requests, [['POST /consents', sent]]);
    await accessible(page, words);
    // Another look brings nothing more.
    await page.reload();
    await page.getByText('The response from Google can no longer be used').waitFor();
    assert.equal(requests.length, 1);
  }
  await page.getByRole('link', { name: 'Go to calendar' }).click();
  await page.getByRole('combobox', { name: 'Calendar' }).selectOption(id);
  await button(page, 'Google…').click();
  // How it stands has been read before anything is refused.
  await button(page, 'Go to Google').waitFor();
  for (const [code, words] of [
    ['google_not_configured', 'Google is not set up here'],
    ['calendar_linked', 'it is linked already'],
  ]) {
    google.refuses = problem(409, code, words);
    await button(page, 'Go to Google').click();
    await dialog(page).getByRole('alert').getByText(`${words} (${code})`).waitFor();
  }
  google.refuses = undefined;
  for (const url of ['javascript:document.body.textContent="owned"', 'http://accounts.google.example/']) {
    google.url = url;
    await button(page, 'Go to Google').click();
    await dialog(page)
      .getByRole('alert')
      .getByText(`“${url.split(':')[0]}:`)
      .waitFor();
  }
  await context.close();
});

test('where the server may not go to Google nothing offers it, nor to who may only read', { skip }, async () => {
  const { id, context, page } = await opened({ isAvailable: false });
  await button(page, 'Subscribe…').waitFor();
  await eventually(async () => assert.equal(await button(page, 'Google…').count(), 0));
  await context.close();
  const { body } = await dev.api(`/api/admin/projects/${dev.projectId}/keys`, {
    method: 'POST',
    body: { name: 'reader', scopes: ['read'] },
  });
  const reader = await signedIn(browser, { ...dev, apiKey: body.key }, OPTIONS);
  await reader.page.goto(`${dev.url}/calendar?calendar=${id}&dialog=google`);
  await reader.page.getByRole('grid').waitFor();
  await eventually(async () => assert.equal(await dialog(reader.page).count(), 0));
  await reader.context.close();
});

test('a calendar that is linked is not deleted, and the reason is shown', { skip }, async () => {
  const { id, context, page } = await opened({ link: LINKED });
  await page.route(`**/api/calendars/${id}`, (route) =>
    route.fulfill(problem(409, 'calendar_linked', "the calendar is linked with one of Google's: unlink it first")),
  );
  await button(page, 'Delete calendar').click();
  await agree(page, 'Delete calendar');
  await page.getByRole('alert').getByText('unlink it first (calendar_linked)').waitFor();
  await context.close();
});
