// Messages that were exchanged before those that the page follows, as they were stored.
import { api, type Schemas } from '../api/http';
import { t } from '../ui/language';
import { splitFiles } from './files';
import { linkedAs } from './linked';
import { Markdown } from './Markdown';

export interface Exchange {
  id: string;
  role: string;
  content: string;
}

interface Props {
  messages: readonly Exchange[];
  /** Where they are, for people who hear them without what is around them. */
  place: string;
  /** The message that the address names. */
  linked?: string | undefined;
}

export function Exchanges({ messages, place, linked }: Props) {
  return (
    <ol className="items">
      {messages.map(({ id, role, content }) => (
        <li key={id} {...(id === linked ? linkedAs(id) : {})}>
          {role === 'user' ? (
            <article className="mine" aria-label={t('You, {place}', { place })}>
              <p dir="auto">
                {splitFiles(content).words ||
                  splitFiles(content)
                    .files.map(({ name }) => name)
                    .join(t(', '))}
              </p>
            </article>
          ) : (
            <article className="before" aria-label={t('Answer, {place}', { place })}>
              <Markdown text={content} isLive={false} />
            </article>
          )}
        </li>
      ))}
    </ol>
  );
}

/** Messages of a page of the API: its maximum. */
const PAGE = 200;

/** A conversation's messages before one of them, in their order; the first `max` or somewhat more. */
export async function readBefore(
  conversationId: string,
  messageId: string | null | undefined,
  max: number,
): Promise<Exchange[]> {
  const messages: Exchange[] = [];
  let cursor: string | null | undefined;
  do {
    const page: Schemas['MessagePage'] = await api(
      `/api/conversations/${conversationId}/messages?limit=${PAGE}${cursor ? `&cursor=${cursor}` : ''}`,
    );
    const end = page.items.findIndex(({ id }) => id === messageId);
    messages.push(...(end < 0 ? page.items : page.items.slice(0, end)));
    cursor = end < 0 ? page.nextCursor : null;
  } while (cursor && messages.length < max);
  return messages;
}
