// The event draft of the editor, and the request that it becomes: only the fields that changed.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';
import { type Day, dayOf, HERE, momentOf, msBetween, plusDays, plusMs, type Wall, wallAt } from './days';
import type { Occurrence } from './layoutEvents';

export type EventBody = Schemas['EventBody'];
type EventRequest = Schemas['EventRequest'];

export interface Draft {
  title: string;
  location: string;
  description: string;
  allDay: boolean;
  startDay: Day;
  startTime: string;
  /** Of an event of all day its last one. */
  endDay: Day;
  endTime: string;
  timeZone: string;
  /** RFC 5545; empty: it happens once. */
  rrule: string;
}

/** How much of an event that comes back is meant. */
export type Scope = 'this' | 'following' | 'all';

const HOUR_MS = 3_600_000;
/** Start and end of new events, by default. */
const NINE = '09:00';
const TEN = '10:00';

/** `time`: of its start; it takes an hour. */
export function newDraft(day: Day, time = NINE): Draft {
  const end = plusMs(`${day}T${time}`, HOUR_MS);
  return {
    title: '',
    location: '',
    description: '',
    allDay: false,
    startDay: day,
    startTime: time,
    endDay: end.slice(0, 10),
    endTime: end.slice(11),
    timeZone: HERE,
    rrule: '',
  };
}

/** An event as it is; where it comes back, at the time of this occurrence. */
export function draftOf(occurrence: Occurrence, event: EventBody): Draft {
  const { title, location, description, allDay, timeZone } = event;
  const { start, end } = event.rrule ? occurrence : event;
  const common = { title, location, description, allDay, timeZone, rrule: event.rrule ?? '' };
  if (allDay)
    return {
      ...common,
      startDay: start.slice(0, 10),
      startTime: NINE,
      endDay: plusDays(end.slice(0, 10), -1),
      endTime: TEN,
    };
  return {
    ...common,
    startDay: start.slice(0, 10),
    startTime: start.slice(11, 16),
    endDay: end.slice(0, 10),
    endTime: end.slice(11, 16),
  };
}

/** By the clock of its zone; of an event of all day, midnight before it and after. */
export function wallsOf(draft: Draft): { start: Wall; end: Wall } {
  return draft.allDay
    ? { start: `${draft.startDay}T00:00`, end: `${plusDays(draft.endDay, 1)}T00:00` }
    : { start: `${draft.startDay}T${draft.startTime}`, end: `${draft.endDay}T${draft.endTime}` };
}

/** Another first day: the last one moves along. */
export function beginning(draft: Draft, startDay: Day): Draft {
  const length = Date.parse(draft.endDay) - Date.parse(draft.startDay);
  return { ...draft, startDay, endDay: dayOf(Date.parse(startDay) + Math.max(0, length)) };
}

/** What is wrong, in words for who wrote it. */
export function wrong(draft: Draft): string | null {
  const { start, end } = wallsOf(draft);
  return end < start || (draft.allDay && end === start)
    ? t('The event ends before it starts. Choose a later end.')
    : null;
}

/** The request that creates an event. */
export function requestOf(draft: Draft): EventRequest {
  const { title, location, description, timeZone, allDay, rrule } = draft;
  return {
    title,
    location,
    description,
    ...times(draft, wallsOf(draft)),
    allDay,
    timeZone,
    ...(rrule === '' ? {} : { rrule }),
  };
}

/** What of a draft is different now; where all of a series is meant, it moves as far as the occurrence at `origin` does from there. */
export function different(before: Draft, now: Draft, all: { series: EventBody; origin: Wall } | null): EventRequest {
  const changed: EventRequest = {};
  for (const name of ['title', 'location', 'description', 'rrule'] as const) {
    if (now[name] !== before[name]) changed[name] = now[name];
  }
  const walls = wallsOf(now);
  const [was, is] = [before, now].map((one) => JSON.stringify([wallsOf(one), one.allDay, one.timeZone]));
  if (was === is) return changed;
  const { allDay, timeZone } = now;
  if (all === null) return { ...changed, ...times(now, walls), allDay, timeZone };
  const first = all.series.start.length === 10 ? `${all.series.start}T00:00` : all.series.start.slice(0, 16);
  const start = plusMs(first, msBetween(all.origin, walls.start));
  return {
    ...changed,
    ...times(now, { start, end: plusMs(start, msBetween(walls.start, walls.end)) }),
    allDay,
    timeZone,
  };
}

function times({ allDay }: Draft, { start, end }: { start: Wall; end: Wall }): { start: string; end: string } {
  return allDay ? { start: start.slice(0, 10), end: end.slice(0, 10) } : { start, end };
}

/** What a change is sent to, and of which version it is made. */
export interface Target {
  path: string;
  version: number;
  /** Of the series, if all of it is meant. */
  all: { series: EventBody; origin: Wall } | null;
}

/** Returns the event that a change of an occurrence applies to. A changed occurrence is a separate event that names its series. */
export function targetOf(occurrence: Occurrence, event: EventBody, series: EventBody | null, scope: Scope): Target {
  const path = (id: string, at?: string) =>
    `/api/calendar-events/${id}${at === undefined ? '' : `?scope=${scope}&occurrence=${encodeURIComponent(at)}`}`;
  const own = { path: path(event.id), version: event.version, all: null };
  const whole = series ?? (event.rrule ? event : null);
  if (whole === null || (series && scope === 'this')) return own;
  const begins = event.replacesOccurrence ?? new Date(beginsAt(occurrence)).toISOString();
  if (scope !== 'all') return { path: path(whole.id, begins), version: whole.version, all: null };
  return {
    path: path(whole.id),
    version: whole.version,
    all: { series: whole, origin: wallAt(Date.parse(begins), whole.timeZone) },
  };
}

/** The moment; a day begins at its zone's midnight. */
function beginsAt({ allDay, start, timeZone }: Occurrence): number {
  return allDay ? momentOf(`${start}T00:00`, timeZone) : Date.parse(start);
}
