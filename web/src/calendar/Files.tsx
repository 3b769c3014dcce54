// Exports, imports and deletes a calendar (iCalendar files), and opens its subscription and Google dialogs.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { api, apiText, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { download } from '../ui/download';
import { number, rich, t } from '../ui/language';
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
        throw new Error(t('“{name}” is larger than 5 MiB. Split it and import the parts.', { name: file.name }));
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
          {t('Export')}
        </button>
        {mayWrite ? (
          <>
            <input
              ref={picker}
              type="file"
              accept={`.ics,${KIND}`}
              hidden
              aria-label={t('iCalendar file')}
              onChange={(event) => {
                const file = event.target.files?.[0];
                if (file) bring.mutate(file);
                event.target.value = '';
              }}
            />
            <button type="button" disabled={bring.isPending} onClick={() => picker.current?.click()}>
              {bring.isPending ? t('Importing…') : t('Import')}
            </button>
            <button type="button" onClick={() => setSubscribing(true)}>
              {t('Subscribe…')}
            </button>
            {google.isAvailable || isLinked ? (
              <button type="button" onClick={() => google.open(true)}>
                {t('Google…')}
              </button>
            ) : null}
            <button
              type="button"
              onClick={() =>
                void confirmed({
                  title: t('Delete the calendar “{name}” and all its events?', { name: calendar.name }),
                  detail: t('Export it first if you may need them again.'),
                  action: t('Delete calendar'),
                }).then((isAgreed) => isAgreed && remove.mutate())
              }
            >
              {t('Delete calendar')}
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
          {t(
            'Google access was revoked, so this calendar is no longer syncing. Reconnect or unlink it under “Google…”.',
          )}
        </p>
      ) : null}
      {google.isOpen && mayWrite ? <Google calendar={calendar} link={link} onClose={() => google.open(false)} /> : null}
      {isSubscribing ? <Feed calendar={calendar} onClose={() => setSubscribing(false)} /> : null}
      {bring.data ? <Report done={bring.data} onClose={() => bring.reset()} /> : null}
    </>
  );
}

function Report({ done, onClose }: { done: Schemas['ImportedBody']; onClose: () => void }) {
  const counts = {
    added: <b>{number(done.added)}</b>,
    changed: <b>{number(done.changed)}</b>,
    unchanged: <b>{number(done.unchanged)}</b>,
    rejected: <b>{number(done.refused.length)}</b>,
  };
  return (
    <section className="note row" aria-label={t('Import result')}>
      <p role="status">
        {rich('{added} added, {changed} changed, {unchanged} unchanged, {rejected} rejected.', counts)}{' '}
        <button type="button" className="small" onClick={onClose}>
          {t('Close report')}
        </button>
      </p>
      <ReportLines name={t('Rejected')} items={done.refused} />
      <ReportLines name={t('Imported with changes')} items={done.notes} />
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
        {items.map(({ line, uid, why }, nth) => {
          const where = number(line, { useGrouping: false });
          return (
            <li key={nth}>
              {uid
                ? rich('Line {line} ({uid}): {why}', { line: where, uid: <code>{uid}</code>, why })
                : t('Line {line}: {why}', { line: where, why })}
            </li>
          );
        })}
      </ul>
    </>
  );
}
