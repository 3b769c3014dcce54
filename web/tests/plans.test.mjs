// Plans, and what a conversation is about, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, ask, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

/** Long enough for a reload in the middle. */
const STORY = Array.from({ length: 80 }, (_, nth) => `word${nth}`).join(' ');
const PACE_MS = 60;

const step = (stepNumber, description, dependsOn = [], tools = []) => ({
  stepNumber,
  type: 'action',
  description,
  executorRequired: true,
  tools,
  dependsOn,
});
const STEPS = [step(1, 'Look at the schema', [], ['schema_version']), step(2, 'Write the story', [1])];

function reply(messages) {
  const text = String(messages.findLast((message) => message.role === 'user')?.content);
  const last = messages.at(-1);
  if (text.includes('# Write the story')) return { text: STORY, paceMs: PACE_MS };
  if (text.includes('# Look at the schema')) {
    return last.role === 'tool' ? { text: 'I have looked.' } : { tools: [{ name: 'schema_version', arguments: {} }] };
  }
  if (text.includes('# Book the hall')) return { text: 'The hall is booked.' };
  if (last.role === 'tool') return { text: 'That was the plan.' };
  if (text.includes('plan it') || text.includes('draft it')) {
    const execution_mode = text.includes('draft it') ? 'draft_only' : 'auto_execute';
    return {
      tools: [
        { name: 'agent_create_plan', arguments: { objective: 'Launch', execution_mode, plan: { steps: STEPS } } },
      ],
    };
  }
  return { text: 'Well.' };
}

const { model, dev, browser } = await stage(reply, {});
const planner = skip || (await dev.agent('planner', ['schema_version', 'agent_create_plan']));
if (!skip) await dev.agent('executor', ['*']);

async function begin(page, words) {
  await page.getByLabel('Agent', { exact: true }).selectOption(planner);
  await ask(page, words);
  await page.waitForURL(/\/c\//);
}

/** The last answer, without the runs within it. */
const answer = (page) => page.locator('.items > li > article.turn').last();

/** Waits until the last answer is over. */
async function finished(page) {
  await page.locator('.items > li:last-child > article.turn[aria-busy="false"]').waitFor({ timeout: 60_000 });
}

const plan = (page) => page.getByRole('region', { name: 'Plan: Launch' });
/** The texts of the plan's steps, without their results. */
const steps = (page) => plan(page).locator(':scope > ol > li > p:first-child').allInnerTexts();

test('a plan is carried out before one’s eyes, and a reload in the middle shows the same', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  const goOn = model.hold('# Write the story');
  await begin(page, 'plan it');
  const first = plan(page).locator('li.completed').first();
  await first.waitFor();
  await plan(page).locator('li.executing').getByText('word3', { exact: false }).waitFor();
  await eventually(async () =>
    assert.deepEqual(await steps(page), ['1. Look at the schema completed', '2. Write the story executing']),
  );
  await eventually(async () =>
    assert.equal(await first.getByText('schema_version').count(), 1, 'its call stands within its step'),
  );
  await accessible(page, 'a plan under way');
  await page.reload();
  await plan(page).locator('li.executing').waitFor();
  await eventually(async () =>
    assert.deepEqual(await steps(page), ['1. Look at the schema completed', '2. Write the story executing']),
  );
  goOn();
  await finished(page);
  await plan(page).getByText('2 of 2 steps').waitFor();
  await answer(page).getByText('That was the plan.').first().waitFor();
  // And who comes later sees it whole.
  await page.reload();
  await plan(page).getByText('2 of 2 steps').waitFor();
  await eventually(async () =>
    assert.deepEqual(await steps(page), ['1. Look at the schema completed', '2. Write the story completed']),
  );
  const second = plan(page).locator('li.completed').nth(1);
  await second.getByText('Result', { exact: true }).last().click();
  await second.locator('.outcome').getByText('word79', { exact: false }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a draft is edited in its place, and carried out as it was edited', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await begin(page, 'draft it');
  await plan(page).getByText('pending review').waitFor();
  // Also for who comes back after days.
  await page.reload();
  await plan(page).getByRole('button', { name: 'Edit', exact: true }).click();
  const field = plan(page).getByRole('textbox', { name: 'Plan steps (JSON)' });
  await accessible(page, 'a draft');
  const shown = await field.inputValue();
  assert.deepEqual(JSON.parse(shown), STEPS);
  await field.fill('[');
  await plan(page).getByRole('button', { name: 'Approve with changes' }).click();
  await page.getByText('The steps are not valid JSON').waitFor();
  await field.fill('[{"stepNumber": 1}]');
  await plan(page).getByRole('button', { name: 'Approve with changes' }).click();
  await plan(page).getByRole('alert').filter({ hasText: 'description' }).waitFor();
  await field.fill(JSON.stringify([step(7, 'Book the hall')]));
  await plan(page).getByRole('button', { name: 'Approve with changes' }).click();
  await finished(page);
  await plan(page).getByText('1 of 1 steps').waitFor();
  await eventually(async () => assert.deepEqual(await steps(page), ['7. Book the hall completed']));
  await context.close();
});

test('a draft is rejected, and nothing is done', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await begin(page, 'draft it');
  await plan(page).getByRole('button', { name: 'Reject' }).click();
  await finished(page);
  await plan(page).getByText('user: rejected').waitFor();
  await eventually(async () =>
    assert.deepEqual(await steps(page), ['1. Look at the schema pending', '2. Write the story pending']),
  );
  await context.close();
});

