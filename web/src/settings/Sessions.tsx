// Lists the browsers in which the user is signed in, and signs out there.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { api, type Schemas, signOut } from '../api/http';
import * as localStore from '../api/localStore';
import { More, usePages } from '../api/pages';
import { confirmed } from '../ui/Dialog';
import { Failed } from '../ui/Failed';
import { LOCALE, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { toast } from '../ui/toasts';
import { Wide } from '../ui/Wide';
import { browserOf } from './browsers';

type Session = Schemas['SessionItem'];

const BEGUN_BY: Record<string, string> = {
  key: t('API key'),
  token: t('Token'),
  code: t('Sign-in link'),
  sso: t('Identity provider'),
  invitation: t('Invitation'),
};

export function Sessions() {
  const queries = useQueryClient();
  const sessions = usePages<Session>(['sessions'], '/api/sessions');
  const table = useRef<HTMLTableElement>(null);
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: ['sessions'] });
    // The button that had the focus may be gone.
    table.current?.focus();
  };
  const end = useMutation({
    mutationFn: async (session: Session) => {
      if (session.isCurrent) await signOut().finally(localStore.leave);
      else await api(`/api/sessions/${session.id}`, { method: 'DELETE' });
    },
    onSuccess,
  });
  const endOthers = useMutation({
    mutationFn: () => api<Schemas['EndedSessions']>('/api/sessions', { method: 'DELETE' }),
    onSuccess: async ({ ended }) => {
      toast(
        t('{count, plural, one {Signed out in # other browser.} other {Signed out in # other browsers.}}', {
          count: ended,
        }),
      );
      await onSuccess();
    },
  });
  if (sessions.reading.isPending) return <Waiting what={t('sessions')} />;
  if (sessions.reading.isError) return <Failed reading={sessions.reading} />;
  const failed = end.error ?? endOthers.error;
  return (
    <>
      <p className="quiet">{t('The browsers in which you are signed in, in all of your workspaces.')}</p>
      <Wide>
        <table ref={table} tabIndex={-1}>
          <thead>
            <tr>
              <th scope="col">{t('Browser')}</th>
              <th scope="col">{t('Workspace')}</th>
              <th scope="col">{t('Signed in with')}</th>
              <th scope="col">{t('Signed in')}</th>
              <th scope="col">{t('Last used')}</th>
              <th scope="col">{t('Expires')}</th>
              <th scope="col">{t('Actions')}</th>
            </tr>
          </thead>
          <tbody>
            {sessions.items.map((session) => {
              const browser = browserOf(session.userAgent);
              return (
                <tr key={session.id}>
                  <td title={session.userAgent ?? undefined}>
                    {browser} {session.isCurrent ? <span className="badge">{t('This browser')}</span> : null}
                  </td>
                  <td dir="auto">{session.project}</td>
                  <td>{BEGUN_BY[session.begunBy ?? ''] ?? t('Unknown')}</td>
                  <td>
                    <Ago at={session.createdAt} />
                  </td>
                  <td>
                    <Ago at={session.lastUsedAt} />
                  </td>
                  <td>
                    <Ago at={session.expiresAt} />
                  </td>
                  <td>
                    <button
                      type="button"
                      className="small"
                      aria-label={
                        session.isCurrent
                          ? t('Sign out: this browser')
                          : t('Sign out: {browser}, signed in {when}', {
                              browser,
                              when: new Date(session.createdAt).toLocaleString(LOCALE),
                            })
                      }
                      disabled={end.isPending}
                      onClick={() => end.mutate(session)}
                    >
                      {t('Sign out')}
                    </button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
      <More of={sessions} />
      {failed ? <ErrorNote error={failed} /> : null}
      <div className="controls">
        <button
          type="button"
          disabled={!sessions.items.some(({ isCurrent }) => !isCurrent)}
          onClick={() =>
            void confirmed({
              title: t('Sign out in all other browsers?'),
              detail: t('You stay signed in here.'),
              action: t('Sign out elsewhere'),
            }).then((isAgreed) => isAgreed && endOthers.mutate())
          }
        >
          {t('Sign out everywhere else')}
        </button>
      </div>
    </>
  );
}
