// What people find around an answer: versions, other agents and models, feedback, exports, sources, notifications, dictation. In a real browser
// over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion, storyReply } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const SOURCES =
  'Read [the manual](https://docs.example/manual), [it](https://docs.example/manual) and [Package:libssl3], not `[Package:code]`.';

function reply(messages) {
  const asked = lastQuestion(messages);
  if (asked.includes('story of')) return storyReply(asked, { scrolling: 400 });
  if (asked.includes('sources')) return { text: SOURCES, paceMs: 0 };
  if (asked.includes('for ever')) return { text: 'word '.repeat(600), paceMs: 100 };
  return { text: `You said: ${asked}` };
}

const { model, dev, browser } = await stage(reply, { workers: 1 });

const button = (within, name) => within.getByRole('button', { name, exact: true });
const mine = (page) => page.getByRole('article', { name: 'You', exact: true });
const version = (page, at, of) => page.getByRole('group', { name: `Version ${at} of ${of}` });
const idOf = (page) => page.url().split('/c/')[1];
const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute('aria-label'));

/** Asks, and waits for the answer. */
async function asked(page, words) {
  await ask(page, words);
  await answer(page).getByText(`You said: ${words}`).waitFor();
  await finished(page);
}

/** Edits a message, and waits until the branch has its answer. */
async function edited(page, message, words) {
  const before = page.url();
  await message.hover();
  await button(message, 'Edit').click();
  await page.getByRole('textbox', { name: 'Edit message' }).fill(words);
  await button(page, 'Send as new branch').click();
  await page.waitForURL((url) => url.href !== before && url.pathname.startsWith('/c/'));
  await answer(page).getByText(`You said: ${words}`).waitFor();
  await finished(page);
}

/** Chooses what the chat's menu offers. */
async function choose(page, name) {
  await button(page, 'Chat actions').click();
  await page.getByRole('menuitem', { name }).click();
}

test('versions of a message are switched between, by buttons and arrow keys, and lead back to the original', {
  skip,
}, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await asked(page, 'the first question');
  await asked(page, 'the second question');
  const original = page.url();
  await eventually(async () => assert.equal(await page.getByRole('group', { name: /^Version/ }).count(), 0));
  await edited(page, mine(page).last(), 'the second question, changed');
  const branch = page.url();
  await version(page, 2, 2).waitFor();
  await eventually(async () => assert.equal(await button(page, 'Next version').isDisabled(), true));
  await eventually(async () => assert.equal(await mine(page).count(), 2, 'the past is shown once'));
  await accessible(page, 'versions');
  await button(page, 'Previous version').click();
  await page.waitForURL(original);
  await version(page, 1, 2).waitFor();
  // There is no earlier version: the focus is on the other button.
  await until('the focus is on the switch', async () => (await focused(page)) === 'Next version');
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(branch);
  await until('the focus is on the switch', async () => (await focused(page)) === 'Previous version');
  // After a reload, a branch of a branch: its message has three versions.
  await page.reload();
  await version(page, 2, 2).waitFor();
  await edited(page, mine(page).last(), 'the second question, changed again');
  await version(page, 3, 3).waitFor();
  // A message that the branch has as a copy has versions, too.
  await edited(page, mine(page).first(), 'the first question, changed');
  await version(page, 2, 2).waitFor();
  await eventually(async () => assert.equal(await mine(page).count(), 1));
  await page.getByRole('heading', { level: 1, name: 'Branch: the first question' }).waitFor();
  await choose(page, 'Open the original chat');
  await page.waitForURL(original);
  await version(page, 1, 3).waitFor();
  await context.close();
});

test('an edit that is left keeps the message and the focus; one that fails keeps the words', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await asked(page, 'keep me');
  await mine(page).hover();
  await button(mine(page), 'Edit').click();
  await page.keyboard.press('Escape');
  await until('the focus is back', async () => (await focused(page)) === 'Edit');
  await page.keyboard.press('Enter');
  const field = page.getByRole('textbox', { name: 'Edit message' });
  await field.fill('other words');
  const refusal = { code: 'run_fork_unfit', detail: 'The run can be forked later.' };
  await page.route('**/fork', (route) =>
    route.fulfill({ status: 409, contentType: 'application/problem+json', body: JSON.stringify(refusal) }),
  );
  await button(page, 'Send as new branch').click();
  await page.getByRole('alert').getByText(refusal.detail).waitFor();
  await eventually(async () => assert.equal(await field.inputValue(), 'other words'));
  await context.close();
});

