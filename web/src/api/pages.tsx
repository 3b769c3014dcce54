// Reads paginated lists: each page carries the cursor of the next one.
import { type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
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

/** The list at `path`, read by pages; again every `refetchMs`, if given. `narrowedBy` goes into the query string. */
export function usePages<Item>(
  key: readonly unknown[],
  path: string,
  options: { limit?: number; refetchMs?: number | false; narrowedBy?: Record<string, string | undefined> } = {},
): Pages<Item> {
  const reading = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) =>
      api<Page<Item>>(`${path}${query({ ...options.narrowedBy, limit: options.limit ?? 50, cursor: pageParam })}`),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor ?? null,
    refetchInterval: options.refetchMs ?? false,
  });
  return { items: reading.data?.pages.flatMap((page) => page.items) ?? [], reading };
}

/** The button that reads the next page, where there is one. */
export function More({ of, label = 'Load more' }: { of: Pages<unknown>; label?: string }) {
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = of.reading;
  if (!hasNextPage) return null;
  return (
    <button type="button" onClick={() => void fetchNextPage()} disabled={isFetchingNextPage}>
      {label}
    </button>
  );
}
