// Evaluation sets: their cases, and evaluations of agents with them. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn } from './support/browser.mjs';
import { lastQuestion } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { cutOff, settled, smallTargets } from './support/layout.mjs';
import { skip, stage } from './support/stage.mjs';
import { another } from './support/users.mjs';

const AUSTRALIA = 'What is the capital of Australia?';
const FRANCE = 'What is the capital of France?';
const FIJI = 'What is the capital of Fiji?';
const LONG = Array(40).fill(FRANCE).join(' ');

/** Careful agents know Australia, the others Fiji. */
function reply(messages) {
  const all = JSON.stringify(messages);
  const question = lastQuestion(messages);
  if (all.includes('You judge answers of another agent'))
    return { text: JSON.stringify(verdictOn(question)), paceMs: 0 };
  const isKnown = question.includes('France') || question.includes(all.includes('Be careful') ? 'Australia' : 'Fiji');
  return { text: isKnown ? 'I know it well.' : 'I can only guess.', paceMs: 0 };
}

function verdictOn(words) {
  return words.includes('I can only guess')
    ? { passed: false, score: 0.25, reason: 'It is a guess.' }
    : { passed: true, score: 1, reason: 'It is known.' };
}

const { model, dev, browser } = await stage(reply, { workers: 2 });

const OPTIONS = { bypassCSP: true, viewport: { width: 1280, height: 900 } };
const field = (within, name) => within.getByRole('textbox', { name, exact: true });
const select = (within, name) => within.getByRole('combobox', { name, exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const dialog = (page, name) => page.getByRole('dialog', { name, exact: true });
const row = (page, text) => page.getByRole('row').filter({ hasText: text });
const sets = (path = '') => `/api/projects/${dev.projectId}/evaluation-sets${path}`;

async function sent(path, body, method = 'POST') {
  const answer = await dev.api(path, { method, body });
  assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Makes a set with cases of these questions; its id. */
async function made(name, questions) {
  const { id } = await sent(sets(), { name });
  if (questions.length > 0) await sent(sets(`/${id}/cases`), { cases: questions.map((question) => ({ question })) });
  return id;
}

/** Evaluates an agent; the evaluation, once it is over. */
async function evaluated(set, agentDefinitionId) {
  const { id } = await sent(sets(`/${set}/evaluations`), { agentDefinitionId });
  return over(set, id);
}

function over(set, id) {
  return until('the evaluation is over', async () => {
    const { body } = await dev.api(sets(`/${set}/evaluations/${id}`));
    return ['completed', 'failed', 'cancelled'].includes(body.state) && body;
  });
}

/** Asks an agent in a chat; the answer's message and run, once it is stored. */
async function answered(agentDefinitionId, message) {
  const { conversationId, runId } = await sent('/api/chat/stream', { message, agentDefinitionId });
  return until('the answer', async () => {
    const { body } = await dev.api(`/api/conversations/${conversationId}/messages?limit=100`);
    const found = body.items.find(({ role }) => role === 'assistant');
    return found && { messageId: found.id, conversationId, runId };
  });
}

test('a set is made, and its cases are added, edited and deleted', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.getByRole('navigation', { name: 'Views', exact: true }).getByRole('link', { name: 'Evaluations' }).click();
  await page.getByText('No evaluation sets yet').waitFor();
  await accessible(page, 'no evaluation set');
  await button(page, 'New evaluation set').click();
  await field(page, 'Name').fill('Capitals');
  await field(page, 'Description').fill('Of all countries.');
  await accessible(page, 'a new evaluation set');
  await button(page, 'Create evaluation set').click();
  await page.getByRole('heading', { level: 1, name: 'Capitals' }).waitFor();
  await page.getByText('Of all countries.').waitFor();
  await page.getByText('No cases yet').waitFor();
  await eventually(async () => assert.ok(await button(page, 'Run evaluation').isDisabled()));

  await button(page, 'Add case').click();
  await field(page, 'Question').fill(FRANCE);
  await field(page, 'Expected answer').fill('Paris');
  await button(dialog(page, 'Add case'), 'Add case').click();
  await row(page, FRANCE).getByText('Paris').waitFor();
  await button(page, 'Add case').click();
  await field(page, 'Question').fill('What is the capital of Atlantis?');
  await button(dialog(page, 'Add case'), 'Add case').click();
  await row(page, 'Atlantis').getByText('none').waitFor();
  await accessible(page, 'cases');

  await button(page, `Edit: ${FRANCE}`).click();
  await field(page, 'Expected answer').fill('');
  await button(dialog(page, 'Edit case'), 'Save').click();
  await row(page, FRANCE).getByText('none').waitFor();
  await button(page, 'Delete: What is the capital of Atlantis?').click();
  await accessible(page, 'the question before a deletion');
  await agree(page, 'Delete case');
  await row(page, 'Atlantis').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await button(page, 'Run evaluation').isDisabled(), false));
  assert.deepEqual(faults, []);
  await context.close();
});

