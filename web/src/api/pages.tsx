// Reads paginated lists: each page carries the cursor of the next one.
import { type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
import { t } from '../ui/language';
import { api, query } from './http';

interface Page<Item> {
  items: Item[];
  nextCursor?: string | null;
}

export interface Pages<Item> {
  /** All items that were read so far, in order. */
  items: Item[];
  /** The state of the reading: pending, error, success. */
  reading: UseInfiniteQueryResult;
}

interface Options {
  limit?: number;
  refetchMs?: number | false;
  /** A list of more pages is no longer read again by itself: each page is a request. */
  refetchPagesMax?: number;
  narrowedBy?: Record<string, string | undefined>;
}

/** The list at `path`, read by pages; again every `refetchMs`, if given. `narrowedBy` goes into the query string. */
export function usePages<Item>(key: readonly unknown[], path: string, options: Options = {}): Pages<Item> {
  const { refetchMs = false, refetchPagesMax = Number.POSITIVE_INFINITY } = options;
  const isShort = (pages: readonly unknown[] | undefined) => (pages?.length ?? 0) <= refetchPagesMax;
  const reading = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) =>
      api<Page<Item>>(`${path}${query({ ...options.narrowedBy, limit: options.limit ?? 50, cursor: pageParam })}`),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor ?? null,
    refetchInterval: ({ state }) => (isShort(state.data?.pages) ? refetchMs : false),
    refetchOnWindowFocus: ({ state }) => isShort(state.data?.pages),
  });
  return { items: reading.data?.pages.flatMap((page) => page.items) ?? [], reading };
}

/** The button that reads the next page, where there is one. */
export function More({ of, label = t('Load more') }: { of: Pages<unknown>; label?: string }) {
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = of.reading;
  if (!hasNextPage) return null;
  return (
    <button type="button" onClick={() => void fetchNextPage()} disabled={isFetchingNextPage}>
      {label}
    </button>
  );
}
