// What a chat shows around its words: Markdown, branches, handoffs, feedback, pauses; and where the focus is. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const MARKDOWN = [
  '# A heading of the answer',
  'A claim[^1] and another[^two], with [a link][docs].',
  '```js\nconst one = 1;\n```',
  '- [x] done\n- [ ] open',
  `| Number of queries | Size | ${'A long heading of a column | '.repeat(6)}\n| --- | --- | ${'--- | '.repeat(6)}\n| 1 | 2 | ${'incomprehensibilities | '.repeat(6)}`,
  'In code `[^1]` stays.',
  '[^1]: The **first** note.',
  '[^two]: The second note,\n    in two lines.',
  '[docs]: https://docs.example/page',
].join('\n\n');

function reply(messages) {
  const asked = String(messages.findLast((message) => message.role === 'user')?.content);
  const last = messages.at(-1);
  if (asked.includes('dressed')) return { text: MARKDOWN, paceMs: 0 };
  if (asked.includes('You have reached the maximum number of steps')) return { text: 'This is as far as it is.' };
  if (asked.includes('You were paused')) return { text: 'Now it is done.' };
  if (asked.includes('work on')) return { tools: [{ name: 'schema_version', arguments: {} }] };
  if (asked.includes('for ever')) return { text: 'word '.repeat(600), paceMs: 100 };
  if (asked.includes('break off')) return { text: 'These words came before it broke.', paceMs: 1, breaks: true };
  if (asked.includes('hand over')) {
    return last.role === 'tool' || messages[0].content.includes('SECOND')
      ? { text: 'The second answers.' }
      : { tools: [{ name: 'transfer_to_second', arguments: { reason: 'It knows more' } }] };
  }
  return { text: `You said: ${asked}` };
}

const { dev, browser } = await stage(reply, {
  workers: 1,
  env: { REJOIN_DEBUG_AGENT_CONTEXT: 'true', REJOIN_RETRY_LIMIT: '0' },
});

const field = (page) => page.getByRole('textbox', { name: 'Message', exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const conversationOf = (page) => page.url().split('/c/')[1];

async function definition(body) {
  const made = await dev.api(`/api/admin/projects/${dev.projectId}/agent-definitions`, {
    method: 'POST',
    body: {
      description: 'Is there.',
      systemPrompt: 'FIRST',
      model: { name: 'openai:scripted' },
      tools: [],
      config: {},
      ...body,
    },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.id;
}

test('footnotes, references, tables, code and headings of an answer are whole', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 1280, height: 900 } });
  await ask(page, 'all dressed');
  await finished(page);
  for (const visit of ['streamed', 'opened again']) {
    const text = answer(page).locator('.markdown');
    const notes = text.getByRole('region', { name: 'Footnotes' });
    await eventually(async () =>
      assert.deepEqual(
        await notes.getByRole('listitem').allInnerTexts(),
        ['The first note.', 'The second note, in two lines.'],
        visit,
      ),
    );
    await text.getByRole('button', { name: 'Footnote 2' }).click();
    await eventually(async () =>
      assert.match(
        await page.evaluate(() => document.activeElement?.textContent ?? ''),
        /^\s*The second note,\sin two lines\.\s*$/,
      ),
    );
    await eventually(async () =>
      assert.equal(await text.getByRole('link', { name: 'a link' }).getAttribute('href'), 'https://docs.example/page'),
    );
    await eventually(async () => assert.equal(await text.getByText('In code').innerText(), 'In code [^1] stays.'));
    await eventually(async () =>
      assert.equal((await text.innerText()).match(/\[\^/g).length, 1, 'no reference is left as it was written'),
    );
    // No word of a table is broken: a cell is as wide as its words, and the table scrolls by itself.
    const table = text.getByRole('region', { name: 'Table' });
    const lines = await table.locator('td').evaluateAll((cells) =>
      cells.map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
      }),
    );
    assert.deepEqual(new Set(lines), new Set([1]));
    await eventually(async () =>
      assert.ok(await table.evaluate((element) => element.scrollWidth > element.clientWidth)),
    );
    await eventually(async () =>
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth),
      ),
    );
    // The table is a file for spreadsheets.
    await table.hover();
    const saved = page.waitForEvent('download');
    await text.getByRole('button', { name: 'Download as CSV' }).click();
    assert.equal((await saved).suggestedFilename(), 'table.csv');
    // The copy button stands beside the code, not on it.
    const [copy, code] = await Promise.all([
      text.getByRole('button', { name: 'Copy: the code' }).boundingBox(),
      text.locator('pre code').boundingBox(),
    ]);
    assert.ok(copy.y + copy.height <= code.y, JSON.stringify({ copy, code }));
    await text.getByRole('checkbox', { name: 'Done', exact: true }).waitFor();
    await text.getByRole('checkbox', { name: 'Not done', exact: true }).waitFor();
    await eventually(async () => assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1));
    await text.getByRole('heading', { level: 3, name: 'A heading of the answer' }).waitFor();
    await page.reload();
    await finished(page);
  }
  await context.close();
});