test('a set is renamed, not to the name of another, and deleted', { skip }, async () => {
  const id = await made('Old name', []);
  await made('Taken name', []);
  const { context, page } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/evaluations`);
  await page.getByRole('link', { name: 'Old name' }).click();
  await button(page, 'Edit').click();
  await field(page, 'Name').fill('Taken name');
  await button(page, 'Save').click();
  await page.getByRole('alert').getByText('name_taken').waitFor();
  await field(page, 'Name').fill('New name');
  await button(page, 'Save').click();
  await page.getByRole('heading', { level: 1, name: 'New name' }).waitFor();
  await page.getByRole('navigation', { name: 'Breadcrumbs' }).getByText('New name').waitFor();
  await button(page, 'Delete').click();
  await agree(page, 'Delete evaluation set');
  await page.getByText('Deleted “New name”.').waitFor();
  await page.waitForURL(/\/evaluations$/);
  await row(page, 'Taken name').waitFor();
  await eventually(async () => assert.equal(await row(page, 'New name').count(), 0));
  assert.equal((await dev.api(sets(`/${id}`))).status, 404);
  await context.close();
});

test('rated answers become cases, each once', { skip }, async () => {
  const agent = await dev.agent('rated', []);
  const [good, bad] = [await answered(agent, FIJI), await answered(agent, AUSTRALIA)];
  await sent(`/api/messages/${good.messageId}/feedback`, { helped: true }, 'PUT');
  await sent(`/api/messages/${bad.messageId}/feedback`, { helped: false }, 'PUT');
  const id = await made('Rated', []);
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/evaluations/${id}`);
  await button(page, 'Add from feedback').click();
  const form = dialog(page, 'Add from feedback');
  await select(form, 'Rating').selectOption('Helpful');
  await select(form, 'Agent').selectOption('rated');
  await button(form, 'Add cases').click();
  await form.getByText('1 case added.').waitFor();
  await select(form, 'Rating').selectOption('All');
  await button(form, 'Add cases').click();
  await form.getByText('1 case added. 1 was skipped: it is already in the set').waitFor();
  await button(form, 'Add cases').click();
  await form.getByText('No cases added. 2 were skipped: they are already in the set').waitFor();
  await accessible(page, 'cases from feedback');
  await button(form, 'Close').first().click();
  await form.waitFor({ state: 'detached' });
  await row(page, FIJI).getByText('I know it well.').waitFor();
  await row(page, AUSTRALIA).getByText('none').waitFor();
  await row(page, FIJI).getByRole('link', { name: 'View run' }).click();
  await page.waitForURL(new RegExp(`/runs/${good.runId}$`));
  assert.deepEqual(faults, []);
  await context.close();
});

