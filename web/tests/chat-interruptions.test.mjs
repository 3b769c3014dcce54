// Answers that are interrupted, or read in several places: reloads, killed processes, no network, several tabs. In a real browser over a
// real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion, lookupReply, PACE_MS, stored, story, storyReply, WORDS, withAgent } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

/** Long enough for twenty reloads, also on a slow machine. */
const WORDS_OF = { reloads: 1_000 };

const CODE = Array.from({ length: 200 }, (_, nth) => (nth % 7 === 0 ? '' : `  const value${nth} = ${nth};`)).join('\n');

/** All elements of Markdown, in more text than one stretch holds. */
const DRESSED = [
  '# A heading',
  'A paragraph\nof two lines, **bold**, _slanted_ and `code`.',
  '- one\n\n  of two paragraphs\n- two\n  - nested\n1. and numbers',
  '| a | b |\n| --- | --- |\n| 1 | 2 |',
  '> quoted\n\nand not.',
  `\`\`\`js\n${CODE}\n\`\`\``,
  '~~~~\n```\na fence within\n```\n~~~~',
  ...Array.from({ length: 30 }, (_, nth) => `Paragraph ${nth} with [Package:p${nth}].`),
].join('\n\n');

/** Whether the model refuses a request that it may refuse. */
let isRefusing = false;

function reply(messages) {
  const text = lastQuestion(messages);
  if (text.includes('refuse it')) return isRefusing ? { refusal: 'not today' } : { text: 'Now I may.' };
  if (text.includes('dressed')) return { text: DRESSED, paceMs: 2 };
  if (text.includes('lookup')) return lookupReply(messages);
  return storyReply(text, WORDS_OF);
}

const { model, dev, browser } = await stage(reply, {});
const agent = skip || (await dev.agent('asker', ['schema_version']));

test('an answer that is reloaded at twenty moments is shown once, word by word', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const goOn = model.hold('a story of reloads', 0.95);
  await ask(page, 'a story of reloads');
  await page.waitForURL(/\/c\//);
  let reloads = 0;
  while (reloads < 20) {
    await page.reload({ waitUntil: 'commit' });
    reloads += 1;
    await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 0);
  }
  await eventually(async () =>
    assert.equal(await answer(page).getAttribute('aria-busy'), 'true', 'all of them were in the middle'),
  );
  goOn();
  const shown = await finished(page);
  await eventually(async () => assert.equal(shown.join(''), await stored(dev, page)));
  assert.equal(shown.join(''), story('reloads', WORDS_OF.reloads));
  await context.close();
});

const MEETINGS = Number(process.env.REJOIN_TEST_MEETINGS ?? 20);

test('reloaded at any moment, what is shown in the end is the stored message', { skip }, async () => {
  const { context, page: first } = await signedIn(browser, dev);
  let state = 20_261_123;
  const random = (limit) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % limit;
  };
  const pages = [first, await context.newPage(), await context.newPage(), await context.newPage()];
  const moments = Array.from({ length: MEETINGS }, () => random(WORDS * PACE_MS * 1.2));
  const meet = async (page, nth) => {
    if (nth >= moments.length) return;
    const name = `meeting${nth}`;
    await page.goto(dev.url);
    await ask(page, `a story of ${name}`);
    await page.waitForURL(/\/c\//);
    // Not a wait for something: a moment like any other.
    await new Promise((resolve) => setTimeout(resolve, moments[nth]));
    await page.reload({ waitUntil: 'commit' });
    const shown = (await finished(page)).join('');
    assert.equal(shown, story(name), `reloaded after ${moments[nth]} ms`);
    await eventually(async () => assert.equal(await stored(dev, page), shown));
    await meet(page, nth + pages.length);
  };
  await Promise.all(pages.map(meet));
  await context.close();
});

