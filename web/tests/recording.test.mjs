// A recorded conversation with all kinds of events of planning agents, rendered by the page. The server's tests record it, and compare
// it with the server's events; here it is compared with what people see.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const RECORDING = new URL(
  '../../tests/tests/conversations/chat/snapshots/conversations__chat__story__story_events.snap',
  import.meta.url,
);
/** The kinds of events in the recording. If there is a new kind: see to it that it is shown, and name it here. */
const KINDS =
  'agent_state clarifying_questions context_shift context_usage done error executor_result executor_spawned focus_active focus_changed last_turn_context ' +
  'mcp_tool message meta operation plan_created plan_ready_for_review plan_review question question_answered step_complete step_start sub_agent token usage';

const { dev, browser } = await stage();

/** The recorded events, with something in the place of what differs from day to day. */
function recorded() {
  const [, , body] = readFileSync(RECORDING, 'utf8').split(/^---$/m);
  return JSON.parse(body, (name, value) => {
    if (value !== '…') return value;
    return ['createdAt', 'timestamp'].includes(name) ? '2027-01-01T12:00:00Z' : 7;
  });
}

// Requirements: E01, E17, E20, E26, E60.
test('a recorded story of plans, questions and shifts is shown with all its parts', {
  skip,
}, async () => {
  const events = recorded();
  assert.deepEqual([...new Set(events.map(({ type }) => type))].sort().join(' '), KINDS);
  const { context, page, faults } = await signedIn(browser, dev);
  const posted = await dev.api('/api/chat/stream', { method: 'POST', body: { message: 'hello' } });
  assert.equal(posted.status, 202, JSON.stringify(posted.body));
  const frames = [{ type: 'snapshot', through: 0, messages: [], turn: null }, ...events];
  let sent = 0;
  await page.route(/\/api\/conversations\/[^/]+\/events/, async (route) => {
    // A reader that joins again has all events already: nothing more comes.
    if (sent > 0) return;
    sent += 1;
    const body = frames.map((event, seq) => `id: ${seq}\ndata: ${JSON.stringify(event)}\n\n`).join('');
    await route.fulfill({ contentType: 'text/event-stream', body });
  });
  await page.goto(`${dev.url}/c/${posted.body.conversationId}`);
  const turns = page.locator('.items > li > article.turn');
  await page.waitForFunction(() => document.querySelectorAll('.items > li > article.turn').length === 3);
  assert.equal(sent, 1);

  // Asked before it began, then led into the project that it began.
  const first = turns.nth(0);
  await first.getByText('By when?').waitFor();
  await first.getByText('in May').waitFor();
  await first.getByText('Moon is begun.').waitFor();
  const lines = (turn) => turn.getByRole('list', { name: 'Operations' }).getByRole('listitem').allInnerTexts();
  await eventually(async () =>
    assert.deepEqual(
      (await lines(first)).map((line) => line.replaceAll(/\s+/g, ' ').trim()),
      ['created project Moon'],
    ),
  );

  // A draft that waited, was approved, and carried out by executors whose calls are their own.
  const second = turns.nth(1);
  const plan = second.getByRole('region', { name: /^Plan: / });
  await plan.getByText('2 of 2 steps').waitFor();
  await eventually(async () =>
    assert.deepEqual(await plan.locator(':scope > ol > li > p:first-child').allInnerTexts(), [
      '1. Look around completed',
      '2. Write it down completed',
    ]),
  );
  const [looked, wrote] = [plan.locator(':scope > ol > li').nth(0), plan.locator(':scope > ol > li').nth(1)];
  await eventually(async () => assert.equal(await looked.getByText('where_am_i').count(), 1));
  await eventually(async () => assert.equal(await wrote.getByText('where_am_i').count(), 0));
  await second.getByText('The plan is done.').first().waitFor();

  // What failed says so, and nothing is left open.
  await turns.nth(2).getByRole('alert').or(turns.nth(2).locator('.bad')).first().waitFor();
  await eventually(async () =>
    assert.deepEqual(await turns.evaluateAll((all) => all.map((turn) => turn.getAttribute('aria-busy'))), [
      'false',
      'false',
      'false',
    ]),
  );
  await eventually(async () => assert.equal(await page.getByRole('form', { name: 'The agent asks' }).count(), 0));
  await page.getByRole('meter').waitFor();
  assert.deepEqual(
    await page
      .getByRole('article', { name: 'You' })
      .allInnerTexts()
      .then((texts) => texts.map((one) => one.split('\n')[0])),
    ['a trip', 'plan it', 'and break'],
  );
  assert.deepEqual(faults, []);
  await context.close();
});
