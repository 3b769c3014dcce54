// The workspaces in which the session can go on, and the switch to another one. After it the page is loaded again: nothing of the workspace
// that was left stays in its memory.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, query, type Schemas } from '../api/http';
import * as localStore from '../api/localStore';
import { confirmed } from '../ui/Dialog';
import { t } from '../ui/language';
import { toastError } from '../ui/toasts';

export type Workspace = Schemas['CallerProject'];

const KEY = ['workspaces'];
/** Workspaces that are read with one request. */
const PAGE = 100;
/** Workspaces that are listed. */
const MAX = 1_000;
/** After this time the list is read again when it is shown, in milliseconds. */
const FRESH_MS = 60_000;

async function readAll(signal: AbortSignal): Promise<Workspace[]> {
  const all: Workspace[] = [];
  let cursor: string | null = null;
  do {
    const page: Schemas['CallerProjects'] = await api<Schemas['CallerProjects']>(
      `/api/projects${query({ limit: PAGE, cursor })}`,
      { signal },
    );
    all.push(...page.items);
    cursor = page.nextCursor ?? null;
  } while (cursor !== null && all.length < MAX);
  return all;
}

/** The workspaces in the order of their names; empty until they were read. */
export function useWorkspaces(): readonly Workspace[] {
  const { data } = useQuery({ queryKey: KEY, queryFn: ({ signal }) => readAll(signal), staleTime: FRESH_MS });
  return data ?? [];
}

/** Whether the page would ask before it is left. */
function isUnsaved(): boolean {
  return !dispatchEvent(new Event('beforeunload', { cancelable: true }));
}

/** Returns how to go on in another workspace. */
export function useSwitch(): (workspace: Workspace) => Promise<void> {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return async ({ id, name, isCurrent }) => {
    if (isCurrent) return;
    if (isUnsaved()) {
      const isAgreed = await confirmed({
        title: t('Discard unsaved changes?'),
        detail: t('Switching to {name} discards them.', { name }),
        action: t('Discard changes'),
      });
      if (!isAgreed) return;
      await navigate({ to: '/', ignoreBlocker: true });
    }
    try {
      await api('/api/session/project', { method: 'POST', body: { projectId: id } });
    } catch (error) {
      toastError(error);
      // The user may have left it.
      await queries.invalidateQueries({ queryKey: KEY });
      return;
    }
    localStore.leaveWorkspace();
  };
}
