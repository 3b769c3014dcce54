// Agents: their editor, versions, answers side by side and feedback; and the accounts and tools of MCP servers. In a real browser over a real
// `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { lastQuestion } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { startMcp } from './support/mcp.mjs';
import { skip, stage } from './support/stage.mjs';

/** Answers with the prompt's mood, so that versions differ. */
function reply(messages) {
  const mood = /Mood (\w+)/.exec(JSON.stringify(messages))?.[1] ?? 'silent';
  return { text: `${mood} answer to ${lastQuestion(messages)}`, paceMs: 0 };
}

const { dev, browser } = await stage(reply);

const OPTIONS = { bypassCSP: true, viewport: { width: 1280, height: 900 } };
const definitions = () => `/api/admin/projects/${dev.projectId}/agent-definitions`;

async function stored(id) {
  const { body } = await dev.api(`${definitions()}/${id}`);
  return body;
}

async function changed(id, body) {
  const { status, body: now } = await dev.api(`${definitions()}/${id}`, { method: 'PATCH', body });
  assert.equal(status, 200, JSON.stringify(now));
  return now;
}

async function named(name) {
  const { body } = await dev.api(`${definitions()}?visibility=all&limit=100`);
  return body.items.find((one) => one.name === name);
}

/** Asks an agent over the API; the run's end is awaited. Returns the conversation's answer. */
async function answered(agentDefinitionId, message) {
  const posted = await dev.api('/api/chat/stream', { method: 'POST', body: { message, agentDefinitionId } });
  assert.equal(posted.status, 202, JSON.stringify(posted.body));
  return until('the answer', async () => {
    const { body } = await dev.api(`/api/conversations/${posted.body.conversationId}/messages?limit=100`);
    return body.items.find((one) => one.role === 'assistant');
  });
}

