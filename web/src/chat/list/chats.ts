// The user's conversations as lists, the folders, and the changes of several conversations at once.
import { type InfiniteData, notifyManager, type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useSyncExternalStore } from 'react';
import { api, type Schemas } from '../../api/http';
import { type Pages, usePages } from '../../api/pages';

export type Chat = Schemas['ConversationBody'];
export type Folder = Schemas['ConversationFolder'];

/** Below this key are all lists; `chat/activity.ts` and the palette are beside them, and what changes the lists changes those, too. */
const LISTS = ['conversations', 'list'];
const FOLDERS = ['conversations', 'folders'];
const REFRESH_MS = 15_000;
/** Maximum number of conversations in one request. */
const BULK_MAX = 100;

/** Which conversations a list has, as the API names it. */
export type Filter = Partial<Record<'pinned' | 'folder' | 'archived' | 'q', string>>;

export function useChats(filter: Filter, limit?: number): Pages<Chat> {
  return usePages<Chat>([...LISTS, filter], '/api/conversations', {
    limit,
    refetchMs: filter.q === undefined ? REFRESH_MS : false,
    narrowedBy: filter,
  });
}

export function useFolders() {
  return useQuery({
    queryKey: FOLDERS,
    queryFn: () => api<Schemas['ConversationFolders']>('/api/conversation-folders'),
    refetchInterval: REFRESH_MS,
    select: ({ items }) => items,
  });
}

/** Finds a conversation by its id in the lists that were read. */
export function useListed(): (id: string) => Chat | undefined {
  const queries = useQueryClient();
  return useCallback(
    (id) => {
      const lists = queries.getQueriesData<InfiniteData<Schemas['ConversationPage']>>({ queryKey: LISTS });
      for (const [, list] of lists) {
        for (const { items } of list?.pages ?? []) {
          const found = items.find((one) => one.id === id);
          if (found) return found;
        }
      }
      return undefined;
    },
    [queries],
  );
}

/** The title of a conversation in the lists that were read; it follows them. */
export function useListedTitle(id: string): string | undefined {
  const queries = useQueryClient();
  const listed = useListed();
  const subscribe = useCallback(
    (changed: () => void) => queries.getQueryCache().subscribe(notifyManager.batchCalls(changed)),
    [queries],
  );
  return useSyncExternalStore(subscribe, () => listed(id)?.title);
}

/** Reads the lists that are shown again. */
export function refreshLists(queries: QueryClient): void {
  void queries.invalidateQueries({ queryKey: LISTS });
}

/** Creates a folder, or renames one. */
export function saveFolder(name: string, id?: string): Promise<Folder> {
  const path = '/api/conversation-folders';
  return api<Folder>(id === undefined ? path : `${path}/${id}`, {
    method: id === undefined ? 'POST' : 'PATCH',
    body: { name },
  });
}

/** What became of several conversations, by their ids. */
export interface Outcome {
  done: string[];
  notFound: string[];
  /** Unchanged, because the limit of changes per minute was reached. */
  limited: string[];
  /** Unchanged, as far as is known, because the request failed with `error`. */
  failed: string[];
  error?: unknown;
}

/** Changes or deletes conversations, in requests of at most 100. What comes after a failed request is not attempted. */
export async function changeMany(
  action: Schemas['BulkAction'],
  ids: readonly string[],
  folderId?: string | null,
): Promise<Outcome> {
  const outcome: Outcome = { done: [], notFound: [], limited: [], failed: [] };
  const lists = { done: outcome.done, not_found: outcome.notFound, too_many: outcome.limited };
  for (let at = 0; at < ids.length; at += BULK_MAX) {
    try {
      const { results } = await api<Schemas['BulkResults']>('/api/bulk/conversations', {
        method: 'POST',
        body: { action, ids: ids.slice(at, at + BULK_MAX), folderId },
      });
      for (const { id, status } of results) lists[status].push(id);
    } catch (error) {
      outcome.failed = ids.slice(at);
      outcome.error = error;
      break;
    }
  }
  return outcome;
}
