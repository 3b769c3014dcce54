// A calendar and one of Google's kept the same: linked, watched, unlinked.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useRef } from 'react';
import { api, type Schemas } from '../api/http';
import { Dialog } from '../ui/Dialog';
import { Fact, Facts } from '../ui/Facts';
import { Failed } from '../ui/Failed';
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
  const told = useRef<HTMLDivElement>(null);
  const put = async (now: GoogleLink | null) => {
    // An answer that is on its way tells how it was before.
    await queries.cancelQueries({ queryKey: linkKey(calendar.id) });
    queries.setQueryData(linkKey(calendar.id), now);
    void queries.invalidateQueries({ queryKey: ['calendars'] });
    // What was pressed is gone.
    told.current?.focus();
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
      Go to Google
    </button>
  );
  return (
    <Dialog title="Google Calendar" onClose={onClose}>
      <div ref={told} tabIndex={-1} className="google">
        {now === undefined && link.isPending ? <Waiting what="its link" /> : null}
        {now === undefined && link.isError ? <Failed reading={link} /> : null}
        {now === null ? (
          <p>
            “{calendar.name}” and a calendar of yours at Google are kept the same: events that are made, changed or
            deleted on one side are so on the other. Where both have changed the same event, Google&apos;s word counts,
            and it is told here.
          </p>
        ) : null}
        {now?.state === 'choosing' ? <Choices choices={now.choices} isBusy={isBusy} onChosen={choose.mutate} /> : null}
        {now?.state === 'revoked' ? (
          <p className="note bad">
            Google no longer lets Rejoin in: nothing is synchronised until you go there and allow it again, or unlink
            the calendar.
          </p>
        ) : null}
        {now && now.state !== 'choosing' ? <Standing link={now} /> : null}
        {failed ? <ErrorNote error={failed} /> : null}
        <div className="controls">
          {now === null || now?.state === 'revoked' ? toGoogle : null}
          {now?.state === 'linked' ? (
            <button type="button" disabled={isBusy || sync.isPending || now.isSyncing} onClick={() => sync.mutate()}>
              {now.isSyncing ? 'Synchronising…' : 'Synchronise now'}
            </button>
          ) : null}
          {now?.state === 'choosing' ? (
            <button type="button" disabled={isBusy} onClick={() => unlink.mutate()}>
              Link none
            </button>
          ) : null}
          {now && now.state !== 'choosing' ? (
            <button
              type="button"
              disabled={isBusy}
              onClick={() => {
                if (
                  window.confirm(
                    `Unlink “${calendar.name}” from Google? Its events stay here and at Google, and are no longer kept the same.`,
                  )
                )
                  unlink.mutate();
              }}
            >
              Unlink…
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
  if (choices.length === 0) return <p className="note quiet">There is no calendar at Google that could be linked.</p>;
  return (
    <form className="editor" onSubmit={submit}>
      <fieldset className="choices">
        <legend>Which of your calendars at Google?</legend>
        {choices.map(({ id, name, timeZone, isReadOnly, isPrimary }) => (
          <label key={id}>
            <input type="radio" name="choice" value={id} required /> {name}{' '}
            <span className="quiet">
              {[isPrimary && 'your main one', timeZone, isReadOnly && 'read only: nothing goes there']
                .filter(Boolean)
                .join(', ')}
            </span>
          </label>
        ))}
      </fieldset>
      <div className="controls">
        <button type="submit" className="primary" disabled={isBusy}>
          Link it
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
        <Fact name="At Google">
          {googleCalendar?.name ?? 'not chosen'}
          {googleCalendar?.isReadOnly ? <span className="quiet"> (read only: nothing goes there)</span> : null}
        </Fact>
        <Fact name="Synchronised">
          <Ago at={syncedAt} />
        </Fact>
        <Fact name="Not at Google yet">{waiting === 1 ? '1 change' : `${waiting} changes`}</Fact>
      </Facts>
      <p className="quiet" role="status">
        {isSyncing ? 'Synchronising…' : ''}
      </p>
      {problem ? (
        <p className="note bad" role="alert">
          {problem}
        </p>
      ) : null}
      {notes.length === 0 ? null : (
        <>
          <h3 id="told-lately">Told lately</h3>
          {/* Long lists scroll: by keys, too. */}
          <ul className="told-of" aria-labelledby="told-lately" tabIndex={0}>
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
