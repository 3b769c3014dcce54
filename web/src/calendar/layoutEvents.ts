// Places event occurrences on the days they touch, in the browser's time zone. All-day events keep their days in every zone.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';
import { type Day, daysFrom, HERE, localDay, plusDays, timeInWords, wallAt } from './days';

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
    return first === last
      ? t('All day')
      : t('Day {day} of {days}', { day: daysFrom(first, day), days: daysFrom(first, last) });
  if (first === last) return from === to ? timeInWords(from) : timesInWords(from, to);
  if (day === first) return t('From {time}', { time: timeInWords(from) });
  return day === last ? t('Until {time}', { time: timeInWords(to) }) : t('All day');
}

/** From when to when on one day. */
export function timesInWords(from: string, to: string): string {
  return t('{from}–{to}', { from: timeInWords(from), to: timeInWords(to) });
}

/** Returns the start in the event's own time zone if it differs from the browser's; null for all-day events. */
export function elsewhere({ allDay, start, timeZone }: Occurrence): string | null {
  if (allDay || timeZone === HERE) return null;
  return t('{time} in {zone}', { time: timeInWords(start.slice(11, 16)), zone: timeZone });
}