test('a run is added to a set from its page and its chat', { skip }, async () => {
  const agent = await dev.agent('added', []);
  const { runId, conversationId } = await answered(agent, FIJI);
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/runs/${runId}`);
  await button(page, 'Add to evaluation set').click();
  const form = dialog(page, 'Add to evaluation set');
  await select(form, 'Evaluation set').selectOption('New evaluation set');
  await field(form, 'Name of the new set').fill('From runs');
  await form.getByLabel('The answer is the expected one').check();
  await accessible(page, 'a run for a set');
  await button(form, 'Add').click();
  await page.getByText('Added to “From runs”.').waitFor();
  await form.waitFor({ state: 'detached' });

  await page.goto(`${dev.url}/c/${conversationId}`);
  await button(page, 'Add to evaluation set').click();
  await select(form, 'Evaluation set').selectOption('From runs');
  await button(form, 'Add').click();
  await page.getByText('Not added: “From runs” already has this run').waitFor();
  const { items } = (await dev.api(sets())).body;
  const { id, cases } = items.find(({ name }) => name === 'From runs');
  assert.equal(cases, 1);
  const [one] = (await dev.api(sets(`/${id}/cases`))).body.items;
  assert.deepEqual([one.question, one.expected, one.runId], [FIJI, 'I know it well.', runId]);
  assert.deepEqual(faults, []);
  await context.close();
});

test('an evaluation is run, read, filtered and compared', { skip }, async () => {
  const agent = await dev.agent('traveller', []);
  const id = await made('Compared', [FRANCE, AUSTRALIA, FIJI]);
  const before = await evaluated(id, agent);
  const definition = `/api/admin/projects/${dev.projectId}/agent-definitions/${agent}`;
  await sent(definition, { systemPrompt: 'Be careful.' }, 'PATCH');

  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  await page.goto(`${dev.url}/evaluations/${id}`);
  await button(page, 'Run evaluation').click();
  const form = dialog(page, 'Run evaluation');
  await form.getByText('6 in total. Tools really run.').waitFor();
  await eventually(async () => assert.equal(await select(form, 'Agent').inputValue(), agent));
  await select(form, 'Judge').selectOption('Built-in judge (evaluation-judge)');
  await field(form, 'Criteria').fill('No guesses.');
  await accessible(page, 'a new evaluation');
  await button(form, 'Start evaluation').click();
  await page.getByRole('heading', { level: 1, name: 'Evaluation of traveller, version 2' }).waitFor();
  await page.getByText('No guesses.').waitFor();
  await row(page, FRANCE).getByText('passed', { exact: true }).waitFor();
  await row(page, AUSTRALIA).getByText('passed', { exact: true }).waitFor();
  await row(page, FIJI).getByText('not passed', { exact: true }).waitFor();
  await row(page, FIJI).getByText('It is a guess.').waitFor();
  await row(page, FIJI).getByText('0.25').waitFor();
  await page.getByText('66%').waitFor();
  await button(page, 'Cancel').waitFor({ state: 'detached' });
  await accessible(page, 'an evaluation');

  await button(page, FIJI).click();
  await page.getByRole('region', { name: 'Answer', exact: true }).getByText('I can only guess.').waitFor();
  await page.getByRole('region', { name: 'Expected answer' }).getByText('None').waitFor();
  await select(page, 'Show').selectOption('Not passed');
  await row(page, FRANCE).waitFor({ state: 'detached' });

  await select(page, 'Compare with').selectOption(before.id);
  await page
    .getByText('2 cases changed, compared with traveller, version 1. 1 now passes. 1 no longer passes.')
    .waitFor();
  await select(page, 'Show').selectOption('Changed');
  await page.waitForURL((url) => url.searchParams.get('show') === 'changed');
  await eventually(async () => assert.equal(await row(page, FRANCE).count(), 0));
  await eventually(async () =>
    assert.deepEqual(await row(page, AUSTRALIA).locator('.state').allInnerTexts(), ['passed', 'not passed']),
  );
  await accessible(page, 'a comparison');
  // A link shows the same.
  await page.reload();
  await row(page, AUSTRALIA).getByText('not passed').waitFor();
  await eventually(async () => assert.equal(await select(page, 'Compare with').inputValue(), before.id));
  await eventually(async () => assert.equal(await row(page, FRANCE).count(), 0));
  await select(page, 'Compare with').selectOption('None');
  await row(page, FRANCE).waitFor();
  assert.equal(new URL(page.url()).search, '');
  await row(page, FIJI).getByRole('link', { name: 'Judge run' }).click();
  await page.getByRole('heading', { level: 1, name: 'evaluation-judge' }).waitFor();
  await page.goBack();
  await page.getByRole('link', { name: 'View workflow' }).click();
  await page.waitForURL(/\/tasks\//);
  assert.deepEqual(faults, []);

  await page.goto(`${dev.url}/evaluations`);
  await row(page, 'Compared').getByText('2 of 3').waitFor();
  await row(page, 'Compared').getByRole('link', { name: 'traveller, version 2' }).click();
  await page.getByRole('link', { name: 'Compared', exact: true }).click();
  await page.waitForURL(/part=evaluations$/);
  await row(page, 'version 1').getByText('completed').waitFor();
  await context.close();
});

test('an evaluation under way is cancelled', { skip }, async () => {
  const agent = await dev.agent('slow', []);
  const id = await made('Cancelled', [`${FRANCE} Wait.`]);
  const goOn = model.hold('Wait.', 0);
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  const evaluation = await sent(sets(`/${id}/evaluations`), { agentDefinitionId: agent });
  await page.goto(`${dev.url}/evaluations/${id}/${evaluation.id}`);
  await row(page, FRANCE).getByText('answering').waitFor();
  await button(page, 'Cancel').click();
  await page.locator('.title').getByText('cancelled').waitFor();
  await button(page, 'Cancel').waitFor({ state: 'detached' });
  goOn();
  assert.deepEqual(faults, []);
  await context.close();
});

test('who may only read sees sets and results, and changes nothing', { skip }, async () => {
  const agent = await dev.agent('shown', []);
  const id = await made('For readers', [LONG]);
  const evaluation = await evaluated(id, agent);
  const { context, page, faults } = await signedIn(browser, another(dev, 'reader', { scopes: 'read' }), OPTIONS);
  await page.goto(`${dev.url}/evaluations`);
  await page.getByRole('link', { name: 'For readers' }).click();
  await page.getByText('Your key is read-only.').waitFor();
  await row(page, LONG).waitFor();
  // A long question is shortened until its row is opened, and that is all that they can do.
  await eventually(async () =>
    assert.deepEqual(await page.locator('#main').getByRole('button').allInnerTexts(), [LONG]),
  );
  const heightOf = async () => (await row(page, LONG).boundingBox()).height;
  const before = await heightOf();
  await button(page, LONG).click();
  await until('the question is whole', async () => (await heightOf()) > 2 * before);
  await page.getByRole('link', { name: 'Evaluations', exact: true }).last().click();
  await page.getByRole('link', { name: 'shown, version 1' }).click();
  await page.waitForURL(new RegExp(`/evaluations/${id}/${evaluation.id}$`));
  await row(page, LONG).getByText('passed', { exact: true }).waitFor();
  await eventually(async () => assert.equal(await button(page, 'Cancel').count(), 0));
  await eventually(async () => assert.equal(await page.getByRole('link', { name: 'Judge run' }).count(), 0));
  assert.deepEqual(faults, []);
  await context.close();
});

test('evaluations are accessible and fit, in light and dark', { skip }, async () => {
  const agent = await dev.agent('fitting', []);
  const id = await made('On all screens', [AUSTRALIA, FRANCE]);
  const [one, other] = [await evaluated(id, agent), await evaluated(id, agent)];
  for (const colorScheme of ['light', 'dark']) {
    const { context, page } = await signedIn(browser, dev, { ...OPTIONS, colorScheme });
    for (const [path, shown] of [
      ['/evaluations', 'tbody tr'],
      [`/evaluations/${id}`, 'tbody tr'],
      [`/evaluations/${id}?part=evaluations`, 'tbody tr'],
      [`/evaluations/${id}/${one.id}?compare=${other.id}`, 'tbody tr'],
    ]) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.goto(dev.url + path);
      await page.locator(`#main ${shown}`).first().waitFor();
      await accessible(page, `${path}, ${colorScheme}`);
      await page.setViewportSize({ width: 390, height: 800 });
      await accessible(page, `${path}, ${colorScheme}, narrow`);
      assert.deepEqual(await settled(async () => [...(await cutOff(page)), ...(await smallTargets(page))]), [], path);
    }
    await context.close();
  }
});
