// Code, formulas and diagrams of answers, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const CODE = ['const one = 1; // a comment', 'const two = "two";'].join('\n');
const ANSWER = [
  `\`\`\`js\n${CODE}\n\`\`\``,
  '```unknown\nconst plain = true;\n```',
  'Energy is $E = mc^2$, a vector \\(\\vec{v}\\), and',
  '$$\n\\int_0^1 x^2\\,dx\n= \\frac{1}{3} + \\sqrt{x}\n$$',
  'It costs $5 and $6, or `$7$` in code.',
  'This is not valid: $\\frac{1$.',
  '| formula | price |\n| --- | --- |\n| $|x|$ | $5 |',
  '```mermaid\nflowchart LR\n  a[Start] --> b[End]\n```',
  '```mermaid\npie title Pets\n  "Dogs": 3\n```',
].join('\n\n');
const LONG = `\`\`\`js\n${'const one = 1;\n'.repeat(120)}\`\`\`\n\nThat is all.`;

function reply(messages) {
  const asked = String(messages.findLast((message) => message.role === 'user')?.content);
  if (asked.includes('all of it')) return { text: ANSWER, paceMs: 0 };
  if (asked.includes('long code')) return { text: LONG, paceMs: 10 };
  return { text: 'Well.' };
}

const { dev, browser } = await stage(reply);

const block = (page, words) => answer(page).locator('.code', { hasText: words });

/** A page with the answer, and the names of the files that it has loaded. */
async function rendered(options) {
  const signed = await signedIn(browser, dev, options);
  const files = [];
  signed.page.on('request', (request) => files.push(new URL(request.url()).pathname.split('/').at(-1)));
  await ask(signed.page, 'all of it');
  await finished(signed.page);
  return { ...signed, hasLoaded: (name) => files.some((file) => file.startsWith(name)) };
}

test('code is highlighted by classes, and copied as it is', { skip }, async () => {
  const { context, page, faults } = await rendered({ permissions: ['clipboard-read', 'clipboard-write'] });
  const code = block(page, 'a comment');
  await code.locator('.hljs-keyword').first().waitFor();
  await code.locator('.hljs-comment').waitFor();
  await eventually(async () => assert.equal((await code.locator('pre').innerText()).trim(), CODE));
  await code.getByText('js', { exact: true }).waitFor();
  await eventually(async () =>
    assert.equal(await block(page, 'plain').locator('[class^=hljs]').count(), 0, 'an unknown language stays plain'),
  );
  const copy = code.getByRole('button', { name: 'Copy: the code' });
  const [above, below] = [await copy.boundingBox(), await code.locator('pre').boundingBox()];
  assert.ok(above.y + above.height <= below.y + 1, 'the button is above the code');
  await copy.click();
  await code.getByRole('button', { name: 'Copied: the code' }).waitFor();
  await eventually(async () => assert.equal((await page.evaluate(() => navigator.clipboard.readText())).trim(), CODE));
  assert.deepEqual(faults, []);
  await context.close();
});

test('code that still streams is plain', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'long code');
  await page.waitForFunction(() => document.querySelector('.turn .code pre')?.textContent.split('\n').length > 20);
  const { isBusy, spans } = await page.evaluate(() => ({
    isBusy: document.querySelector('article.turn[aria-busy="true"]') !== null,
    spans: document.querySelectorAll('.turn pre [class^=hljs]').length,
  }));
  assert.ok(!isBusy || spans === 0, `${spans} spans`);
  await finished(page);
  await block(page, 'const one').locator('.hljs-keyword').first().waitFor();
  await context.close();
});

test('formulas are drawn with the fonts of this server, and prices are text', { skip }, async () => {
  const { context, page, faults, elsewhere } = await rendered();
  const turn = answer(page);
  await until('all valid formulas are drawn', async () => (await turn.locator('.formula .katex').count()) === 4);
  await turn.getByRole('group', { name: 'Formula' }).locator('.katex-display').waitFor();
  await turn.getByText('It costs $5 and $6, or').waitFor();
  await turn.locator('code', { hasText: /^\$7\$$/ }).waitFor();
  await turn.getByRole('cell', { name: '$5', exact: true }).waitFor();
  // The source stands where there is nothing to draw.
  await turn.locator('.formula > code', { hasText: '$\\frac{1$' }).waitFor();
  // Styles that a script sets are in force.
  await eventually(async () =>
    assert.notEqual(
      await turn
        .locator('.katex-strut')
        .first()
        .evaluate((strut) => strut.style.height),
      '',
    ),
  );
  await eventually(async () => assert.equal(await turn.locator('[data-style]').count(), 0));
  await page.waitForFunction(() =>
    [...document.fonts].some(({ family, status }) => family.includes('KaTeX_Main') && status === 'loaded'),
  );
  assert.deepEqual(faults, []);
  assert.deepEqual(elsewhere, []);
  await context.close();
});

test('a diagram is drawn on request, and one that can’t be drawn keeps its source', { skip }, async () => {
  const { context, page, faults, elsewhere, hasLoaded } = await rendered();
  const diagram = answer(page).locator('.code', { has: page.getByText('mermaid', { exact: true }) });
  assert.equal(hasLoaded('Diagram'), false, 'it is loaded on request');
  const first = diagram.first();
  await first.getByRole('button', { name: 'Draw diagram' }).click();
  const picture = first.getByRole('img', { name: 'Drawn from the source of this block' });
  await picture.waitFor();
  await first.getByText('flowchart LR').waitFor({ state: 'hidden' });
  await eventually(async () => assert.ok(await picture.evaluate((image) => image.naturalWidth > 50)));
  await first.getByRole('button', { name: 'Show source' }).click();
  await first.getByText('flowchart LR').waitFor();
  const second = diagram.nth(1);
  await second.getByRole('button', { name: 'Draw diagram' }).click();
  await second.getByRole('alert').filter({ hasText: "This diagram can't be drawn" }).waitFor();
  await second.getByText('pie title Pets').last().waitFor();
  assert.deepEqual(faults, []);
  assert.deepEqual(
    elsewhere.filter((address) => !address.startsWith('blob:')),
    [],
  );
  await context.close();
});

test('a chat without code, formulas and diagrams loads nothing for them', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const files = [];
  page.on('request', (request) => files.push(new URL(request.url()).pathname));
  await ask(page, 'just words');
  await finished(page);
  await page.reload();
  await answer(page).getByText('Well.').waitFor();
  assert.deepEqual(
    files.filter((file) => /highlight|drawFormula|Diagram|KaTeX/.test(file)),
    [],
  );
  await context.close();
});

for (const [colorScheme, contrast] of [
  ['light', 'no-preference'],
  ['dark', 'no-preference'],
  ['light', 'more'],
  ['dark', 'more'],
]) {
  test(`what is rendered is accessible: ${colorScheme}, contrast ${contrast}`, { skip }, async () => {
    const { context, page } = await rendered({ bypassCSP: true, colorScheme, contrast });
    await block(page, 'a comment').locator('.hljs-comment').waitFor();
    await answer(page).locator('.formula .katex').first().waitFor();
    const diagram = answer(page).locator('.code', { has: page.getByText('mermaid', { exact: true }) });
    await diagram.first().getByRole('button', { name: 'Draw diagram' }).click();
    await diagram.first().getByRole('img').waitFor();
    await accessible(page, `${colorScheme}, ${contrast}`);
    await context.close();
  });
}
