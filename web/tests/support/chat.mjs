// The scripted model of the chat's tests, and what they do on the page.

export const WORDS = 120;
export const PACE_MS = 20;

/** This number of words, each unlike the others. */
export function story(name, words = WORDS) {
  return Array.from({ length: words }, (_, nth) => `${name}${nth}`).join(' ');
}

/** The text of the user's last message. */
export function lastQuestion(messages) {
  const asked = messages.findLast((message) => message.role === 'user')?.content ?? '';
  return typeof asked === 'string' ? asked : JSON.stringify(asked);
}

/** The story that a text asks for. `wordsOf`: lengths other than the usual one, by name. */
export function storyReply(text, wordsOf = {}) {
  const name = /story of (\w+)/.exec(text)?.[1] ?? 'word';
  return { text: story(name, wordsOf[name]), paceMs: PACE_MS };
}

/** Calls a tool, and answers once its result is known. */
export function lookupReply(messages) {
  return messages.at(-1).role === 'tool'
    ? { text: 'I looked it up.' }
    : { tools: [{ name: 'schema_version', arguments: {} }] };
}

/** The reply that the server has stored last. */
export async function stored(dev, page) {
  const id = page.url().split('/c/')[1];
  const { body } = await dev.api(`/api/conversations/${id}/messages?limit=100`);
  return body.items.findLast((message) => message.role === 'assistant')?.content;
}

/** Chooses the agent of a new conversation. */
export async function withAgent(page, id) {
  await page.getByLabel('Agent', { exact: true }).selectOption(id);
}
