// The messages of a run as people read them. They are stored as JSON.
import { t } from '../ui/language';

const ROLES: Record<string, string> = {
  system: t('system'),
  user: t('user'),
  assistant: t('assistant'),
  tool_result: t('tool result'),
};

interface Stored {
  kind?: string;
  text?: string;
  tool_calls?: { name?: string; arguments?: unknown }[];
  tool?: string;
  /** The result of a tool: its JSON, or an error. */
  content?: string;
  is_error?: boolean;
  attachments?: { name?: string }[];
}

export interface Readable {
  text: string;
  calls: { name: string; input: unknown }[];
  /** Of a result: its tool, and whether the call failed. */
  tool?: string | undefined;
  isError: boolean;
  /** The names of its files. */
  files: string[];
}

/** `content`: as text, which may be JSON, or as the value of that JSON. */
export function readable(content: unknown): Readable {
  const stored = typeof content === 'string' ? parsed(content) : (content as Stored | null);
  if (stored === null) return { text: String(content ?? ''), calls: [], isError: false, files: [] };
  return {
    text: stored.text ?? stored.content ?? '',
    calls: (stored.tool_calls ?? []).map(({ name, arguments: input }) => ({ name: name ?? t('tool'), input })),
    tool: stored.tool,
    isError: stored.is_error ?? false,
    files: (stored.attachments ?? []).map(({ name }) => name ?? t('file')),
  };
}

/** Who a message is by. */
export function roleName(role: string): string {
  return ROLES[role] ?? role.replaceAll('_', ' ');
}

/** In one line. */
export function inShort(content: string): string {
  const { text, calls } = readable(content);
  // The beginning of a long JSON: without a text, it would be shown.
  if (text.startsWith('{"kind"')) return t('calls tools');
  return [text, ...calls.map(({ name }) => t('calls {tool}', { tool: name }))]
    .filter((part) => part !== '')
    .join(' · ');
}

/** The value of a text that is JSON, else the text. */
export function valueIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parsed(content: string): Stored | null {
  if (!content.startsWith('{"kind"')) return null;
  // A long one is cut off, and no JSON.
  const value = valueIn(content);
  return typeof value === 'string' ? null : (value as Stored);
}
