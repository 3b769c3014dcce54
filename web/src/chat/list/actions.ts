// What can be done with one conversation of the list. Each action keeps the focus in the list.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useCallback, useMemo } from 'react';
import { api, type Schemas } from '../../api/http';
import { confirmed } from '../../ui/Dialog';
import { t } from '../../ui/language';
import { toast } from '../../ui/toasts';
import { keepModel } from '../chosenModel';
import { forgetDraft } from '../draft';
import { forgetChat } from '../kept';
import { forgetSeen } from '../seen';
import { shownTitle } from '../titles';
import { type Chat, changeMany } from './chats';
import type { Rows } from './rows';

type Patch = Schemas['ConversationPatch'];

/** Stable: rows are rendered again only when they change. */
export interface RowActions extends Pick<Rows, 'onFocus' | 'keepAt'> {
  rename: (id: string, title: string) => void;
  /** `notice`: shown when it is done, where the list does not show it. */
  arrange: (id: string, patch: Patch, notice?: string) => void;
  markRead: (id: string) => void;
  markUnread: (id: string) => void;
  remove: (chat: Chat) => void;
  move: (chat: Chat) => void;
  select: (id: string, isRange: boolean) => void;
}

interface Options extends Pick<RowActions, 'onFocus' | 'keepAt' | 'move' | 'select'> {
  /** The conversation that the page shows. */
  current: string | null;
}

/** The actions, why the last one failed, and what follows a change of any kind. */
export function useActions({ current, onFocus, keepAt, move, select }: Options) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const changed = useCallback(() => queries.invalidateQueries({ queryKey: ['conversations'] }), [queries]);
  /** After conversations were deleted. */
  const removed = useCallback(
    async (ids: readonly string[]) => {
      for (const id of ids) {
        forgetDraft(id);
        keepModel(id, undefined);
        forgetChat(id);
      }
      if (current !== null && ids.includes(current)) await navigate({ to: '/' });
      await changed();
    },
    [current, navigate, changed],
  );
  const { mutate: patch, error: patchError } = useMutation({
    mutationFn: ({ id, body }: { id: string; body: Patch; notice?: string | undefined }) =>
      api(`/api/conversations/${id}`, { method: 'PATCH', body }),
    onSuccess: async (_, { id, body, notice }) => {
      if (notice !== undefined) toast(notice);
      if (body.title !== undefined) await queries.invalidateQueries({ queryKey: ['conversation', id] });
      await changed();
    },
  });
  const { mutate: mark, error: markError } = useMutation({
    mutationFn: async ({ id, action }: { id: string; action: 'markRead' | 'markUnread' }) => {
      const { error } = await changeMany(action, [id]);
      if (error !== undefined) throw error;
      if (action === 'markUnread') forgetSeen(id);
    },
    onSuccess: changed,
  });
  const { mutate: remove, error: removeError } = useMutation({
    mutationFn: (id: string) => api(`/api/conversations/${id}`, { method: 'DELETE' }),
    onSuccess: (_, id) => removed([id]),
  });
  const actions = useMemo(
    (): RowActions => ({
      onFocus,
      keepAt,
      move,
      select,
      rename: (id, title) => patch({ id, body: { title } }),
      arrange: (id, body, notice) => {
        keepAt(id);
        patch({ id, body, notice });
      },
      markRead: (id) => mark({ id, action: 'markRead' }),
      markUnread: (id) => mark({ id, action: 'markUnread' }),
      remove: (chat) => {
        const title = t('Delete “{title}”?', { title: shownTitle(chat) });
        const detail = t("This deletes all its messages and can't be undone.");
        void confirmed({ title, detail, action: t('Delete chat') }).then((isAgreed) => {
          keepAt(chat.id);
          if (isAgreed) remove(chat.id);
        });
      },
    }),
    [onFocus, keepAt, move, select, patch, mark, remove],
  );
  return { actions, error: patchError ?? markError ?? removeError, changed, removed };
}
