// Creates, shows, changes and deletes an event. For a repeating event, the user chooses which occurrences a change applies to.
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, ifMatch, Problem } from '../api/http';
import { confirmed, Dialog } from '../ui/Dialog';
import { Fact, Facts } from '../ui/Facts';
import { Failed } from '../ui/Failed';
import { ErrorNote, ReadOnlyKey, Waiting } from '../ui/parts';
import type { Calendar, Opened } from './CalendarView';
import { HERE, inShort, isZone, momentOf, wallAt } from './days';
import {
  beginning,
  type Draft,
  different,
  draftOf,
  type EventBody,
  newDraft,
  requestOf,
  type Scope,
  targetOf,
  wallsOf,
  wrong,
} from './draft';
import type { Occurrence } from './layoutEvents';
import { draftAt, type Times } from './reschedule';
import { ZoneField } from './ZoneField';

interface EventEditorProps {
  calendar: Calendar;
  opened: Opened;
  mayWrite: boolean;
  /** `message`: describes the change; none: nothing was changed. */
  onClose: (message?: string) => void;
}

export function EventEditor({ calendar, opened, mayWrite, onClose }: EventEditorProps) {
  return 'day' in opened ? (
    <Dialog title="New event" onClose={onClose}>
      <EventForm calendar={calendar} before={newDraft(opened.day, opened.time)} known={null} onClose={onClose} />
    </Dialog>
  ) : (
    <Known calendar={calendar} {...opened} mayWrite={mayWrite} onClose={onClose} />
  );
}

/** Reads the event once: a refetch would change the form while the user types. A stale version is a conflict. */
function useEvent(id: string | null | undefined) {
  return useQuery({
    queryKey: ['calendar-event', id],
    queryFn: () => api<EventBody>(`/api/calendar-events/${id}`),
    enabled: Boolean(id),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    gcTime: 0,
  });
}

function Known({
  calendar,
  occurrence,
  moved,
  mayWrite,
  onClose,
}: {
  calendar: Calendar;
  occurrence: Occurrence;
  moved?: Times;
  mayWrite: boolean;
  onClose: (message?: string) => void;
}) {
  const event = useEvent(occurrence.eventId);
  const series = useEvent(event.data?.seriesId);
  const isRead = event.data && (!event.data.seriesId || series.data);
  return (
    <Dialog title={occurrence.title} onClose={onClose}>
      {event.isError ? <Failed reading={event} /> : series.isError ? <Failed reading={series} /> : null}
      {!isRead && !event.isError && !series.isError ? <Waiting what="the event" /> : null}
      {isRead && mayWrite ? (
        <EventForm
          calendar={calendar}
          before={draftOf(occurrence, event.data)}
          moved={moved}
          known={{ occurrence, event: event.data, series: series.data ?? null }}
          onClose={onClose}
        />
      ) : null}
      {isRead && !mayWrite ? <Read draft={draftOf(occurrence, event.data)} /> : null}
    </Dialog>
  );
}

function Read({ draft }: { draft: Draft }) {
  return (
    <>
      <Facts>
        <Fact name="When">{inWordsOf(draft)}</Fact>
        {draft.location ? <Fact name="Location">{draft.location}</Fact> : null}
        {draft.rrule ? (
          <Fact name="Repeats">
            <code>{draft.rrule}</code>
          </Fact>
        ) : null}
      </Facts>
      <p className="outcome">{draft.description}</p>
      <p className="quiet">
        <ReadOnlyKey action="Changing events" />
      </p>
    </>
  );
}

function inWordsOf(draft: Draft): string {
  const { startDay, startTime, endDay, endTime, allDay, timeZone } = draft;
  if (allDay) return startDay === endDay ? inShort(startDay) : `${inShort(startDay)} – ${inShort(endDay)}`;
  const end = startDay === endDay ? endTime : `${inShort(endDay)}, ${endTime}`;
  return `${inShort(startDay)}, ${startTime} – ${end}, ${timeZone}`;
}

