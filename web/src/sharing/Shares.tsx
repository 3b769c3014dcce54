// Lists the user's links to shared conversations, of one or of all, and revokes them.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Share2 } from 'lucide-react';
import { useRef } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { shownTitle } from '../chat/titles';
import { confirmed } from '../ui/Dialog';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { LOCALE, rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import './sharing.css';

type Share = Schemas['Share'];

/** `conversationId`: only links to this one. */
export function Shares({ conversationId }: { conversationId?: string }) {
  const me = useMe();
  const queries = useQueryClient();
  const list = useRef<HTMLUListElement>(null);
  const shares = usePages<Share>(['shares', conversationId ?? null], '/api/shares', {
    narrowedBy: { conversationId },
  });
  const revoke = useMutation({
    mutationFn: (id: string) => api(`/api/shares/${id}`, { method: 'DELETE' }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['shares'] });
      // The button that had the focus is gone.
      list.current?.focus();
    },
  });
  if (shares.reading.isPending) return <Waiting what={t('links')} />;
  if (shares.reading.isError) return <Failed reading={shares.reading} />;
  if (shares.items.length === 0)
    return (
      <Empty icon={Share2} title={t('No links yet')}>
        {conversationId === undefined ? t('Open a chat and choose “Share” to create one.') : null}
      </Empty>
    );
  return (
    <>
      <ul ref={list} className="shares" aria-label={t('Links')} tabIndex={-1}>
        {shares.items.map((share) => (
          <li key={share.id}>
            <div>
              {conversationId === undefined ? <ChatLink id={share.conversationId} /> : null}
              <span>
                {rich('Created {when}', { when: <Ago at={share.createdAt} /> })} · <End share={share} />
              </span>
              <span className="quiet">
                {share.lastOpenedAt
                  ? rich('Last opened {when}', { when: <Ago at={share.lastOpenedAt} /> })
                  : t('Never opened')}
                {share.live ? ` · ${t('With later messages')}` : ''}
                {share.files ? ` · ${t('With files')}` : ''}
              </span>
            </div>
            {share.valid && me.scopes.includes('write') ? (
              <button
                type="button"
                className="small"
                aria-label={t('Revoke the link created {when}', {
                  when: new Date(share.createdAt).toLocaleString(LOCALE),
                })}
                onClick={() =>
                  void confirmed({
                    title: t('Revoke this link?'),
                    detail: t('It stops working at once and can’t be restored.'),
                    action: t('Revoke link'),
                  }).then((isAgreed) => isAgreed && revoke.mutate(share.id))
                }
              >
                {t('Revoke')}
              </button>
            ) : null}
          </li>
        ))}
      </ul>
      <More of={shares} label={t('Load more links')} />
      {revoke.error ? <ErrorNote error={revoke.error} /> : null}
    </>
  );
}

function End({ share }: { share: Share }) {
  if (share.revokedAt) return <span className="quiet">{t('Revoked')}</span>;
  if (!share.valid) return <span className="quiet">{t('Expired')}</span>;
  return rich('Expires {when}', { when: <Ago at={share.expiresAt} /> });
}

function ChatLink({ id }: { id: string }) {
  const chat = useQuery({
    queryKey: ['conversation', id, 'title'],
    queryFn: () => api<Schemas['ConversationDetail']>(`/api/conversations/${id}`),
  });
  return (
    <Link dir="auto" to="/c/$id" params={{ id }}>
      {chat.data ? shownTitle(chat.data) : t('Chat')}
    </Link>
  );
}
