// Shows one of the user's calendars, as a month grid or a week of hours in the browser's time zone, with its actions.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { ChevronLeft, ChevronRight, Plus } from 'lucide-react';
import { useMemo, useRef, useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { ReadOnlyKey, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import './calendar.css';
import { DayEvents } from './DayEvents';
import {
  type Day,
  dayFrom,
  HERE,
  inShort,
  localDay,
  momentOf,
  monthInWords,
  monthOf,
  plusDays,
  plusMonths,
  weekOf,
  yearInWords,
} from './days';
import { EventEditor } from './EventEditor';
import { Files } from './Files';
import { byDay, type Occurrence } from './layoutEvents';
import { MonthGrid } from './MonthGrid';
import { NewCalendar } from './NewCalendar';
import { dragged, type Times } from './reschedule';
import { useReschedule } from './useReschedule';
import { WeekGrid } from './WeekGrid';

export type Calendar = Schemas['CalendarBody'];
/** What the editor is open for: an event, which may have been dragged to other times, or the day and time of a new one. */
export type Opened = { occurrence: Occurrence; moved?: Times } | { day: Day; time?: string };

export function CalendarView() {
  useTitle(t('Calendar'));
  const me = useMe();
  const search = useSearch({ from: '/calendar' });
  const navigate = useNavigate({ from: '/calendar' });
  const calendars = useQuery({ queryKey: ['calendars'], queryFn: () => api<Schemas['Calendars']>('/api/calendars') });
  const [isMaking, setMaking] = useState(false);
  const mayWrite = me.scopes.includes('write');
  const items = calendars.data?.items ?? [];
  const calendar = items.find(({ id }) => id === search.calendar) ?? items[0];
  const show = (id: string | undefined) => void navigate({ search: (before) => ({ ...before, calendar: id }) });
  // The address holds the dialog: one comes back to it from Google's page.
  const google = {
    isAvailable: calendars.data?.googleAvailable === true,
    isOpen: search.dialog === 'google',
    open: (isOpen: boolean) =>
      void navigate({ search: (before) => ({ ...before, dialog: isOpen ? 'google' : undefined }), replace: true }),
  };
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Calendar')}</h1>
        {calendar ? (
          <select aria-label={t('Calendar')} value={calendar.id} onChange={(event) => show(event.target.value)}>
            {items.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        ) : null}
        {calendar?.workProjectId ? (
          <Link to="/work/$projectId" params={{ projectId: calendar.workProjectId }}>
            {t('Open project')}
          </Link>
        ) : null}
        {calendar && mayWrite ? (
          <button type="button" onClick={() => setMaking(true)}>
            {t('New calendar')}
          </button>
        ) : null}
        {calendar ? (
          <Files key={calendar.id} calendar={calendar} onRemoved={() => show(undefined)} google={google} />
        ) : null}
      </div>
      {calendars.isPending ? <Waiting what={t('calendars')} /> : null}
      {calendars.isError ? <Failed reading={calendars} /> : null}
      {calendars.isSuccess && !calendar ? (
        <>
          <p className="note quiet">
            {t('No calendars yet. An agent with calendar tools creates one when it adds its first event.')}{' '}
            {mayWrite ? t('You can also create one here.') : <ReadOnlyKey action={t('Creating calendars')} />}
          </p>
          {mayWrite ? <NewCalendar onMade={show} /> : null}
        </>
      ) : null}
      {isMaking ? (
        <Dialog title={t('New calendar')} onClose={() => setMaking(false)}>
          <NewCalendar
            onMade={(id) => {
              setMaking(false);
              show(id);
            }}
          />
        </Dialog>
      ) : null}
      {calendar ? <Days key={calendar.id} calendar={calendar} mayWrite={mayWrite} /> : null}
    </main>
  );
}

function Days({ calendar, mayWrite }: { calendar: Calendar; mayWrite: boolean }) {
  const queries = useQueryClient();
  const { view, date } = useSearch({ from: '/calendar' });
  const navigate = useNavigate({ from: '/calendar' });
  const [opened, open] = useState<Opened | null>(null);
  const [status, setStatus] = useState('');
  const reschedule = useReschedule(calendar.id, setStatus);
  const heading = useRef<HTMLHeadingElement>(null);
  const today = localDay(Date.now());
  const day = dayFrom(date) ?? today;
  const isWeek = view === 'week';
  const weeks = useMemo(() => (isWeek ? [weekOf(day)] : monthOf(day)), [day, isWeek]);
  const days = weeks.flat();
  const [first = day, last = day] = [days[0], days.at(-1)];
  const happening = useQuery({
    queryKey: ['happening', calendar.id, first, last],
    queryFn: ({ signal }) => {
      // A day more on both sides: days of other zones begin earlier or later than here.
      const between = {
        from: new Date(momentOf(`${plusDays(first, -1)}T00:00`, HERE)),
        to: new Date(momentOf(`${plusDays(last, 2)}T00:00`, HERE)),
      };
      return api<Schemas['Occurrences']>(
        `/api/calendars/${calendar.id}/events${query({ from: between.from.toISOString(), to: between.to.toISOString() })}`,
        { signal },
      );
    },
  });
  const placed = useMemo(() => byDay(happening.data?.items ?? [], weeks.flat()), [happening.data, weeks]);
  const go = (to: Day) => void navigate({ search: (before) => ({ ...before, date: to }), replace: true });
  const moved = (by: number) => (isWeek ? plusDays(day, 7 * by) : plusMonths(day, by));
  const look = (to: 'week' | undefined) => void navigate({ search: (before) => ({ ...before, view: to }) });
  return (
    <>
      <div className="controls">
        <button type="button" onClick={() => go(today)}>
          {t('Today')}
        </button>
        <IconButton
          icon={ChevronLeft}
          label={isWeek ? t('Previous week') : t('Previous month')}
          onClick={() => go(moved(-1))}
        />
        <IconButton
          icon={ChevronRight}
          label={isWeek ? t('Next week') : t('Next month')}
          onClick={() => go(moved(1))}
        />
        <h2 id="shown" ref={heading} tabIndex={-1} aria-live="polite">
          {isWeek
            ? t('{first} – {last} {year}', { first: inShort(first), last: inShort(last), year: yearInWords(last) })
            : monthInWords(day)}
        </h2>
        <span className="fill" />
        <div role="group" aria-label={t('View')} className="choice">
          <button type="button" aria-pressed={!isWeek} onClick={() => look(undefined)}>
            {t('Month')}
          </button>
          <button type="button" aria-pressed={isWeek} onClick={() => look('week')}>
            {t('Week')}
          </button>
        </div>
        {mayWrite ? (
          <button type="button" className="primary" onClick={() => open({ day })}>
            <Plus className="icon" /> {t('New event')}
          </button>
        ) : null}
      </div>
      <p className="quiet told-here" role="status">
        {status}
      </p>
      {reschedule.undone ? (
        <p className="note bad" role="alert">
          {reschedule.undone}{' '}
          <button type="button" className="small" onClick={reschedule.forget}>
            {t('Close')}
          </button>
        </p>
      ) : null}
      {happening.isError ? <Failed reading={happening} /> : null}
      {happening.isPending ? <Waiting what={t('events')} /> : null}
      {happening.data?.truncated ? (
        <p className="note bad">{t('Not all events are shown. Switch to the week view to see more.')}</p>
      ) : null}
      {happening.data?.items.length === 0 ? (
        <p className="note quiet">
          {isWeek ? t('No events in this week.') : t('No events in this month.')}{' '}
          {mayWrite ? howToCreate(isWeek) : <ReadOnlyKey action={t('Creating events')} />}
        </p>
      ) : null}
      {isWeek ? (
        <WeekGrid
          days={days}
          today={today}
          placed={placed}
          open={open}
          mayWrite={mayWrite}
          onDropped={(occurrence, part, minutes) => {
            const times = dragged(occurrence, part, minutes);
            // For an event that repeats, the user chooses in the editor which occurrences move.
            if (occurrence.recurring) open({ occurrence, moved: times });
            else reschedule.change({ occurrence, times });
          }}
        />
      ) : (
        <div className="month">
          <MonthGrid weeks={weeks} day={day} today={today} placed={placed} go={go} open={open} mayWrite={mayWrite} />
          <DayEvents day={day} isToday={day === today} placed={placed.get(day) ?? []} open={open} mayWrite={mayWrite} />
        </div>
      )}
      {opened ? (
        <EventEditor
          calendar={calendar}
          opened={opened}
          mayWrite={mayWrite}
          onClose={(words) => {
            open(null);
            if (words === undefined) return;
            setStatus(words);
            void queries.invalidateQueries({ queryKey: ['happening', calendar.id] });
            // What had the focus may be gone with the event.
            heading.current?.focus();
          }}
        />
      ) : null}
    </>
  );
}

function howToCreate(isWeek: boolean): string {
  return isWeek
    ? t('Select an hour and press Enter, click “New event”, or import a file.')
    : t('Select a day and press Enter, click “New event”, or import a file.');
}