const SCOPES: Record<Scope, string> = {
  this: 'Only this event',
  following: 'This and following events',
  all: 'All events',
};
/** The common recurrence rules. Any other rule is typed. */
const RULES: Record<string, string> = {
  '': 'Never',
  'FREQ=DAILY': 'Daily',
  'FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR': 'Every weekday (Monday to Friday)',
  'FREQ=WEEKLY': 'Weekly',
  'FREQ=WEEKLY;INTERVAL=2': 'Every 2 weeks',
  'FREQ=MONTHLY': 'Monthly',
  'FREQ=YEARLY': 'Yearly',
};
const OWN = 'own';

interface EventFormProps {
  calendar: Calendar;
  before: Draft;
  /** Where it was dragged to. */
  moved?: Times | undefined;
  known: { occurrence: Occurrence; event: EventBody; series: EventBody | null } | null;
  onClose: (message?: string) => void;
}

function EventForm({ calendar, before, moved, known, onClose }: EventFormProps) {
  const [draft, setDraft] = useState(moved ? draftAt(before, moved) : before);
  const [scope, setScope] = useState<Scope>('this');
  const [hasOwnRule, setOwnRule] = useState(!(before.rrule in RULES));
  const [broken, setBroken] = useState<string | null>(null);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const comesBack = known !== null && (known.event.rrule != null || known.series !== null);
  const target = known ? targetOf(known.occurrence, known.event, known.series, scope) : null;
  const save = useMutation({
    mutationFn: () =>
      target
        ? api(target.path, {
            method: 'PATCH',
            body: different(before, draft, target.all),
            headers: ifMatch(target.version),
          })
        : api(`/api/calendars/${calendar.id}/events`, { method: 'POST', body: requestOf(draft) }),
    onSuccess: () => onClose(`Saved “${draft.title}”.`),
  });
  const remove = useMutation({
    mutationFn: async () => target && api(target.path, { method: 'DELETE', headers: ifMatch(target.version) }),
    onSuccess: () => onClose(`Deleted “${before.title}”${comesBack ? ` (${SCOPES[scope].toLowerCase()})` : ''}.`),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const fault = isZone(draft.timeZone)
      ? wrong(draft)
      : `“${draft.timeZone}” is not a time zone. Use an IANA name such as Europe/Berlin.`;
    setBroken(fault);
    if (fault === null) save.mutate();
  };
  const isBusy = save.isPending || remove.isPending;
  // A rule is the whole series' matter, and a changed occurrence has none.
  const mayRule = !comesBack || (scope !== 'this' && known?.series === null);
  return (
    <form className="editor" onSubmit={submit}>
      {comesBack ? (
        <fieldset className="fields">
          <legend>Repeating event. Apply the change to:</legend>
          {(Object.keys(SCOPES) as Scope[]).map((name) => (
            <label key={name}>
              <input type="radio" name="scope" checked={scope === name} onChange={() => setScope(name)} />{' '}
              {SCOPES[name]}
            </label>
          ))}
        </fieldset>
      ) : null}
      <label>
        Title{' '}
        <input required maxLength={200} value={draft.title} onChange={(event) => set({ title: event.target.value })} />
      </label>
      <label className="check">
        <input type="checkbox" checked={draft.allDay} onChange={(event) => set({ allDay: event.target.checked })} /> All
        day
      </label>
      <div className="fields">
        <label>
          {draft.allDay ? 'First day' : 'Starts'}{' '}
          <input
            type="date"
            required
            value={draft.startDay}
            onChange={(event) => {
              if (event.target.value !== '') setDraft(beginning(draft, event.target.value));
            }}
          />
        </label>
        {draft.allDay ? null : (
          <input
            type="time"
            required
            aria-label="Start time"
            value={draft.startTime}
            onChange={(event) => set({ startTime: event.target.value })}
          />
        )}
        <label>
          {draft.allDay ? 'Last day' : 'Ends'}{' '}
          <input
            type="date"
            required
            value={draft.endDay}
            onChange={(event) => {
              if (event.target.value !== '') set({ endDay: event.target.value });
            }}
          />
        </label>
        {draft.allDay ? null : (
          <input
            type="time"
            required
            aria-label="End time"
            value={draft.endTime}
            onChange={(event) => set({ endTime: event.target.value })}
          />
        )}
      </div>
      <ZoneField value={draft.timeZone} onChange={(event) => set({ timeZone: event.target.value })} />
      <Here draft={draft} />
      {mayRule ? (
        <div className="fields">
          <label>
            Repeats{' '}
            <select
              value={hasOwnRule ? OWN : draft.rrule}
              onChange={(event) => {
                setOwnRule(event.target.value === OWN);
                if (event.target.value !== OWN) set({ rrule: event.target.value });
              }}
            >
              {Object.entries(RULES).map(([rule, words]) => (
                <option key={rule} value={rule}>
                  {words}
                </option>
              ))}
              <option value={OWN}>Custom rule</option>
            </select>
          </label>
          {hasOwnRule ? (
            <input
              aria-label="Rule (RFC 5545)"
              required
              spellCheck={false}
              placeholder="FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10"
              value={draft.rrule}
              onChange={(event) => set({ rrule: event.target.value.trim() })}
            />
          ) : null}
        </div>
      ) : null}
      <label>
        Location{' '}
        <input maxLength={500} value={draft.location} onChange={(event) => set({ location: event.target.value })} />
      </label>
      <label>
        Description{' '}
        <textarea
          rows={3}
          maxLength={8000}
          value={draft.description}
          onChange={(event) => set({ description: event.target.value })}
        />
      </label>
      {broken ? (
        <p className="note bad" role="alert">
          {broken}
        </p>
      ) : null}
      <Refused error={save.error ?? remove.error} onClose={onClose} />
      <div className="controls">
        <button type="submit" className="primary" disabled={isBusy}>
          {known ? 'Save' : 'Create event'}
        </button>
        <button type="button" onClick={() => onClose()}>
          Cancel
        </button>
        <span className="fill" />
        {known ? (
          <button
            type="button"
            disabled={isBusy}
            onClick={() =>
              void confirmed({
                title: `Delete “${before.title}”?`,
                detail: comesBack ? `${SCOPES[scope]}.` : 'This can’t be undone.',
                action: 'Delete event',
              }).then((isAgreed) => isAgreed && remove.mutate())
            }
          >
            Delete
          </button>
        ) : null}
      </div>
    </form>
  );
}

/** When it is by the clock here, where the event goes by another one. */
function Here({ draft }: { draft: Draft }) {
  if (draft.allDay || draft.timeZone === HERE || !isZone(draft.timeZone)) return null;
  const { start, end } = wallsOf(draft);
  if (Number.isNaN(Date.parse(start)) || Number.isNaN(Date.parse(end))) return null;
  const shown = (wall: string) => {
    const here = wallAt(momentOf(wall, draft.timeZone), HERE);
    return `${inShort(here.slice(0, 10))}, ${here.slice(11)}`;
  };
  return (
    <p className="quiet" role="status">
      In your time zone ({HERE}): {shown(start)} – {shown(end)}.
    </p>
  );
}

function Refused({ error, onClose }: { error: Error | null; onClose: (message: string) => void }) {
  if (error === null) return null;
  const isGone = error instanceof Problem && ['version_conflict', 'event_not_found'].includes(error.code);
  if (!isGone) return <ErrorNote error={error} />;
  return (
    <div className="note bad" role="alert">
      <p>
        Your change was not applied:{' '}
        {error.code === 'event_not_found' ? 'the event was deleted in the meantime.' : `${error.message}.`}
      </p>
      <button type="button" onClick={() => onClose('Showing the current version. Open the event again to change it.')}>
        Discard my changes and reload
      </button>
    </div>
  );
}
