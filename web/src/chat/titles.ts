// Returns the title under which a conversation is listed.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';

type Titled = Pick<Schemas['ConversationBody'], 'title' | 'metadata'>;

/** Its title without the text of files, which titles of messages begin or end with; of a branch, that it is one. */
export function shownTitle({ title, metadata }: Titled): string {
  const words = title
    .replace(/\s*File `[^`]*`?:?\s*(`{3,}.*)?$/s, (found) =>
      title.trim() === found.trim() ? (/`([^`]*)`?/.exec(found)?.[1] ?? found) : '',
    )
    .trim();
  const shown = words || t('Untitled');
  return forkedFrom(metadata) === null ? shown : t('Branch: {title}', { title: shown });
}

/** The run that a conversation's first one was made of; null: it is no branch. */
export function forkedFrom(metadata: unknown): string | null {
  const run = (metadata as { forkedFrom?: unknown } | null)?.forkedFrom;
  return typeof run === 'string' ? run : null;
}
