// Links a calendar to a Google calendar, shows the sync status, and unlinks it.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useRef } from 'react';
import { api, type Schemas } from '../api/http';
import { confirmed, Dialog } from '../ui/Dialog';
import { Fact, Facts } from '../ui/Facts';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import type { Calendar } from './CalendarView';
import { type GoogleLink, leaveFor, linkKey, linkPath, type useLink } from './google';

interface GoogleProps {
  calendar: Calendar;
  link: ReturnType<typeof useLink>;
  onClose: () => void;
}

export function Google({ calendar, link, onClose }: GoogleProps) {
  const queries = useQueryClient();
  const path = linkPath(calendar.id);
  const content = useRef<HTMLDivElement>(null);
  const put = async (now: GoogleLink | null) => {
    // A response that is under way has the previous state.
    await queries.cancelQueries({ queryKey: linkKey(calendar.id) });
    queries.setQueryData(linkKey(calendar.id), now);
    void queries.invalidateQueries({ queryKey: ['calendars'] });
    // What was pressed is gone.
    content.current?.focus();
  };
  // What was refused may be so because it is not as it is shown.
  const onError = () => queries.invalidateQueries({ queryKey: linkKey(calendar.id) });
  const go = useMutation({
    mutationFn: async () => leaveFor((await api<Schemas['GoogleConsentBody']>(path, { method: 'POST', body: {} })).url),
    onError,
  });
  const choose = useMutation({
    mutationFn: (googleCalendarId: string) => api<GoogleLink>(path, { method: 'PUT', body: { googleCalendarId } }),
    onSuccess: put,
    onError,
  });
  const sync = useMutation({
    mutationFn: () => api<GoogleLink>(`${path}/sync`, { method: 'POST', body: {} }),
    onSuccess: (now) => queries.setQueryData(linkKey(calendar.id), now),
    onError,
  });
  const unlink = useMutation({
    mutationFn: () => api(path, { method: 'DELETE' }),
    onSuccess: () => put(null),
    onError,
  });
  const failed = go.error ?? choose.error ?? sync.error ?? unlink.error;
  const isBusy = go.isPending || choose.isPending || unlink.isPending;
  const now = link.data;
  const toGoogle = (
    <button type="button" className="primary" disabled={isBusy} onClick={() => go.mutate()}>
      {t('Go to Google')}
    </button>
  );
  return (
    <Dialog title={t('Google Calendar')} onClose={onClose}>
      <div ref={content} tabIndex={-1} className="google">
        {now === undefined && link.isPending ? <Waiting what={t('the Google link')} /> : null}
        {now === undefined && link.isError ? <Failed reading={link} /> : null}
        {now === null ? (
          <p>
            {t(
              "Link “{name}” to one of your Google calendars to keep both in sync. Events that are created, changed or deleted in one are updated in the other. If the same event was changed in both, Google's version wins and a notice appears here.",
              { name: calendar.name },
            )}
          </p>
        ) : null}
        {now?.state === 'choosing' ? <Choices choices={now.choices} isBusy={isBusy} onChosen={choose.mutate} /> : null}
        {now?.state === 'revoked' ? (
          <p className="note bad">
            {t(
              'Google access was revoked, so syncing has stopped. Go to Google to allow access again, or unlink the calendar.',
            )}
          </p>
        ) : null}
        {now && now.state !== 'choosing' ? <Standing link={now} /> : null}
        {failed ? <ErrorNote error={failed} /> : null}
        <div className="controls">
          {now === null || now?.state === 'revoked' ? toGoogle : null}
          {now?.state === 'linked' ? (
            <button type="button" disabled={isBusy || sync.isPending || now.isSyncing} onClick={() => sync.mutate()}>
              {now.isSyncing ? t('Syncing…') : t('Sync now')}
            </button>
          ) : null}
          {now?.state === 'choosing' ? (
            <button type="button" disabled={isBusy} onClick={() => unlink.mutate()}>
              {t('Cancel linking')}
            </button>
          ) : null}
          {now && now.state !== 'choosing' ? (
            <button
              type="button"
              disabled={isBusy}
              onClick={() =>
                void confirmed({
                  title: t('Unlink “{name}” from Google?', { name: calendar.name }),
                  detail: t('Events stay in both calendars but no longer sync.'),
                  action: t('Unlink'),
                }).then((isAgreed) => isAgreed && unlink.mutate())
              }
            >
              {t('Unlink…')}
            </button>
          ) : null}
        </div>
      </div>
    </Dialog>
  );
}

/** Which of the calendars at Google it is to be. */
function Choices({
  choices,
  isBusy,
  onChosen,
}: {
  choices: GoogleLink['choices'];
  isBusy: boolean;
  onChosen: (id: string) => void;
}) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onChosen(String(new FormData(event.currentTarget).get('choice')));
  };
  if (choices.length === 0) return <p className="note quiet">{t('No Google calendars are available to link.')}</p>;
  return (
    <form className="editor" onSubmit={submit}>
      <fieldset className="choices">
        <legend>{t('Choose a Google calendar')}</legend>
        {choices.map(({ id, name, timeZone, isReadOnly, isPrimary }) => (
          <label key={id}>
            <input type="radio" name="choice" value={id} required /> {name}{' '}
            <span className="quiet">
              {[isPrimary && t('primary'), timeZone, isReadOnly && t('read-only: changes here are not sent to Google')]
                .filter(Boolean)
                .join(t(', '))}
            </span>
          </label>
        ))}
      </fieldset>
      <div className="controls">
        <button type="submit" className="primary" disabled={isBusy}>
          {t('Link')}
        </button>
      </div>
    </form>
  );
}

/** How the two stand to each other. */
function Standing({ link: { googleCalendar, syncedAt, isSyncing, waiting, problem, notes } }: { link: GoogleLink }) {
  return (
    <>
      <Facts>
        <Fact name={t('Google calendar')}>
          {googleCalendar?.name ?? t('Not chosen')}
          {googleCalendar?.isReadOnly ? (
            <span className="quiet"> {t('(read-only: changes here are not sent to Google)')}</span>
          ) : null}
        </Fact>
        <Fact name={t('Last synced')}>
          <Ago at={syncedAt} />
        </Fact>
        <Fact name={t('Waiting to sync')}>
          {t('{count, plural, one {# change} other {# changes}}', { count: waiting })}
        </Fact>
      </Facts>
      <p className="quiet" role="status">
        {isSyncing ? t('Syncing…') : ''}
      </p>
      {problem ? (
        <p className="note bad" role="alert">
          {problem}
        </p>
      ) : null}
      {notes.length === 0 ? null : (
        <>
          <h3 id="recent-notices">{t('Recent notices')}</h3>
          {/* Long lists scroll: by keys, too. */}
          <ul className="told-of" aria-labelledby="recent-notices" tabIndex={0}>
            {notes.toReversed().map(({ at, text }, nth) => (
              <li key={nth}>
                {text}{' '}
                <span className="quiet">
                  (<Ago at={at} />)
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
