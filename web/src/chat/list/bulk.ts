// Archives, moves and deletes the selected conversations, and puts the outcome into words.
import { useRef, useState } from 'react';
import type { Schemas } from '../../api/http';
import { confirmed } from '../../ui/Dialog';
import { toast } from '../../ui/toasts';
import { shownTitle } from '../titles';
import { changeMany, type Outcome, useListed } from './chats';
import type { Selection } from './selection';

type Action = Extract<Schemas['BulkAction'], 'archive' | 'unarchive' | 'move' | 'delete'>;

const PAST: Record<Action, string> = {
  archive: 'archived',
  unarchive: 'restored from the archive',
  move: 'moved',
  delete: 'deleted',
};
/** Titles that a message names; of more, it gives the number. */
const NAMED = 5;

/** The number of chats, in words. */
export function counted(count: number): string {
  return count === 1 ? '1 chat' : `${count} chats`;
}

/** What was not done, and why: one text for each reason. */
function undoneWords(
  action: Action,
  { notFound, limited, failed, error }: Outcome,
  titles: ReadonlyMap<string, string>,
): string[] {
  const names = (ids: readonly string[]) => {
    const named = ids.slice(0, NAMED).map((id) => `“${titles.get(id)}”`);
    const more = ids.length - named.length;
    return `Not ${PAST[action]}: ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}.`;
  };
  const reason = error instanceof Error ? error.message : 'Something went wrong.';
  return [
    ...(notFound.length > 0 ? [`${names(notFound)} Not found, perhaps deleted elsewhere.`] : []),
    ...(limited.length > 0
      ? [`${names(limited)} The limit of changes per minute was reached. Wait a minute, then try again.`]
      : []),
    ...(failed.length > 0 ? [`${names(failed)} ${reason}`] : []),
  ];
}

interface Options {
  selection: Selection;
  /** Keeps the focus in the list. */
  keepFocus: () => void;
  /** The lists have changed. */
  changed: () => Promise<void>;
  /** These conversations were deleted. */
  removed: (ids: readonly string[]) => Promise<void>;
}

export function useBulk({ selection, keepFocus, changed, removed }: Options) {
  const listed = useListed();
  const [undone, setUndone] = useState<readonly string[]>([]);
  const isBusy = useRef(false);
  const ids = [...(selection.selected ?? [])];
  const act = async (action: Action, folderId?: string | null) => {
    if (ids.length === 0 || isBusy.current) return;
    isBusy.current = true;
    const titles = new Map(
      ids.map((id) => {
        const chat = listed(id);
        return [id, chat ? shownTitle(chat) : 'Untitled'];
      }),
    );
    const outcome = await changeMany(action, ids, folderId);
    isBusy.current = false;
    if (outcome.done.length > 0) toast(`${counted(outcome.done.length)} ${PAST[action]}.`);
    const words = undoneWords(action, outcome, titles);
    setUndone(words);
    // What was not changed stays selected.
    if (words.length === 0) selection.end();
    else selection.set([...outcome.limited, ...outcome.failed]);
    keepFocus();
    await (action === 'delete' ? removed(outcome.done) : changed());
  };
  const remove = async () => {
    if (ids.length === 0) return;
    const detail = "This deletes all their messages and can't be undone.";
    const chats = counted(ids.length);
    if (await confirmed({ title: `Delete ${chats}?`, detail, action: `Delete ${chats}` })) await act('delete');
  };
  const end = () => {
    setUndone([]);
    selection.end();
    keepFocus();
  };
  return { undone, act, remove, end };
}