test('what came before a reload is whole again: words, calls, and how it ended', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page, agent);
  await ask(page, 'lookup before');
  await finished(page);
  isRefusing = true;
  await ask(page, 'refuse it');
  await answer(page).getByText('not today').waitFor();
  await page.reload();
  await answer(page).getByText('not today').waitFor();
  const turn = page.locator('article.turn').first();
  await turn.getByText('schema_version').click();
  await turn.getByText('Result').waitFor();
  await eventually(async () => assert.match(await turn.innerText(), /I looked it up\./));
  // And it may be asked for again.
  isRefusing = false;
  await answer(page).getByRole('button', { name: 'Retry' }).click();
  await answer(page).getByText('Now I may.').waitFor();
  await eventually(async () => assert.equal(await page.getByRole('article', { name: 'You' }).count(), 3));
  await context.close();
});

for (const victim of ['worker', 'api']) {
  test(`a ${victim} that is killed in the middle is survived, and nothing is shown twice`, { skip }, async () => {
    const { context, page } = await signedIn(browser, dev);
    const goOn = model.hold(`a story of ${victim}s`);
    await ask(page, `a story of ${victim}s`);
    await page.waitForFunction(
      () => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 100,
    );
    const pids = victim === 'api' ? [dev.pids.api] : dev.pids.workers;
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    goOn();
    const shown = await finished(page);
    assert.equal(shown.join(''), story(`${victim}s`));
    await eventually(async () => assert.equal(await stored(dev, page), story(`${victim}s`)));
    if (victim === 'worker') await answer(page).locator('.notice').first().waitFor();
    await context.close();
  });
}

test('a page that is offline for a while goes on where it was', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const goOn = model.hold('a story of tunnels');
  await ask(page, 'a story of tunnels');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 50);
  await context.setOffline(true);
  await page.getByText("You're offline").waitFor();
  goOn();
  const id = page.url().split('/c/')[1];
  await until('its end', async () => {
    const { body } = await dev.api(`/api/conversations/${id}/messages?limit=10`);
    return body.items.some((message) => message.role === 'assistant');
  });
  await context.setOffline(false);
  await eventually(async () => assert.equal((await finished(page)).join(''), story('tunnels')));
  await context.close();
});

test('two tabs agree', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of tabs');
  await page.waitForURL(/\/c\//);
  const other = await context.newPage();
  await other.goto(page.url());
  const [one, two] = await Promise.all([finished(page), finished(other)]);
  assert.equal(one.join(''), story('tabs'));
  assert.deepEqual(two, one);
  await context.close();
});

test('ten conversations at once in one browser are all finished', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const pages = [page, ...(await Promise.all(Array.from({ length: 9 }, () => context.newPage())))];
  await Promise.all(pages.slice(1).map((one) => one.goto(dev.url)));
  await Promise.all(
    pages.map(async (one, nth) => {
      await ask(one, `a story of crowd${nth}`);
      await eventually(async () => assert.equal((await finished(one, 120_000)).join(''), story(`crowd${nth}`)));
    }),
  );
  // Whichever tab sent a message, the one that it was written in knows its conversation.
  const moved = await page.evaluate(
    () => Object.keys(localStorage).filter((key) => key.includes('.moved.new-')).length,
  );
  assert.equal(moved, 10);
  await context.close();
});

test('what was shown word by word looks the same when it is opened again', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  await ask(page, 'all dressed up');
  await page.locator('article.turn .code .lines').nth(1).waitFor();
  await finished(page);
  const code = answer(page).locator('.code').first();
  await eventually(async () => assert.equal((await code.locator('pre').innerText()).trimEnd(), CODE));
  const looks = () =>
    answer(page)
      .locator('.markdown')
      .evaluateAll((texts) => texts.map((text) => text.innerHTML));
  const grown = await looks();
  assert.match(grown.join(''), /<table.*<blockquote/s);
  await page.reload();
  await finished(page);
  await page.waitForFunction(() => !document.querySelector('.undressed'));
  await eventually(async () => assert.deepEqual(await looks(), grown));
  assert.deepEqual(faults, []);
  await context.close();
});