test('a project is chosen, is there after a reload, and is left; the context has a kind and a measure', {
  skip,
}, async () => {
  for (const name of ['Apollo', 'Gemini']) {
    const body = { type: 'project', key: name.toLowerCase(), properties: { name } };
    const { status } = await dev.api(`/api/projects/${dev.projectId}/graph/objects`, { method: 'POST', body });
    assert.equal(status, 201);
  }
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await ask(page, 'hello');
  await finished(page);
  const about = page.getByRole('group', { name: 'Conversation context' });
  const stored = async () => (await dev.api(`/api/conversations/${page.url().split('/c/')[1]}`)).body;
  await about.getByRole('button', { name: 'Add project' }).click();
  await about.getByRole('button', { name: 'Apollo' }).waitFor();
  await about.getByRole('searchbox').fill('gem');
  await accessible(page, 'the choice of a project');
  await about.getByRole('searchbox').press('Enter');
  await about.locator('.chip').getByText('Gemini').waitFor();
  await eventually(async () => assert.equal((await stored()).projectFocus.projectName, 'Gemini'));
  await eventually(async () => assert.equal(await page.locator('article.turn').count(), 1, 'no message was sent'));
  await page.reload();
  await about.locator('.chip').getByText('Gemini').waitFor();
  await eventually(async () =>
    assert.equal(await about.getByLabel('Context', { exact: true }).inputValue(), 'project'),
  );
  await about.getByLabel('Context', { exact: true }).selectOption('project_audit');
  await ask(page, 'how is it?');
  await page.locator('article.turn').nth(1).waitFor();
  await finished(page);
  await about.getByRole('meter').waitFor();
  await eventually(async () =>
    assert.match(await about.locator('.usage').getAttribute('title'), /^[\d,]+ of 2,500 tokens, ok$/),
  );
  await eventually(async () => assert.equal((await stored()).contextType, 'project_audit'));
  await accessible(page, 'a focus');
  await about.getByRole('button', { name: 'Remove Gemini' }).click();
  await about.locator('.chip').waitFor({ state: 'detached' });
  const { contextType, projectFocus } = await stored();
  assert.deepEqual([contextType, projectFocus ?? null], ['global', null]);
  await context.close();
});

test('a plan is shown as a graph, and a step of it opens its run', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await begin(page, 'plan it');
  const graph = plan(page).getByRole('group', { name: 'Steps and their dependencies' });
  const box = (name) => graph.getByRole('button', { name });
  await plan(page).getByRole('button', { name: 'Show as graph' }).press('Enter');
  // Live: a sign and a word show the states, not colours alone.
  await box(/Look at the schema .*completed/).waitFor();
  await box(/Write the story .*executing/).waitFor();
  await eventually(async () =>
    assert.equal(
      await box(/Write the story/)
        .locator('i')
        .innerText(),
      '▶',
    ),
  );
  await plan(page).getByText('Select a step').waitFor();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 420]) {
      await page.setViewportSize({ width, height: 800 });
      await accessible(page, `a plan as a graph, ${colorScheme}, ${width} wide`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await finished(page);
  await eventually(async () => assert.deepEqual(await graph.locator('.task i').allInnerTexts(), ['✓', '✓']));
  // What it waits for stands to its left; the arrow keys go along the lines.
  const [first, second] = [await box(/Look at the schema/).boundingBox(), await box(/Write the story/).boundingBox()];
  assert.ok(first.x + first.width < second.x, 'the second step stands behind the first');
  await box(/Look at the schema/).focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await eventually(async () => assert.equal(await box(/Look at the schema/).getAttribute('aria-pressed'), 'true'));
  const shown = plan(page).locator(':scope > ol > li');
  await eventually(async () =>
    assert.deepEqual(await shown.locator(':scope > p:first-child').allInnerTexts(), [
      '1. Look at the schema completed',
    ]),
  );
  await plan(page).getByRole('link', { name: 'Open run' }).press('Enter');
  await page.waitForURL(/\/runs\//);
  await page.getByText('executor').first().waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('steps that have not begun say so in the graph', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await begin(page, 'draft it');
  await plan(page).getByText('pending review').waitFor();
  await plan(page).getByRole('button', { name: 'Show as graph' }).click();
  await plan(page)
    .getByRole('button', { name: /Write the story/ })
    .click();
  await plan(page).getByText('This step has not started.').waitFor();
  await plan(page).getByRole('button', { name: 'Show as graph' }).click();
  await eventually(async () =>
    assert.deepEqual(await steps(page), ['1. Look at the schema pending', '2. Write the story pending']),
  );
  await context.close();
});
