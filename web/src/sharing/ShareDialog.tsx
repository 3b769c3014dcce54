// Shares a conversation: creates links that anyone can read, and lists and revokes them.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Dialog } from '../ui/Dialog';
import { ErrorNote, ReadOnlyKey } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { Shares } from './Shares';

/** In hours. Every link expires. */
const LIFETIMES: [number, string][] = [
  [24, '1 day'],
  [7 * 24, '7 days'],
  [30 * 24, '30 days'],
  [365 * 24, '1 year'],
];
const DEFAULT_HOURS = 30 * 24;

export default function ShareDialog({ conversationId, onClose }: { conversationId: string; onClose: () => void }) {
  const me = useMe();
  return (
    <Dialog title="Share chat" onClose={onClose}>
      <p className="quiet">
        Anyone with a link can read this chat without signing in. Tool calls and reasoning are not shown.
      </p>
      {me.scopes.includes('write') ? (
        <NewShare conversationId={conversationId} />
      ) : (
        <p className="note quiet">
          <ReadOnlyKey action="Sharing chats" />
        </p>
      )}
      <h3>Links to this chat</h3>
      <Shares conversationId={conversationId} />
    </Dialog>
  );
}

function NewShare({ conversationId }: { conversationId: string }) {
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
        <label>
          Expires after{' '}
          <select name="hours" defaultValue={DEFAULT_HOURS}>
            {LIFETIMES.map(([hours, label]) => (
              <option key={hours} value={hours}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" name="live" /> Include messages that come later
        </label>
        <label>
          <input type="checkbox" name="files" /> Include files
        </label>
        <div className="controls">
          <button type="submit" className="primary" disabled={create.isPending}>
            Create link
          </button>
        </div>
      </form>
      {create.error ? (
        <ErrorNote
          error={
            isTooLong ? new Error('Links on this server can’t last this long. Choose a shorter time.') : create.error
          }
        />
      ) : null}
      {create.data ? (
        <ShownOnce key={create.data.id} secret={create.data.url} copy="Copy link" onDone={() => create.reset()}>
          Link created.
        </ShownOnce>
      ) : null}
    </>
  );
}
