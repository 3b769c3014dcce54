// Creates, shows, changes and deletes an event. For a repeating event, the user chooses which occurrences a change applies to.
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, ifMatch, Problem } from '../api/http';
import { confirmed, Dialog } from '../ui/Dialog';
import { Fact, Facts } from '../ui/Facts';
import { Failed } from '../ui/Failed';
import { message, t } from '../ui/language';
import { ErrorNote, ReadOnlyKey, Waiting } from '../ui/parts';
import type { Calendar, Opened } from './CalendarView';
import { HERE, inShort, isZone, momentOf, timeInWords, wallAt, whenInWords } from './days';
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
    <Dialog title={t('New event')} onClose={onClose}>
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
      {!isRead && !event.isError && !series.isError ? <Waiting what={t('the event')} /> : null}
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
        <Fact name={t('When')}>{inWordsOf(draft)}</Fact>
        {draft.location ? (
          <Fact name={t('Location')}>
            <bdi>{draft.location}</bdi>
          </Fact>
        ) : null}
        {draft.rrule ? (
          <Fact name={t('Repeats')}>
            <code>{draft.rrule}</code>
          </Fact>
        ) : null}
      </Facts>
      <p dir="auto" className="outcome">
        {draft.description}
      </p>
      <p className="quiet">
        <ReadOnlyKey action={t('Changing events')} />
      </p>
    </>
  );
}

function inWordsOf(draft: Draft): string {
  const { startDay, startTime, endDay, endTime, allDay, timeZone } = draft;
  if (allDay && startDay === endDay) return inShort(startDay);
  if (allDay) return t('{from} – {to}', { from: inShort(startDay), to: inShort(endDay) });
  const from = whenInWords(`${startDay}T${startTime}`);
  const to = startDay === endDay ? timeInWords(endTime) : whenInWords(`${endDay}T${endTime}`);
  return t('{from} – {to}, {zone}', { from, to, zone: timeZone });
}

/** By name, as the question what is deleted, and after that. */
const SCOPES: Record<Scope, { name: string; detail: string; deleted: string }> = {
  this: {
    name: t('Only this event'),
    detail: t('Only this event.'),
    deleted: message('Deleted “{title}” (only this event).'),
  },
  following: {
    name: t('This and following events'),
    detail: t('This and following events.'),
    deleted: message('Deleted “{title}” (this and following events).'),
  },
  all: {
    name: t('All events'),
    detail: t('All events.'),
    deleted: message('Deleted “{title}” (all events).'),
  },
};
const DELETED = message('Deleted “{title}”.');
/** The common recurrence rules. Any other rule is typed. */
const RULES: Record<string, string> = {
  '': t('Never'),
  'FREQ=DAILY': t('Daily'),
  'FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR': t('Every weekday (Monday to Friday)'),
  'FREQ=WEEKLY': t('Weekly'),
  'FREQ=WEEKLY;INTERVAL=2': t('Every 2 weeks'),
  'FREQ=MONTHLY': t('Monthly'),
  'FREQ=YEARLY': t('Yearly'),
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
    onSuccess: () => onClose(t('Saved “{title}”.', { title: draft.title })),
  });
  const remove = useMutation({
    mutationFn: async () => target && api(target.path, { method: 'DELETE', headers: ifMatch(target.version) }),
    onSuccess: () => onClose(t(comesBack ? SCOPES[scope].deleted : DELETED, { title: before.title })),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const fault = isZone(draft.timeZone)
      ? wrong(draft)
      : t('“{zone}” is not a time zone. Use an IANA name such as Europe/Berlin.', { zone: draft.timeZone });
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
          <legend>{t('Repeating event. Apply the change to:')}</legend>
          {(Object.keys(SCOPES) as Scope[]).map((name) => (
            <label key={name}>
              <input type="radio" name="scope" checked={scope === name} onChange={() => setScope(name)} />{' '}
              {SCOPES[name].name}
            </label>
          ))}
        </fieldset>
      ) : null}
      <label>
        {t('Title')}{' '}
        <input required maxLength={200} value={draft.title} onChange={(event) => set({ title: event.target.value })} />
      </label>
      <label className="check">
        <input type="checkbox" checked={draft.allDay} onChange={(event) => set({ allDay: event.target.checked })} />{' '}
        {t('All day')}
      </label>
      <div className="fields">
        <label>
          {draft.allDay ? t('First day') : t('Starts')}{' '}
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
            aria-label={t('Start time')}
            value={draft.startTime}
            onChange={(event) => set({ startTime: event.target.value })}
          />
        )}
        <label>
          {draft.allDay ? t('Last day') : t('Ends')}{' '}
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
            aria-label={t('End time')}
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
            {t('Repeats')}{' '}
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
              <option value={OWN}>{t('Custom rule')}</option>
            </select>
          </label>
          {hasOwnRule ? (
            <input
              aria-label={t('Rule (RFC 5545)')}
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
        {t('Location')}{' '}
        <input maxLength={500} value={draft.location} onChange={(event) => set({ location: event.target.value })} />
      </label>
      <label>
        {t('Description')}{' '}
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
          {known ? t('Save') : t('Create event')}
        </button>
        <button type="button" onClick={() => onClose()}>
          {t('Cancel')}
        </button>
        <span className="fill" />
        {known ? (
          <button
            type="button"
            disabled={isBusy}
            onClick={() =>
              void confirmed({
                title: t('Delete “{title}”?', { title: before.title }),
                detail: comesBack ? SCOPES[scope].detail : t('This can’t be undone.'),
                action: t('Delete event'),
              }).then((isAgreed) => isAgreed && remove.mutate())
            }
          >
            {t('Delete')}
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
  const shown = (wall: string) => whenInWords(wallAt(momentOf(wall, draft.timeZone), HERE));
  return (
    <p className="quiet" role="status">
      {t('In your time zone ({zone}): {start} – {end}.', { zone: HERE, start: shown(start), end: shown(end) })}
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
        {error.code === 'event_not_found'
          ? t('Your change was not applied: the event was deleted in the meantime.')
          : t('Your change was not applied: {reason}.', { reason: error.message })}
      </p>
      <button
        type="button"
        onClick={() => onClose(t('Showing the current version. Open the event again to change it.'))}
      >
        {t('Discard my changes and reload')}
      </button>
    </div>
  );
}
