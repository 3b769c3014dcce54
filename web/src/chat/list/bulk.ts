// Archives, moves and deletes the selected conversations, and puts the outcome into words.
import { useRef, useState } from 'react';
import type { Schemas } from '../../api/http';
import { confirmed } from '../../ui/Dialog';
import { message, t } from '../../ui/language';
import { toast } from '../../ui/toasts';
import { shownTitle } from '../titles';
import { changeMany, type Outcome, useListed } from './chats';
import type { Selection } from './selection';

type Action = Extract<Schemas['BulkAction'], 'archive' | 'unarchive' | 'move' | 'delete'>;

/** What was done with `count` chats. */
const DONE: Record<Action, string> = {
  archive: message('{count, plural, one {# chat} other {# chats}} archived.'),
  unarchive: message('{count, plural, one {# chat} other {# chats}} restored from the archive.'),
  move: message('{count, plural, one {# chat} other {# chats}} moved.'),
  delete: message('{count, plural, one {# chat} other {# chats}} deleted.'),
};
/** With which chats it was not done. */
const UNDONE: Record<Action, string> = {
  archive: message('Not archived: {names}.'),
  unarchive: message('Not restored from the archive: {names}.'),
  move: message('Not moved: {names}.'),
  delete: message('Not deleted: {names}.'),
};
/** Titles that a text names; of more, it gives the number. */
const NAMED = 5;

/** What was not done, and why: one text for each reason. */
function undoneWords(
  action: Action,
  { notFound, limited, failed, error }: Outcome,
  titles: ReadonlyMap<string, string>,
): string[] {
  const names = (ids: readonly string[]) => {
    const named = ids.slice(0, NAMED).map((id) => t('“{title}”', { title: titles.get(id) ?? '' }));
    const more = ids.length - named.length;
    const listed = named.join(t(', '));
    return t(UNDONE[action], {
      names: more > 0 ? t('{names} and {more, plural, one {# more} other {# more}}', { names: listed, more }) : listed,
    });
  };
  const reason = error instanceof Error ? error.message : t('Something went wrong.');
  return [
    ...(notFound.length > 0 ? [`${names(notFound)} ${t('Not found, perhaps deleted elsewhere.')}`] : []),
    ...(limited.length > 0
      ? [`${names(limited)} ${t('The limit of changes per minute was reached. Wait a minute, then try again.')}`]
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
        return [id, chat ? shownTitle(chat) : t('Untitled')];
      }),
    );
    const outcome = await changeMany(action, ids, folderId);
    isBusy.current = false;
    if (outcome.done.length > 0) toast(t(DONE[action], { count: outcome.done.length }));
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
    const count = ids.length;
    const title = t('Delete {count, plural, one {# chat} other {# chats}}?', { count });
    const detail = t("This deletes all their messages and can't be undone.");
    const action = t('Delete {count, plural, one {# chat} other {# chats}}', { count });
    if (await confirmed({ title, detail, action })) await act('delete');
  };
  const end = () => {
    setUndone([]);
    selection.end();
    keepFocus();
  };
  return { undone, act, remove, end };
}
