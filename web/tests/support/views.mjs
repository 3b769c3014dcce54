// Every view with something in it, for tests that hold for all of them.
import assert from 'node:assert/strict';
import { until } from './dev.mjs';

/** A German word that is longer than most columns. */
export const LONG_WORD = 'Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz';

const ANSWER = `The ${LONG_WORD} has **three** parts, and [a source](https://example.org/${'long-'.repeat(20)}path).

| part | what it says | since | until | pages | author |
| --- | --- | --- | --- | --- | --- |
| first | ${LONG_WORD} | 1999 | 2013 | 12 | Mecklenburg-Vorpommern |

\`\`\`sh
curl --silent --show-error --location https://example.org/a/very/long/address?with=parameters | tee /tmp/answer.json
\`\`\`
`;

/** The scripted model's answers: it calls a tool, and writes a table and code. */
export function answerOf(messages) {
  return messages.at(-1).role === 'tool' || !messages.some(({ content }) => String(content).includes('look it up'))
    ? { text: ANSWER, paceMs: 0 }
    : { tools: [{ name: 'schema_version', arguments: {} }] };
}

/** Fills a `rejoin dev`. The addresses of its views, each with the selector of what is there when it is shown; and some of them by name. */
export async function everyView(dev) {
  const send = async (path, body, method = 'POST') => {
    const answer = await dev.api(path, { method, body });
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const inProject = (path) => `/api/projects/${dev.projectId}${path}`;
  const agent = await dev.agent('worker', ['schema_version']);
  const asked = async (message) => {
    const { runId, conversationId } = await send('/api/chat/stream', { message, agentDefinitionId: agent });
    await until('the answer is there', async () => (await dev.api(`/api/runs/${runId}`)).body.state === 'completed');
    return { runId, conversationId };
  };
  const chat = await asked(`What is the ${LONG_WORD}? Please look it up.`);
  const other = await asked('And what is it called in short?');
  const { token } = await send(`/api/conversations/${chat.conversationId}/shares`, {});
  const task = (id, title, after = []) => ({ id, title, agent: 'worker', after });
  const dag = await send(inProject('/task-dags'), {
    name: `Read the ${LONG_WORD}`,
    tasks: [task('find', 'Find it'), task('read', `Read the ${LONG_WORD}`, ['find']), task('tell', 'Tell', ['read'])],
  });
  const [law, ministry] = [
    await send(inProject('/graph/objects'), { type: 'Law', name: LONG_WORD, key: 'law' }),
    await send(inProject('/graph/objects'), { type: 'Ministry', name: 'Ministry of Agriculture', key: 'ministry' }),
  ];
  await send(inProject('/graph/relationships'), { type: 'was_written_by', sourceId: law.id, targetId: ministry.id });
  const { project, ids } = await send('/api/onto/projects/instantiate', {
    project: { name: `Moving the ${LONG_WORD}`, description: 'Out of the old flat by the end of the year.' },
    entities: [
      { tempId: 'plan', kind: 'plan', name: 'Packing' },
      { tempId: 'books', kind: 'task', title: `Pack the ${LONG_WORD}`, priority: 1, dueAt: '2026-12-01T00:00:00Z' },
      { tempId: 'walls', kind: 'task', title: 'Paint the walls', stateKey: 'in_progress' },
    ],
    relationships: [{ type: 'in_plan', source: 'books', target: 'plan' }],
  });
  const text = (more) => `# Before the van comes\n\n1. Empty the **cellar**\n2. ${more}\n`;
  const list = { projectId: project.id, title: `Checklist of the ${LONG_WORD}`, content: text('Read the meters') };
  const document = await send('/api/onto/documents/create', list);
  await send(`/api/onto/documents/${document.id}`, { content: text('Catch the cat') }, 'PATCH');
  const calendar = await send('/api/calendars', { name: 'Work', timeZone: 'Europe/Berlin' });
  for (const event of [
    { title: `Talk about the ${LONG_WORD}`, start: '2026-03-10T10:00', end: '2026-03-10T12:00' },
    { title: 'Conference', start: '2026-03-11', end: '2026-03-13', allDay: true, location: 'Lisbon' },
  ])
    await send(`/api/calendars/${calendar.id}/events`, event);
  const set = await send(inProject('/evaluation-sets'), {
    name: `On the ${LONG_WORD}`,
    description: 'What a law says.',
  });
  const evaluations = `/evaluations/${set.id}`;
  const inSet = (path) => inProject(`/evaluation-sets/${set.id}${path}`);
  await send(inSet('/cases'), {
    cases: [{ question: `What is the ${LONG_WORD}?`, expected: ANSWER }, { question: 'Why?' }],
  });
  const evaluation = await send(inSet('/evaluations'), { agentDefinitionId: agent });
  const month = `/calendar?calendar=${calendar.id}&date=2026-03-10`;
  const board = `/work/${project.id}`;
  const documents = `${board}/documents`;
  const views = [
    ['/', '.starters button'],
    [`/c/${chat.conversationId}`, 'article.turn .markdown table'],
    ['/runs', '#main tbody tr'],
    [`/runs/${chat.runId}`, '#main .waterfall li'],
    [`/runs/${chat.runId}/log`, '#main [role="option"]'],
    [`/runs/${chat.runId}/compare/${other.runId}`, '#main table.sides tbody tr'],
    ['/tasks', '#main tbody tr'],
    [`/tasks/${dag.id}`, '#main .task'],
    ['/graph?q=ministry', '#main .hits li'],
    [`/graph/${law.id}`, '#main .node'],
    ['/work', '#main tbody tr'],
    [board, '#main .card'],
    [`${board}/tasks/${ids.books}`, '#main h1'],
    [documents, '#main .tree a'],
    [`${documents}/${document.id}`, '#main .markdown li'],
    [`${documents}/${document.id}?view=versions`, '#main .versions tbody tr'],
    [month, '#main [role="grid"] .dots, #main [role="grid"] .event'],
    [`${month}&view=week`, '#main .week .slot'],
    ['/operations', '#main tbody tr'],
    ['/agents', '#main .choices a'],
    [`/agents?agent=${agent}`, '#main textarea'],
    ...['versions', 'try', 'feedback'].map((part) => [`/agents?agent=${agent}&view=${part}`, '#main .agent']),
    ...['', '?part=evaluations', `/${evaluation.id}`].map((part) => [evaluations + part, '#main tbody tr']),
    ['/evaluations', '#main tbody tr'],
    ['/tools', '#main h1'],
    ['/tools?part=programs', '#main h1'],
    ['/sources', '#main h1'],
    ...['appearance', 'sessions', 'shares', 'prompts', 'members', 'keys', 'usage', 'prices'].map((part) => [
      `/settings?part=${part}`,
      '#main :is(table, form, fieldset, ul)',
    ]),
    ['/mcp/connect', '#main .note'],
    [`/shared/${token}`, 'article.turn .markdown table'],
    ['/nowhere', '#main h1'],
  ];
  return { views, chat: views[1][0], board, week: `${month}&view=week` };
}