const field = (page, name) => page.getByLabel(name, { exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const wrong = (page, name) => field(page, name).and(page.locator('[aria-invalid="true"]'));

test('an agent is made with a model, tools and settings that are chosen, and mistakes are at their fields', {
  skip,
}, async () => {
  const { context, page } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=new`);
  await field(page, 'Name').fill('graph-query-agent');

  await button(page, 'Choose model…').click();
  const models = page.getByRole('dialog', { name: 'Choose a model' });
  await models.getByRole('searchbox', { name: 'Find models' }).fill('no such model');
  await models.getByText('No matching models.').waitFor();
  await models.getByRole('searchbox', { name: 'Find models' }).fill('openai:');
  const first = models.getByRole('row').nth(1).getByRole('button');
  const model = await first.innerText();
  await accessible(page, 'the catalogue of models');
  await first.click();
  await models.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await field(page, 'Model').inputValue(), model));
  await page.getByText('per million tokens').first().waitFor();

  await field(page, 'Tools').fill('list_*');
  await field(page, 'Tools').press('Enter');
  await button(page, 'Choose tools…').click();
  const tools = page.getByRole('dialog', { name: 'Choose tools' });
  await tools.getByRole('group', { name: /^Built-in/ }).waitFor();
  await tools.getByRole('searchbox', { name: 'Find tools' }).fill('list_entity_types');
  const granted = tools.getByRole('checkbox', { name: /^list_entity_types/ });
  await granted.waitFor();
  await eventually(async () =>
    assert.ok((await granted.isChecked()) && (await granted.isDisabled()), 'it is granted by the glob'),
  );
  await tools.getByRole('searchbox', { name: 'Find tools' }).fill('search_entities');
  const choice = tools.getByRole('checkbox', { name: /^search_entities read-only/ });
  await choice.check();
  await accessible(page, 'the tools');
  await button(tools, 'Done').click();
  await page.getByRole('list', { name: 'Chosen tools' }).getByText('search_entities').waitFor();

  await field(page, 'Flow').selectOption('loop');
  await field(page, 'Agents of the flow').fill('graph-query-agent');
  await field(page, 'Maximum rounds').fill('3');
  await field(page, 'Maximum cost (USD)').fill('1.5');
  await field(page, 'Specialty: keywords').fill('-');
  await field(page, 'Other configuration (JSON)').fill('{"colour": "green"}');
  await button(page, 'Create agent').click();
  await wrong(page, 'Specialty: keywords').waitFor();
  await page.getByRole('alert').getByText('config.specialty.keywords').waitFor();
  await field(page, 'Specialty: keywords').fill('past due');
  await button(page, 'Create agent').click();
  await wrong(page, 'Name').waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-invalid') === 'true');
  await accessible(page, 'a mistake');
  await field(page, 'Name').fill('maker');
  await button(page, 'Create agent').click();
  await page.getByRole('link', { name: 'maker', exact: true }).waitFor();

  const made = await named('maker');
  assert.deepEqual([made.model, made.tools, made.flowType], [{ name: model }, ['list_*', 'search_entities'], 'loop']);
  assert.deepEqual(made.config, {
    colour: 'green',
    flow: { agents: ['graph-query-agent'], maxIterations: 3 },
    limits: { costUsd: 1.5 },
    specialty: { keywords: ['past due'] },
  });
  await field(page, 'Maximum rounds').waitFor();
  await eventually(async () =>
    assert.deepEqual(JSON.parse(await field(page, 'Other configuration (JSON)').inputValue()), { colour: 'green' }),
  );
  await context.close();
});

test('a setting in the JSON part counts, and its field can not be edited', { skip }, async () => {
  const id = await dev.agent('jason', []);
  const { context, page } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}`);
  await field(page, 'Other configuration (JSON)').fill('{"questions": 2}');
  await page.getByText('Set in the JSON below.').waitFor();
  await eventually(async () => assert.ok(await field(page, 'Maximum questions').isDisabled()));
  await button(page, 'Save').click();
  await page.getByText('Saved.').waitFor();
  await eventually(async () => assert.deepEqual((await stored(id)).config, { questions: 2 }));
  await eventually(async () =>
    assert.equal(await field(page, 'Maximum questions').inputValue(), '2', 'it has its field now'),
  );
  await context.close();
});

test('only changed fields are saved, and a limit can be cleared', { skip }, async () => {
  const id = await dev.agent('shared', []);
  await changed(id, { maxSteps: 3 });
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}`);
  await field(page, 'Maximum steps').fill('');
  await changed(id, { description: 'Of another user.' });
  await button(page, 'Save').click();
  await page.getByText('Saved.').waitFor();
  const { maxSteps, description } = await stored(id);
  assert.deepEqual([maxSteps ?? null, description], [null, 'Of another user.']);
  await eventually(async () => assert.equal(await field(page, 'Description').inputValue(), 'Of another user.'));
  assert.deepEqual(faults, []);
  await context.close();
});

test('leaving with unsaved changes asks', { skip }, async () => {
  const id = await dev.agent('draft', []);
  const { context, page } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}`);
  await field(page, 'Description').fill('Not saved.');
  await page.getByText('Unsaved changes.').waitFor();
  await page.getByRole('link', { name: 'Versions', exact: true }).click();
  await accessible(page, 'the question');
  await agree(page, 'Cancel');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await field(page, 'Description').inputValue(), 'Not saved.'));
  await button(page, 'Undo changes').click();
  await eventually(async () => assert.equal(await field(page, 'Description').inputValue(), 'Is draft.'));
  await field(page, 'Description').fill('Not saved.');
  await page.getByRole('link', { name: /^graph-query-agent/ }).click();
  await agree(page, 'Discard changes');
  await page.waitForFunction((left) => !location.search.includes(left), id);
  await eventually(async () => assert.equal((await stored(id)).description, 'Is draft.'));
  await context.close();
});