test('an edited message begins a branch that shows what it is based on, and leads back', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'the first question');
  await finished(page);
  await ask(page, 'the secnd question');
  await answer(page).getByText('You said: the secnd question').waitFor();
  await finished(page);
  const original = page.url();
  const second = page.getByRole('article', { name: 'You', exact: true }).last();
  await second.hover();
  await second.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'Edit message' }).fill('the second question');
  await button(page, 'Send as new branch').click();
  await page.waitForURL((url) => url.href !== original && url.pathname.startsWith('/c/'));
  await answer(page).getByText('You said: the second question').waitFor();
  const basis = page.getByText('This chat is a branch of');
  for (const visit of ['at once', 'opened again']) {
    await basis.waitFor();
    await finished(page);
    await eventually(async () =>
      assert.deepEqual(
        await page.locator('.mine > p, article.turn .markdown').allInnerTexts(),
        ['the first question', 'You said: the first question', 'the second question', 'You said: the second question'],
        visit,
      ),
    );
    await eventually(async () =>
      assert.match(await page.getByRole('heading', { level: 1 }).innerText(), /^Branch: the first question$/),
    );
    await eventually(async () => assert.equal(await page.title(), 'Branch: the first question · Rejoin'));
    await page
      .getByRole('navigation', { name: 'Chats' })
      .getByRole('link', { name: 'Branch: the first question' })
      .waitFor();
    await page.reload();
  }
  await basis.getByRole('link', { name: 'the first question' }).click();
  await page.waitForURL(original);
  await context.close();
});

test('a paused answer says why once, and goes on from the chat', { skip }, async () => {
  const id = await definition({ name: 'hurried', maxSteps: 1, tools: ['schema_version'] });
  const { context, page } = await signedIn(browser, dev);
  await page.getByLabel('Agent', { exact: true }).selectOption(id);
  await ask(page, 'work on');
  await answer(page).getByText('paused', { exact: true }).waitFor();
  const reason = answer(page).getByText('the run was paused at its step limit');
  await reason.waitFor();
  await eventually(async () => assert.equal(await reason.count(), 1));
  await answer(page).getByRole('button', { name: 'Continue' }).click();
  await answer(page).getByText('Now it is done.').waitFor();
  await finished(page);
  await eventually(async () => assert.equal(await button(page, 'Continue').count(), 0));
  await context.close();
});

// Requirements: D19.
test('a handoff is shown where it happened, and what a development server says about the turn is folded', {
  skip,
}, async () => {
  await definition({ name: 'second', systemPrompt: 'SECOND' });
  const id = await definition({ name: 'first', config: { handoffs: ['second'] } });
  const { context, page } = await signedIn(browser, dev);
  await page.getByLabel('Agent', { exact: true }).selectOption(id);
  await ask(page, 'hand over');
  await answer(page).getByText('The second answers.').waitFor();
  await finished(page);
  // Of a turn that is over, all of its log is read.
  await page.reload();
  await answer(page).locator('.handoff').waitFor();
  await eventually(async () =>
    assert.equal(await answer(page).locator('.handoff').innerText(), 'Handed off from first to second: It knows more'),
  );
  await answer(page).getByText('Details', { exact: true }).click();
  await answer(page).getByRole('region', { name: 'Request routing' }).first().waitFor();
  await context.close();
});

// Requirements: D58.
test('another agent answers in an open chat from the next message on', { skip }, async () => {
  const [early, late] = [await definition({ name: 'early' }), await definition({ name: 'late' })];
  const { context, page } = await signedIn(browser, dev);
  const agent = page.getByLabel('Agent', { exact: true });
  await agent.selectOption(early);
  await ask(page, 'who is there?');
  await answer(page).getByText('early', { exact: true }).waitFor();
  await finished(page);
  await eventually(async () => assert.equal(await agent.inputValue(), early));
  // A message that is sent at once is answered by the new one.
  await agent.selectOption(late);
  await ask(page, 'and now?');
  await answer(page).getByText('You said: and now?').waitFor();
  await answer(page).getByText('late', { exact: true }).waitFor();
  await finished(page);
  await page.reload();
  await until('it is shown', async () => (await agent.count()) === 1 && (await agent.inputValue()) === late);
  const problem = { code: 'busy', detail: 'The database is busy.' };
  await page.route('**/api/conversations/*', (route) =>
    route.request().method() === 'PATCH' ? route.fulfill({ status: 503, json: problem }) : route.fallback(),
  );
  await agent.selectOption(early);
  await page.getByRole('alert').getByText('The database is busy.').waitFor();
  await eventually(async () => assert.equal(await agent.inputValue(), late));
  await context.close();
});

