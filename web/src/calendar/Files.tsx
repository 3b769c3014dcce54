// Exports, imports and deletes a calendar (iCalendar files), and opens its subscription and Google dialogs.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { api, apiText, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { download } from '../ui/download';
import { ErrorNote } from '../ui/parts';
import type { Calendar } from './CalendarView';
import { Feed } from './Feed';
import { Google } from './Google';
import { useLink } from './google';

/** Of a file, as the server has it [bytes]. */
const FILE_MAX_BYTES = 5 * 1024 * 1024;
const KIND = 'text/calendar';

interface FilesProps {
  calendar: Calendar;
  onRemoved: () => void;
  /** Google's calendars: whether the server may go there, and whether the dialog is open. */
  google: { isAvailable: boolean; isOpen: boolean; open: (isOpen: boolean) => void };
}

export function Files({ calendar, onRemoved, google }: FilesProps) {
  const me = useMe();
  const queries = useQueryClient();
  const [isSubscribing, setSubscribing] = useState(false);
  const mayWrite = me.scopes.includes('write');
  const isLinked = Boolean(calendar.google);
  const link = useLink(calendar, isLinked || (google.isOpen && mayWrite));
  const picker = useRef<HTMLInputElement>(null);
  const path = `/api/calendars/${calendar.id}`;
  const take = useMutation({
    mutationFn: () => apiText(`${path}/export.ics`, { headers: { accept: KIND } }),
    onSuccess: (text) => download(`${calendar.name.replaceAll(/[^\p{L}\p{N} _-]/gu, '_')}.ics`, KIND, text),
  });
  const bring = useMutation({
    mutationFn: (file: File) => {
      if (file.size > FILE_MAX_BYTES)
        throw new Error(`“${file.name}” is larger than 5 MiB. Split it and import the parts.`);
      return api<Schemas['ImportedBody']>(`${path}/import`, { method: 'POST', body: file.slice(0, file.size, KIND) });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ['happening', calendar.id] }),
  });
  const remove = useMutation({
    mutationFn: () => api(path, { method: 'DELETE' }),
    onSuccess: async () => {
      onRemoved();
      await queries.invalidateQueries({ queryKey: ['calendars'] });
    },
  });
  const failed = take.error ?? bring.error ?? remove.error;
  return (
    <>
      <div className="actions">
        <button type="button" disabled={take.isPending} onClick={() => take.mutate()}>
          Export
        </button>
        {mayWrite ? (
          <>
            <input
              ref={picker}
              type="file"
              accept={`.ics,${KIND}`}
              hidden
              aria-label="iCalendar file"
              onChange={(event) => {
                const file = event.target.files?.[0];
                if (file) bring.mutate(file);
                event.target.value = '';
              }}
            />
            <button type="button" disabled={bring.isPending} onClick={() => picker.current?.click()}>
              {bring.isPending ? 'Importing…' : 'Import'}
            </button>
            <button type="button" onClick={() => setSubscribing(true)}>
              Subscribe…
            </button>
            {google.isAvailable || isLinked ? (
              <button type="button" onClick={() => google.open(true)}>
                Google…
              </button>
            ) : null}
            <button
              type="button"
              onClick={() =>
                void confirmed({
                  title: `Delete the calendar “${calendar.name}” and all its events?`,
                  detail: 'Export it first if you may need them again.',
                  action: 'Delete calendar',
                }).then((isAgreed) => isAgreed && remove.mutate())
              }
            >
              Delete calendar
            </button>
          </>
        ) : null}
      </div>
      {failed ? (
        <div className="row">
          <ErrorNote error={failed} />
        </div>
      ) : null}
      {calendar.google === 'revoked' ? (
        <p className="note bad row">
          Google access was revoked, so this calendar is no longer syncing. Reconnect or unlink it under “Google…”.
        </p>
      ) : null}
      {google.isOpen && mayWrite ? <Google calendar={calendar} link={link} onClose={() => google.open(false)} /> : null}
      {isSubscribing ? <Feed calendar={calendar} onClose={() => setSubscribing(false)} /> : null}
      {bring.data ? <Report done={bring.data} onClose={() => bring.reset()} /> : null}
    </>
  );
}

function Report({ done, onClose }: { done: Schemas['ImportedBody']; onClose: () => void }) {
  return (
    <section className="note row" aria-label="Import result">
      <p role="status">
        <b>{done.added}</b> added, <b>{done.changed}</b> changed, <b>{done.unchanged}</b> unchanged,{' '}
        <b>{done.refused.length}</b> rejected.{' '}
        <button type="button" className="small" onClick={onClose}>
          Close report
        </button>
      </p>
      <ReportLines name="Rejected" items={done.refused} />
      <ReportLines name="Imported with changes" items={done.notes} />
    </section>
  );
}

/** The lines of a file that were rejected or changed, with the reasons. */
function ReportLines({ name, items }: { name: string; items: Schemas['ToldBody'][] }) {
  if (items.length === 0) return null;
  return (
    <>
      <h3>{name}</h3>
      <ul className="told-of">
        {items.map(({ line, uid, why }, nth) => (
          <li key={nth}>
            Line {line}
            {uid ? (
              <>
                {' '}
                (<code>{uid}</code>)
              </>
            ) : null}
            : {why}
          </li>
        ))}
      </ul>
    </>
  );
}
