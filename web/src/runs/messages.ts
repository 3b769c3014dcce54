// The messages of a run as people read them: the models' are stored as JSON.

interface Stored {
  kind?: string;
  text?: string;
  tool_calls?: { name?: string; arguments?: unknown }[];
}

export interface Readable {
  text: string;
  calls: { name: string; input: unknown }[];
}

/** `content`: as text, which may be JSON, or as the value of that JSON. */
export function readable(content: unknown): Readable {
  const stored = typeof content === 'string' ? parsed(content) : (content as Stored | null);
  if (stored === null) return { text: String(content ?? ''), calls: [] };
  return {
    text: stored.text ?? '',
    calls: (stored.tool_calls ?? []).map(({ name, arguments: input }) => ({ name: name ?? 'tool', input })),
  };
}

/** In one line. */
export function inShort(content: string): string {
  const { text, calls } = readable(content);
  return [text, ...calls.map(({ name }) => `calls ${name}`)].filter((part) => part !== '').join(' · ');
}

function parsed(content: string): Stored | null {
  if (!content.startsWith('{"kind"')) return null;
  try {
    return JSON.parse(content) as Stored;
  } catch {
    // Cut off, since it is long.
    return null;
  }
}
