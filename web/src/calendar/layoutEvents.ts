// Places event occurrences on the days they touch, in the browser's time zone. All-day events keep their days in every zone.
import type { Schemas } from '../api/http';
import { type Day, daysFrom, HERE, localDay, plusDays, wallAt } from './days';

export type Occurrence = Schemas['OccurrenceBody'];

export interface Placed {
  occurrence: Occurrence;
  first: Day;
  last: Day;
  /** What the clock here shows; none: it takes all day. */
  from?: string;
  to?: string;
}

/** What an occurrence is known by in lists. */
export function keyOf({ eventId, start }: Occurrence): string {
  return `${eventId} ${start}`;
}

function placed(occurrence: Occurrence): Placed {
  if (occurrence.allDay) return { occurrence, first: occurrence.start, last: plusDays(occurrence.end, -1) };
  const [start, end] = [Date.parse(occurrence.start), Date.parse(occurrence.end)];
  const time = (ms: number) => wallAt(ms, HERE).slice(11);
  // What ends at midnight does not touch the day that begins then.
  return {
    occurrence,
    first: localDay(start),
    last: localDay(Math.max(start, end - 1)),
    from: time(start),
    to: time(end),
  };
}

/** What there is on each of these days: first what takes all of it, then in the order of time. */
export function byDay(occurrences: readonly Occurrence[], days: readonly Day[]): Map<Day, Placed[]> {
  const all = occurrences.map(placed);
  const found = new Map<Day, Placed[]>();
  for (const day of days) {
    const here = all.filter(({ first, last }) => first <= day && day <= last);
    const begins = (one: Placed) => (one.from === undefined || one.first < day ? '' : one.from);
    found.set(
      day,
      here.sort((a, b) => begins(a).localeCompare(begins(b))),
    );
  }
  return found;
}

/** When it is on this day, in words. */
export function timeOn({ first, last, from, to }: Placed, day: Day): string {
  if (from === undefined || to === undefined)
    return first === last ? 'All day' : `Day ${daysFrom(first, day)} of ${daysFrom(first, last)}`;
  if (first === last) return from === to ? from : `${from}–${to}`;
  if (day === first) return `From ${from}`;
  return day === last ? `Until ${to}` : 'All day';
}

/** Returns the start in the event's own time zone if it differs from the browser's; null for all-day events. */
export function elsewhere({ allDay, start, timeZone }: Occurrence): string | null {
  return allDay || timeZone === HERE ? null : `${start.slice(11, 16)} in ${timeZone}`;
}
