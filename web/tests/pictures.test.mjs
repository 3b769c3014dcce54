// Pictures of the views for the documents, light and dark: `REJOIN_TEST_PICTURES=folder` says where they go.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ask, finished, launch, PROGRAM, signedIn } from './support/browser.mjs';
import { BINARY, startDev } from './support/dev.mjs';
import { startModel } from './support/model.mjs';

const FOLDER = process.env.REJOIN_TEST_PICTURES;
const skip = !BINARY || !PROGRAM || !FOLDER ? 'SKIPPED: REJOIN_TEST_PICTURES names no folder' : false;

const ANSWER = `**libssl3** is needed by three kinds of packages:

| kind | for example |
| --- | --- |
| programs | \`curl\`, \`openssh-client\` |
| libraries | \`libcurl4\`, \`libpq5\` |

\`\`\`sh
apt rdepends libssl3
\`\`\`
`;

function reply(messages) {
  const last = messages.at(-1);
  const asked = String(messages.findLast((message) => message.role === 'user')?.content);
  if (asked.includes('libssl3')) {
    return last.role === 'tool'
      ? { text: ANSWER, paceMs: 0 }
      : { tools: [{ name: 'search_entities', arguments: { query: 'libssl3', limit: 3 } }] };
  }
  return { text: 'Found what was asked for.', paceMs: 0 };
}

test('each view has its pictures', { skip }, async () => {
  mkdirSync(FOLDER, { recursive: true });
  const model = await startModel(reply);
  const dev = await startDev(model.url);
  const browser = await launch();
  const task = (id, title, after = []) => ({ id, title, agent: 'graph-query-agent', after });
  const tasks = [
    task('left', 'What does apt depend on?'),
    task('right', 'What depends on apt?'),
    task('old', 'What did it depend on in bookworm?'),
    task('compare', 'Compare', ['left', 'right']),
    task('report', 'Write it down', ['compare', 'old']),
  ];
  const dag = await dev.api(`/api/projects/${dev.projectId}/task-dags`, { method: 'POST', body: { name: 'Dependencies of apt', tasks } });
  for (const colorScheme of ['light', 'dark']) {
    const { context, page } = await signedIn(browser, dev, { colorScheme, viewport: { width: 1200, height: 750 } });
    const take = (name) => page.screenshot({ path: join(FOLDER, `${name}-${colorScheme}.png`) });
    await ask(page, 'Which packages need libssl3, and why?');
    await finished(page);
    await take('chat');
    await page.getByRole('link', { name: 'run', exact: true }).click();
    await page.getByRole('heading', { name: 'Tool calls' }).waitFor();
    await page.locator('.records li').nth(5).waitFor();
    await take('run');
    await page.getByRole('link', { name: 'Log', exact: true }).click();
    await page.getByRole('slider').fill('6');
    await page.getByText(/^Event \d+/).waitFor();
    await take('log');
    await page.goto(`${dev.url}/runs`);
    await page.getByRole('table').waitFor();
    await take('runs');
    await page.goto(`${dev.url}/tasks/${dag.body.id}`);
    await page.getByRole('button', { name: /Write it down/ }).waitFor();
    await page.locator('.task.completed').nth(4).waitFor({ timeout: 60_000 });
    await page.getByRole('button', { name: /Write it down/ }).click();
    await take('tasks');
    await page.goto(`${dev.url}/graph?q=secure+shell`);
    await page.getByRole('listitem').nth(20).waitFor();
    await take('graph');
    await page.goto(`${dev.url}/operations`);
    await page.getByRole('row', { name: /alive/ }).first().waitFor();
    await take('operations');
    await page.goto(`${dev.url}/settings`);
    await page.getByRole('button', { name: 'graph-query-agent' }).click();
    await page.getByRole('textbox', { name: 'What it is told' }).waitFor();
    await take('settings');
    await context.close();
  }
  await browser.close();
  await dev.stop();
  await model.stop();
});