test('versions are listed, compared by field and line, and restored', { skip }, async () => {
  const id = await dev.agent('moody', []);
  await changed(id, { systemPrompt: 'Be kind.\nStay short.' });
  await changed(id, { systemPrompt: 'Be kind.\nStay long.', maxSteps: 4 });
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}&view=versions`);
  await page
    .getByRole('row', { name: /3 current/ })
    .getByText('System prompt, Maximum steps')
    .waitFor();
  const diff = page.getByRole('region', { name: 'From version 2 to version 3' });
  await diff.getByText('Stay short.').waitFor();
  await diff.getByText('Stay long.').waitFor();
  await diff.getByRole('region', { name: 'Maximum steps' }).getByText('4').waitFor();
  await accessible(page, 'versions');
  await page.getByRole('radio', { name: 'Version 1 before' }).click();
  await page.getByRole('region', { name: 'From version 1 to version 3' }).getByText('You answer.').waitFor();
  await button(page, 'Restore version 2').click();
  await agree(page, 'Restore this version');
  await page.getByText('Version 2 restored as version 4.').waitFor();
  const now = await stored(id);
  assert.deepEqual([now.version, now.systemPrompt, now.maxSteps ?? null], [4, 'Be kind.\nStay short.', null]);
  await page.getByRole('row', { name: /4 current/ }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('two versions answer the same question side by side', { skip }, async () => {
  const id = await dev.agent('twofold', []);
  await changed(id, { systemPrompt: 'Mood kind' });
  await changed(id, { systemPrompt: 'Mood brief' });
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}&view=try`);
  await field(page, 'Question to both versions').fill('hello');
  await button(page, 'Ask both versions').click();
  await page.getByRole('region', { name: 'Answer of version 2' }).getByText('kind answer to hello').waitFor();
  await page.getByRole('region', { name: 'Answer of version 3' }).getByText('brief answer to hello').waitFor();
  await accessible(page, 'two answers');
  const left = page.getByRole('combobox', { name: 'Left version', exact: true });
  await left.selectOption('1');
  await until('it is chosen', async () => (await left.inputValue()) === '1');
  await button(page, 'Ask both versions').click();
  await page.getByRole('region', { name: 'Answer of version 1' }).getByText('silent answer to hello').waitFor();
  await page.getByRole('link', { name: 'Compare the two runs' }).click();
  await page.waitForURL(/\/runs\/[^/]+\/compare\//);
  assert.deepEqual(faults, []);
  await context.close();
});

test('answers with negative feedback lead to their runs, and are exported', { skip }, async () => {
  const id = await dev.agent('rated', []);
  const [bad, good] = [await answered(id, 'a bad one'), await answered(id, 'a good one')];
  for (const [message, body] of [
    [bad, { helped: false, comment: 'Off the point.', labels: ['wrong'] }],
    [good, { helped: true }],
  ]) {
    const { status } = await dev.api(`/api/messages/${message.id}/feedback`, { method: 'PUT', body });
    assert.equal(status, 204);
  }
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/agents?agent=${id}&view=feedback`);
  const list = page.getByRole('region', { name: 'Feedback on rated' });
  await list.getByText('a bad one').first().waitFor();
  await list.getByText('Off the point.').waitFor();
  await list.getByText('version 1').waitFor();
  await eventually(async () => assert.equal(await list.getByText('a good one').count(), 0));
  await accessible(page, 'feedback');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    list.getByRole('link', { name: 'Export as NDJSON' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'feedback.ndjson');
  await field(page, 'Label').fill('slow');
  await list.getByText('No feedback matches').waitFor();
  await field(page, 'Label').fill('wrong');
  await list.getByRole('link', { name: 'Open run' }).click();
  await page.getByRole('heading', { level: 1, name: 'rated' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a server shows the account of its user, and a tool whose definition has changed is approved again', {
  skip,
}, async () => {
  const mcp = await startMcp();
  const { status, body: server } = await dev.api(`/api/admin/projects/${dev.projectId}/mcp-servers`, {
    method: 'POST',
    body: { name: 'tracker', transport: 'http', url: `${mcp.url}/mcp`, approval: 'first' },
  });
  assert.equal(status, 201, JSON.stringify(server));
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.route('**/api/mcp-accounts', (route) =>
    route.fulfill({ json: { items: [{ serverId: server.id, serverName: 'tracker', connected: false }] } }),
  );
  await page.goto(`${dev.url}/tools`);
  await page.getByText('not connected', { exact: true }).waitFor();
  await page.getByText('tracker', { exact: true }).click();
  await button(page, 'Test').click();
  await page.getByText('approved', { exact: true }).nth(1).waitFor();
  await page.getByText('read-only', { exact: true }).waitFor();
  mcp.tools[1].description = 'Does something else.';
  await button(page, 'Test').click();
  await page.getByText('changed', { exact: true }).waitFor();
  await page.getByText('second', { exact: true }).click();
  await page.getByText('The definition changed').waitFor();
  await accessible(page, 'a changed tool');
  await button(page, 'Approve second').click();
  await page.getByText('changed', { exact: true }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Connect your account at tracker' }).click();
  await page.getByRole('heading', { level: 1, name: 'Accounts' }).waitFor();
  assert.ok(page.url().includes(server.id));
  assert.deepEqual(faults, []);
  await context.close();
  await mcp.stop();
});