test('another agent and another model answer the same message, each in a branch', { skip }, async () => {
  await dev.agent('reviewer', []);
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.getByLabel('Agent', { exact: true }).selectOption('plain');
  await asked(page, 'who answers this?');
  const forks = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/fork')) forks.push(request.postDataJSON());
  });
  const again = async (words, name) => {
    const before = page.url();
    await button(answer(page), 'Regenerate with another agent or model').click();
    const dialog = page.getByRole('dialog', { name: 'Regenerate with another agent or model' });
    const search = dialog.getByRole('searchbox', { name: 'Search agents and models' });
    await until('the search has the focus', async () => search.evaluate((field) => field === document.activeElement));
    await search.fill('no agent has this name');
    await dialog.getByText('No matching agents or models.').waitFor();
    await search.fill(words);
    await accessible(page, 'other agents and models');
    await dialog.getByRole('button', { name }).first().click();
    await page.waitForURL((url) => url.href !== before && url.pathname.startsWith('/c/'));
    await answer(page).getByText('You said: who answers this?').waitFor();
    await finished(page);
  };
  await again('review', 'reviewer');
  await answer(page).getByText('reviewer', { exact: true }).waitFor();
  await version(page, 2, 2).waitFor();
  await again('openai:', /^openai:/);
  await version(page, 3, 3).waitFor();
  assert.deepEqual(
    forks.map(({ step, agentDefinitionId, model, message }) => [step, typeof agentDefinitionId, typeof model, message]),
    [
      [0, 'string', 'undefined', undefined],
      [0, 'undefined', 'string', undefined],
    ],
  );
  // Nothing is lost: the first answer is two versions before.
  await button(page, 'Previous version').click();
  await version(page, 2, 3).waitFor();
  await button(page, 'Previous version').click();
  await version(page, 1, 3).waitFor();
  await answer(page).getByText('You said: who answers this?').waitFor();
  await context.close();
});

test('a model is chosen at the message field, for this chat alone, and stays chosen', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.getByLabel('Agent', { exact: true }).selectOption('plain');
  const sent = [];
  page.on('request', (request) => {
    if (request.method() === 'POST' && request.url().includes('/api/chat/stream')) sent.push(request.postDataJSON());
  });
  await button(page, 'Model: the agent’s').click();
  const dialog = page.getByRole('dialog', { name: 'Model of the next answers' });
  const search = dialog.getByRole('searchbox', { name: 'Search models' });
  await search.fill('no model has this name');
  await dialog.getByText('No matching models.').waitFor();
  await search.fill('openai:');
  await accessible(page, 'models');
  const choice = dialog.getByRole('button', { name: /^openai:/ }).last();
  const model = (await choice.textContent()).trim();
  await choice.click();
  await button(page, `Model: ${model}`).waitFor();
  await asked(page, 'by a model that I chose');
  // It stays so in this chat, also after a reload, until the agent's is chosen again.
  await page.reload();
  await button(page, `Model: ${model}`).waitFor();
  await asked(page, 'by the same model');
  await button(page, `Model: ${model}`).click();
  await button(dialog, 'Use the agent’s model').click();
  await button(page, 'Model: the agent’s').waitFor();
  await asked(page, 'as usual');
  assert.deepEqual(
    sent.map((body) => body.model),
    [model, model, undefined],
  );
  // Another chat begins with its agent's.
  await page.goto(dev.url);
  await button(page, 'Model: the agent’s').waitFor();
  await context.close();
});

test('feedback takes a comment, is shown after a reload, and is withdrawn', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await asked(page, 'rate this');
  const choices = answer(page).getByRole('group', { name: 'Did this answer help?' });
  const comment = answer(page).getByRole('textbox', { name: 'Comment on this answer' });
  const chosen = (name) => choices.getByRole('button', { name, exact: true, pressed: true });
  await button(choices, 'Not helpful').click();
  await button(choices, 'Add a comment').click();
  await comment.fill('It repeats the question.');
  await accessible(page, 'a comment');
  await button(answer(page), 'Save comment').click();
  await comment.waitFor({ state: 'detached' });
  await until('the focus is back', async () => (await focused(page)) === 'Change your comment');
  assert.deepEqual(faults, [], 'an answer without feedback is no error');
  await page.reload();
  await chosen('Not helpful').waitFor();
  await button(choices, 'Change your comment').click();
  await eventually(async () => assert.equal(await comment.inputValue(), 'It repeats the question.'));
  await comment.press('Escape');
  // The other choice keeps the comment.
  await button(choices, 'Helpful').click();
  await chosen('Helpful').waitFor();
  const { body } = await dev.api(`/api/conversations/${idOf(page)}/messages`);
  const feedback = `/api/messages/${body.items.at(-1).id}/feedback`;
  const stored = (await dev.api(feedback)).body;
  assert.deepEqual([stored.helped, stored.comment], [true, 'It repeats the question.']);
  await button(choices, 'Helpful').click();
  await chosen('Helpful').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await dev.api(feedback)).status, 404));
  await page.reload();
  await finished(page);
  await choices.waitFor();
  await eventually(async () => assert.equal(await choices.getByRole('button', { pressed: true }).count(), 0));
  await context.close();
});

