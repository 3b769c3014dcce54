// Shares a conversation: creates links that anyone can read, and lists and revokes them.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Dialog } from '../ui/Dialog';
import { rich, t } from '../ui/language';
import { ErrorNote, ReadOnlyKey } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { Shares } from './Shares';

/** In hours. Every link expires. */
const LIFETIMES: [number, string][] = [
  [24, days(1)],
  [7 * 24, days(7)],
  [30 * 24, days(30)],
  [365 * 24, t('{count, plural, one {# year} other {# years}}', { count: 1 })],
];
const DEFAULT_HOURS = 30 * 24;

function days(count: number): string {
  return t('{count, plural, one {# day} other {# days}}', { count });
}

export default function ShareDialog({ conversationId, onClose }: { conversationId: string; onClose: () => void }) {
  const me = useMe();
  return (
    <Dialog title={t('Share chat')} onClose={onClose}>
      <p className="quiet">
        {t('Anyone with a link can read this chat without signing in. Tool calls and reasoning are not shown.')}
      </p>
      {me.scopes.includes('write') ? (
        <NewShare conversationId={conversationId} />
      ) : (
        <p className="note quiet">
          <ReadOnlyKey action={t('Sharing chats')} />
        </p>
      )}
      <h3>{t('Links to this chat')}</h3>
      <Shares conversationId={conversationId} />
    </Dialog>
  );
}

function NewShare({ conversationId }: { conversationId: string }) {
  const lifetime = useId();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: (body: Schemas['NewShare']) =>
      api<Schemas['CreatedShare']>(`/api/conversations/${conversationId}/shares`, { method: 'POST', body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['shares'] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    create.mutate({
      expiresInHours: Number(form.get('hours')),
      live: form.has('live'),
      files: form.has('files'),
    });
  };
  const isTooLong = create.error instanceof Problem && create.error.code === 'invalid_lifetime';
  return (
    <>
      <form className="editor" onSubmit={submit}>
        <label htmlFor={lifetime}>
          {rich('Expires after {time}', {
            time: (
              <select id={lifetime} name="hours" defaultValue={DEFAULT_HOURS}>
                {LIFETIMES.map(([hours, label]) => (
                  <option key={hours} value={hours}>
                    {label}
                  </option>
                ))}
              </select>
            ),
          })}
        </label>
        <label>
          <input type="checkbox" name="live" /> {t('Include messages that come later')}
        </label>
        <label>
          <input type="checkbox" name="files" /> {t('Include files')}
        </label>
        <div className="controls">
          <button type="submit" className="primary" disabled={create.isPending}>
            {t('Create link')}
          </button>
        </div>
      </form>
      {create.error ? (
        <ErrorNote
          error={
            isTooLong ? new Error(t('Links on this server can’t last this long. Choose a shorter time.')) : create.error
          }
        />
      ) : null}
      {create.data ? (
        <ShownOnce key={create.data.id} secret={create.data.url} copy={t('Copy link')} onDone={() => create.reset()}>
          {t('Link created.')}
        </ShownOnce>
      ) : null}
    </>
  );
}
