// Files with messages, in a real browser over a real `rejoin dev`: picked, pasted and dropped, up with progress, kept through reloads, and at the model as they were.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const asked = [];
const { dev, browser } = await stage((messages) => {
  asked.push(messages.findLast(({ role }) => role === 'user').content);
  return { text: 'I see.' };
});

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const PDF = Buffer.from('%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n');

const field = (page) => page.getByRole('textbox', { name: 'Message', exact: true });
const picker = (page) => page.getByLabel('Attach files');
const along = (page) => page.getByRole('list', { name: 'Attached files' });
const mine = (page, words) => page.getByRole('article', { name: 'You', exact: true }).filter({ hasText: words });

/** The files of what the model was asked last. */
function sent() {
  const parts = asked.at(-1);
  assert.ok(Array.isArray(parts), JSON.stringify(parts));
  const data = (part) =>
    part.image_url?.url ?? part.file?.file_data ?? (part.input_audio && `data:audio;base64,${part.input_audio.data}`);
  return parts
    .map(data)
    .filter(Boolean)
    .map((url) => Buffer.from(url.split('base64,')[1], 'base64'));
}

/** Sound of a size. */
function wav(bytes) {
  const file = Buffer.alloc(bytes, 'sound');
  Buffer.from('RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data', 'latin1').copy(
    file,
  );
  return file;
}

test('an image, a PDF and 20 MB of audio go up, are shown, and reach the model byte for byte', {
  skip,
  timeout: 180_000,
}, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: false });
  const audio = wav(20_000_000);
  await picker(page).setInputFiles([
    { name: 'pixel.png', mimeType: 'image/png', buffer: PNG },
    { name: 'report.pdf', mimeType: 'application/pdf', buffer: PDF },
    { name: 'talk.wav', mimeType: 'audio/wav', buffer: audio },
    { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes') },
  ]);
  await until(
    'all are up',
    async () =>
      (await along(page).getByRole('progressbar').count()) === 0 &&
      (await along(page).getByRole('listitem').count()) === 4,
  );
  // Words are needed, and the field says so.
  await page.getByRole('button', { name: 'Remove notes.md' }).click();
  await page.getByText('Write what to do with the files.').waitFor();
  await eventually(async () =>
    assert.equal(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true),
  );
  // Through a reload, too.
  await field(page).fill('What are these?');
  await page.reload();
  await along(page).getByText('talk.wav').waitFor();
  await eventually(async () => assert.equal(await along(page).getByRole('listitem').count(), 3));
  await field(page).press('Enter');
  await finished(page);
  // In the order in which they were picked.
  const came = sent();
  assert.deepEqual(
    came.map((file) => file.length),
    [PNG, PDF, audio].map((file) => file.length),
  );
  assert.ok([PNG, PDF, audio].every((file, at) => file.equals(came[at])));
  const files = mine(page, 'What are these?').getByRole('list', { name: 'Files' });
  await eventually(async () => assert.equal(await files.getByRole('listitem').count(), 3));
  await until('the image is shown', () =>
    files.getByRole('img', { name: 'pixel.png' }).evaluate((element) => element.complete && element.naturalWidth === 1),
  );
  const saving = page.waitForEvent('download');
  await files.getByRole('link', { name: 'report.pdf' }).click();
  assert.equal((await saving).suggestedFilename(), 'report.pdf');
  await eventually(async () => assert.equal(await along(page).count(), 0));
  assert.deepEqual(faults, []);
  await context.close();
});

test('files are pasted and dropped, and left out by the keyboard', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  const give = (how) =>
    field(page).evaluate(
      (element, [how, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], `${how}.png`, { type: 'image/png' }));
        const event =
          how === 'paste'
            ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })
            : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
        element.dispatchEvent(event);
      },
      [how, [...PNG]],
    );
  await give('paste');
  await along(page).getByText('paste.png').waitFor();
  await give('drop');
  await along(page).getByText('drop.png').waitFor();
  await until('both are up', async () => (await along(page).getByRole('progressbar').count()) === 0);
  await accessible(page, 'a message with files');
  const leave = page.getByRole('button', { name: 'Remove paste.png' });
  await leave.focus();
  await page.keyboard.press('Enter');
  await along(page).getByText('paste.png').waitFor({ state: 'detached' });
  await ask(page, 'Only one.');
  await finished(page);
  assert.equal(sent().length, 1);
  await accessible(page, 'a chat with files');
  await context.close();
});

test('what goes wrong with a file is said, and it is tried again or left out', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await picker(page).setInputFiles({ name: 'page.png', mimeType: 'image/png', buffer: Buffer.from('<html></html>') });
  await along(page).getByRole('alert').getByText('its content is text; send it with the correct type').waitFor();
  await page.getByRole('button', { name: 'Remove page.png' }).click();
  await eventually(async () => assert.equal(await along(page).count(), 0));
  await page.route('**/api/files*', (route) => route.abort());
  await picker(page).setInputFiles({ name: 'pixel.png', mimeType: 'image/png', buffer: PNG });
  await along(page).getByRole('alert').getByText("can't reach the server").waitFor();
  await page.unroute('**/api/files*');
  await along(page).getByRole('button', { name: 'Retry' }).click();
  await until(
    'it is up',
    async () =>
      (await along(page).getByRole('alert').count()) === 0 &&
      (await along(page).getByRole('progressbar').count()) === 0,
  );
  await ask(page, 'After all.');
  await finished(page);
  assert.ok(sent()[0].equals(PNG));
  await context.close();
});

test('a message with files that is not sent yet keeps them through a reload', { skip, timeout: 180_000 }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  await picker(page).setInputFiles({ name: 'pixel.png', mimeType: 'image/png', buffer: PNG });
  await until(
    'it is up',
    async () =>
      (await along(page).getByRole('progressbar').count()) === 0 &&
      (await along(page).getByText('pixel.png').count()) === 1,
  );
  await page.route('**/api/chat/stream*', (route) => route.abort());
  await ask(page, 'while it is away');
  await mine(page, 'while it is away').getByText('Not sent.').waitFor();
  await mine(page, 'while it is away').getByRole('list', { name: 'Files' }).waitFor();
  await page.reload();
  await mine(page, 'while it is away').getByRole('list', { name: 'Files' }).waitFor();
  await page.unroute('**/api/chat/stream*');
  await mine(page, 'while it is away')
    .getByRole('button', { name: 'Retry' })
    .click()
    .catch(() => {});
  await until('it is sent', async () => (await page.locator('.unsent').count()) === 0);
  await finished(page);
  await eventually(async () =>
    assert.equal((await answer(page).locator('.markdown').allInnerTexts()).join(''), 'I see.'),
  );
  assert.ok(sent()[0].equals(PNG));
  await eventually(async () => assert.equal(await mine(page, 'while it is away').getByRole('listitem').count(), 1));
  await context.close();
});