test('feedback that is refused says so beside the answer', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await asked(page, 'rate this, too');
  const refusal = { code: 'unavailable', detail: 'The server is busy. Try again.' };
  await page.route('**/feedback', (route) =>
    route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(refusal) }),
  );
  await button(answer(page), 'Helpful').click();
  await answer(page).getByRole('alert').getByText(refusal.detail).waitFor();
  await eventually(async () => assert.equal(await answer(page).getByRole('button', { pressed: true }).count(), 0));
  await context.close();
});

test('a chat is exported with all of its messages, and a failed export says why', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await asked(page, 'Überblick: what/which "logs"?');
  const download = page.waitForEvent('download');
  await choose(page, 'Export as JSON');
  const file = await download;
  assert.equal(file.suggestedFilename(), 'Überblick-what-which-logs.json');
  const { conversation, messages } = JSON.parse(readFileSync(await file.path(), 'utf8'));
  assert.equal(conversation.id, idOf(page));
  assert.deepEqual(
    messages.map(({ role, content }) => [role, content]),
    [
      ['user', 'Überblick: what/which "logs"?'],
      ['assistant', 'You said: Überblick: what/which "logs"?'],
    ],
  );
  const refusal = { code: 'unavailable', detail: 'The export is not available now.' };
  await page.route(/\/export\?/, (route) =>
    route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(refusal) }),
  );
  await choose(page, 'Export as Markdown');
  await page.getByRole('status', { name: 'Notices' }).getByText(refusal.detail).waitFor();
  await context.close();
});

test('what an answer refers to is listed under it, and the answer is copied as Markdown', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await ask(page, 'with sources');
  await finished(page);
  await answer(page).getByText('Sources: 2').click();
  const sources = answer(page).locator('ol.sources').getByRole('link');
  await eventually(async () => assert.deepEqual(await sources.allInnerTexts(), ['the manual', 'Package:libssl3']));
  await eventually(async () => assert.equal(await sources.first().getAttribute('href'), 'https://docs.example/manual'));
  await button(answer(page), 'Copy: the answer').click();
  await button(answer(page), 'Copied: the answer').waitFor();
  await eventually(async () => assert.equal(await page.evaluate(() => navigator.clipboard.readText()), SOURCES));
  await sources.last().click();
  await page.waitForURL(/\/graph\?q=libssl3/);
  await context.close();
});

test('one who has scrolled up sees that something new has come, and jumps there', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 900, height: 420 } });
  const goOn = model.hold('a story of scrolling');
  await ask(page, 'a story of scrolling');
  await answer(page).getByText('scrolling150 ').waitFor();
  const log = page.getByRole('log', { name: 'Messages' });
  await log.evaluate((element) => element.scrollTo({ top: 0 }));
  const jump = page.getByRole('button', { name: 'Jump to the newest' });
  await jump.waitFor();
  goOn();
  await jump.locator('.mark').waitFor();
  await finished(page);
  // What comes after that is new again, and what is there already is not.
  await jump.click();
  await jump.waitFor({ state: 'detached' });
  await eventually(async () =>
    assert.ok(await log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 80)),
  );
  await log.evaluate((element) => element.scrollTo({ top: 0 }));
  await jump.waitFor();
  await eventually(async () => assert.equal(await jump.locator('.mark').count(), 0));
  await context.close();
});

/** The browser's notifications, as they are shown to no one: `globalThis.shown` has them. */
function scriptNotifications() {
  globalThis.shown = [];
  globalThis.Notification = class {
    static permission = 'default';
    static async requestPermission() {
      globalThis.Notification.permission = 'granted';
      return 'granted';
    }
    constructor(title, { body, tag }) {
      globalThis.shown.push({ title, body, tag });
    }
  };
}

