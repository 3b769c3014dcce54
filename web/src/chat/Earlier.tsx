// Shows the messages before those that a snapshot contains: on request, and if the address names one of them.
import { useQuery } from '@tanstack/react-query';
import { type RefObject, useState } from 'react';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { Waiting } from '../ui/parts';
import { Exchanges, readBefore } from './Exchanges';
import { useLinked } from './linked';

/** Messages of a snapshot: the newest ones. A conversation with fewer is shown whole. */
export const SNAPSHOT_MESSAGES = 200;
/** Earlier messages that are read. */
const READ_MAX = 10_000;
/** Earlier messages that are shown at a time, and before the linked one. */
const STEP = 50;

interface Props {
  conversationId: string;
  /** The first message that the page shows without these. */
  before: string;
  /** The message that the address names, if it is not among those that the page shows. */
  linked: string | undefined;
  scroller: RefObject<HTMLElement | null>;
}

export function Earlier({ conversationId, before, linked, scroller }: Props) {
  const [count, setCount] = useState(0);
  const earlier = useQuery({
    queryKey: ['earlier', conversationId, before],
    queryFn: () => readBefore(conversationId, before, READ_MAX),
    enabled: count > 0 || linked !== undefined,
    staleTime: Infinity,
  });
  const messages = earlier.data ?? [];
  const at = messages.findIndex(({ id }) => id === linked);
  useLinked(scroller, linked, at >= 0);
  const shown = Math.max(count, at < 0 ? 0 : messages.length - at + STEP);
  const hasMore = earlier.data === undefined ? !earlier.isFetching : shown < messages.length;
  if (earlier.isError) return <Failed reading={earlier} />;
  return (
    <section className="earlier" aria-label={t('Earlier messages')}>
      {earlier.isFetching ? <Waiting what={t('earlier messages')} /> : null}
      {hasMore ? (
        <button type="button" className="small" onClick={() => setCount(shown + STEP)}>
          {t('Show earlier messages')}
        </button>
      ) : null}
      {linked !== undefined && earlier.isSuccess && at < 0 ? <NotHere /> : null}
      {shown > 0 ? <Exchanges messages={messages.slice(-shown)} place={t('earlier')} linked={linked} /> : null}
    </section>
  );
}

/** In place of a linked message that the conversation does not have. */
export function NotHere() {
  return (
    <p className="notice" role="status">
      {t('The linked message was not found in this chat. It may have been deleted.')}
    </p>
  );
}