test('an answer is rated, and rated again', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'rate me');
  await finished(page);
  const rated = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/feedback')) rated.push(request.postDataJSON());
  });
  const choices = answer(page).getByRole('group', { name: 'Did this answer help?' });
  for (const name of ['Helpful', 'Not helpful']) {
    await choices.getByRole('button', { name, exact: true }).click();
    await choices.getByRole('button', { name, exact: true, pressed: true }).waitFor();
  }
  assert.deepEqual(rated, [{ helped: true }, { helped: false }]);
  await eventually(async () => assert.equal(await choices.getByRole('button', { pressed: true }).count(), 1));
  await context.close();
});

test('stopping keeps the focus, Escape stops only an answer, and both are announced', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'go on for ever');
  await answer(page).getByText('word word').waitFor();
  // While an input method is open, and while something is being written, Escape is not about the answer.
  await field(page).evaluate((element) =>
    element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', isComposing: true, bubbles: true })),
  );
  await field(page).fill('half a thought');
  await field(page).press('Escape');
  const words = (await answer(page).locator('.markdown').innerText()).length;
  await until('it goes on', async () => (await answer(page).locator('.markdown').innerText()).length > words + 20);
  await eventually(async () => assert.equal(await answer(page).getAttribute('aria-busy'), 'true'));
  await button(page, 'Stop').click();
  await answer(page).getByText('cancelled').waitFor();
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement?.id), 'words'));
  await page.getByRole('status').getByText('Answer stopped.').waitFor();
  await field(page).fill('');
  await ask(page, 'again for ever');
  await page.locator('article.turn').nth(1).getByText('word word').waitFor();
  await field(page).press('Escape');
  await answer(page).getByText('cancelled').waitFor();
  await ask(page, 'a short one');
  await page.getByRole('status').getByText('Answer finished.').waitFor();
  await page.getByRole('log', { name: 'Messages' }).waitFor();
  await context.close();
});

test('a run whose answer broke off shows its words, and is asked again or forked from its page', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'break off');
  await answer(page).getByText('failed', { exact: true }).waitFor({ timeout: 60_000 });
  const conversation = page.url();
  await answer(page).getByRole('link', { name: 'View trace' }).click();
  const partial = page.getByRole('region', { name: 'Partial answer' });
  await partial.getByText('These words came before it broke.').waitFor();
  await button(page, 'Fork').waitFor();
  await button(page, 'Retry').click();
  await page.waitForURL(conversation);
  await page.getByRole('article', { name: 'You', exact: true }).nth(1).waitFor();
  await context.close();
});

// Requirements: E11, E37.
test('a chat is warmed as it opens and as its focus changes, down to one task', { skip }, async () => {
  const made = await dev.api('/api/onto/projects/instantiate', {
    method: 'POST',
    body: { project: { name: 'Garden' } },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const task = await dev.api('/api/onto/tasks/create', {
    method: 'POST',
    body: { projectId: made.body.project.id, title: 'Dig' },
  });
  assert.equal(task.status, 201, JSON.stringify(task.body));
  const { context, page } = await signedIn(browser, dev);
  const warmed = [];
  page.on('response', (response) => {
    if (response.url().endsWith('/api/agent/prewarm')) warmed.push(response.json().catch(() => ({})));
  });
  await ask(page, 'hello');
  await finished(page);
  await until('it was warmed as it opened', () => warmed.length > 0);
  const about = page.getByRole('group', { name: 'Conversation context' });
  const count = warmed.length;
  await about.getByRole('button', { name: 'Add project' }).click();
  await about.getByRole('button', { name: 'Garden', exact: true }).click();
  await until(
    'it was warmed for the project',
    async () => warmed.length > count && (await warmed.at(-1)).warmed === true,
  );
  await about.getByLabel('Project item').selectOption('task');
  await about.getByLabel('Choose a task').selectOption({ label: 'Dig' });
  const focus = {
    projectId: made.body.project.id,
    projectName: 'Garden',
    focusType: 'task',
    focusEntityId: task.body.id,
  };
  await until(
    'the focus is stored',
    async () =>
      JSON.stringify((await dev.api(`/api/conversations/${conversationOf(page)}`)).body.projectFocus) ===
      JSON.stringify(focus),
  );
  await about.locator('.chip').getByText('task').waitFor();
  await context.close();
});