/** Hides the page, or shows it again, as a switch between tabs does. */
function hide(page, isHidden) {
  return page.evaluate((isHidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
    Object.defineProperty(document, 'visibilityState', {
      configurable: true,
      get: () => (isHidden ? 'hidden' : 'visible'),
    });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
}

test('a hidden tab says in its title that an answer is ready, and notifies those who asked for it', {
  skip,
}, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.addInitScript(scriptNotifications);
  await page.goto(`${dev.url}/settings`);
  const setting = { name: 'Notify me when an answer ends while its tab is hidden' };
  await eventually(async () => assert.equal(await page.getByRole('checkbox', setting).isChecked(), false));
  const shown = () => page.evaluate(() => globalThis.shown);
  const readyIn = async (name) => {
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.waitForURL((url) => url.pathname === '/');
    await ask(page, `a story of ${name}`);
    await answer(page).getByText(`${name}5 `).waitFor();
    await hide(page, true);
    await until('the title says it', async () => (await page.title()) === `Answer ready · a story of ${name} · Rejoin`);
    const notifications = await shown();
    await hide(page, false);
    await until('it was seen', async () => (await page.title()) === `a story of ${name} · Rejoin`);
    return notifications;
  };
  await eventually(async () => assert.deepEqual(await readyIn('silence'), [], 'nothing is shown unasked'));
  await page.goto(`${dev.url}/settings`);
  await page.getByRole('checkbox', setting).click();
  await page.getByRole('checkbox', { ...setting, checked: true }).waitFor();
  const notifications = await readyIn('bells');
  assert.deepEqual(notifications, [{ title: 'a story of bells', body: 'Answer finished.', tag: idOf(page) }]);
  await context.close();
});

test('a hidden page that has no connection asks for the end of the run', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'on for ever');
  await answer(page).getByText('word word').waitFor();
  const runs = [];
  page.on('request', (request) => {
    if (/\/api\/runs\/[^/]+$/.test(request.url())) runs.push(request.url());
  });
  await hide(page, true);
  await until('it asks', () => runs.length > 0);
  await hide(page, false);
  await button(page, 'Stop').click();
  await answer(page).getByText('cancelled').waitFor();
  await context.close();
});

test('a long answer offers a notification, once', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.addInitScript(scriptNotifications);
  await page.reload();
  const offer = page.getByRole('group', { name: 'Notifications' });
  await ask(page, 'go on for ever');
  await offer.waitFor({ timeout: 60_000 });
  await button(offer, "Don't offer notifications again").click();
  await offer.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement?.id), 'words'));
  await eventually(async () =>
    assert.equal(await page.evaluate(() => globalThis.Notification.permission), 'default', 'the browser was not asked'),
  );
  await button(page, 'Stop').click();
  await answer(page).getByText('cancelled').waitFor();
  await context.close();
});

/** Speech recognition that hears what `globalThis.recognition` is given. */
function scriptSpeech() {
  class Scripted {
    start() {
      globalThis.recognition = this;
    }
    stop() {
      this.onend();
    }
    abort() {
      this.onend();
    }
  }
  globalThis.SpeechRecognition = Scripted;
  globalThis.webkitSpeechRecognition = Scripted;
}

test('words are dictated into the field, and what goes wrong is said there', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.addInitScript(scriptSpeech);
  await page.reload();
  const field = page.getByRole('textbox', { name: 'Message', exact: true });
  const hear = (transcript, isFinal) =>
    page.evaluate(
      ([transcript, isFinal]) =>
        globalThis.recognition.onresult({
          resultIndex: 0,
          results: [Object.assign([{ transcript }], { isFinal })],
        }),
      [transcript, isFinal],
    );
  await field.fill('So:');
  await button(page, 'Dictate').click();
  await hear('what is', false);
  await page.getByRole('status').getByText('Listening… what is').waitFor();
  await eventually(async () => assert.equal(await field.inputValue(), 'So:'));
  await hear(' what is a log ', true);
  await hear('in short', true);
  await until('the words are there', async () => (await field.inputValue()) === 'So: what is a log in short');
  await accessible(page, 'dictation');
  await button(page, 'Stop dictation').click();
  await button(page, 'Dictate').click();
  await page.evaluate(() => {
    globalThis.recognition.onerror({ error: 'not-allowed' });
    globalThis.recognition.onend();
  });
  await page.getByRole('alert').getByText('The browser blocks the microphone for this page.').waitFor();
  await eventually(async () => assert.equal(await field.inputValue(), 'So: what is a log in short'));
  await button(page, 'Dictate').click();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await field.press('Enter');
  await answer(page).getByText('You said: So: what is a log in short').waitFor();
  await button(page, 'Dictate').waitFor();
  await context.close();
});

test('a browser without speech recognition has no button for it, and the page may use the microphone', {
  skip,
}, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.addInitScript(() => {
    globalThis.SpeechRecognition = undefined;
    globalThis.webkitSpeechRecognition = undefined;
  });
  const response = await page.reload();
  assert.match(response.headers()['permissions-policy'], /microphone=\(self\)/);
  await page.getByRole('textbox', { name: 'Message', exact: true }).waitFor();
  await eventually(async () => assert.equal(await button(page, 'Dictate').count(), 0));
  await context.close();
});
