// The user's feedback on the answers of a chat.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, query, type Schemas } from '../api/http';

export type Rating = Pick<Schemas['Feedback'], 'helped' | 'comment' | 'labels'>;
/** By the answer's message. */
type Ratings = Record<string, Rating | undefined>;

const PAGE = 100;
/** Pages of feedback that are read: the newest. */
const PAGES_MAX = 5;
const NONE: Ratings = {};

/** What the user said about the answers of a chat, once it is stored. */
export function useRatings(conversationId: string, isStored: boolean): Ratings {
  const ratings = useQuery({
    queryKey: ['feedback', conversationId],
    queryFn: () => ratingsOf(conversationId),
    enabled: isStored,
  });
  return ratings.data ?? NONE;
}

async function ratingsOf(conversationId: string): Promise<Ratings> {
  const found: Ratings = {};
  let cursor: string | null | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { items, nextCursor }: Schemas['FeedbackPage'] = await api(
      `/api/feedback${query({ conversationId, limit: PAGE, cursor })}`,
    );
    for (const { messageId, helped, comment, labels } of items) found[messageId] = { helped, comment, labels };
    cursor = nextCursor;
    if (!cursor) break;
  }
  return found;
}

/** Stores feedback on an answer; null withdraws it. */
export function useRate(messageId: string): (rating: Rating | null) => Promise<void> {
  const queries = useQueryClient();
  return async (rating) => {
    const path = `/api/messages/${messageId}/feedback`;
    if (rating === null) await api(path, { method: 'DELETE' });
    else {
      const { helped, comment, labels } = rating;
      const body: Schemas['FeedbackRequest'] = {
        helped,
        ...(comment && { comment }),
        ...(labels.length > 0 && { labels }),
      };
      await api(path, { method: 'PUT', body });
    }
    queries.setQueriesData<Ratings>({ queryKey: ['feedback'] }, (known) => ({
      ...known,
      [messageId]: rating ?? undefined,
    }));
    // What is being read may be older.
    void queries.invalidateQueries({ queryKey: ['feedback'] });
  };
}
