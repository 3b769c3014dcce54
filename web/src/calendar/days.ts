// Converts between days, wall-clock times and moments. A day is `2026-11-23`; a wall-clock time is `2026-11-23T09:00`, without a zone. Both are
// computed as if they were UTC, where each day has 24 hours.

import { LOCALE, language, number, t } from '../ui/language';

export type Day = string;
export type Wall = string;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Weeks begin on Mondays (ISO 8601). */
const MONDAY = 1;
const DAYS_OF_WEEK = 7;

/** IANA's name of the zone that this browser is in. */
export const HERE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

export function dayOf(ms: number): Day {
  return new Date(ms).toISOString().slice(0, 10);
}

/** A day, if the text is one. */
export function dayFrom(text: string | undefined): Day | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : dayOf(ms);
}

export function plusDays(day: Day, days: number): Day {
  return dayOf(Date.parse(day) + days * DAY_MS);
}

/** How many days there are from one to another, both counted. */
export function daysFrom(first: Day, last: Day): number {
  return Math.round((Date.parse(last) - Date.parse(first)) / DAY_MS) + 1;
}

/** The same day of another month, or that month's last. */
export function plusMonths(day: Day, months: number): Day {
  const [year = 0, month = 1, of = 1] = day.split('-').map(Number);
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate();
  return dayOf(Date.UTC(year, month - 1 + months, Math.min(of, last)));
}

/** The week that a day is in. */
export function weekOf(day: Day): Day[] {
  const since = (new Date(Date.parse(day)).getUTCDay() - MONDAY + DAYS_OF_WEEK) % DAYS_OF_WEEK;
  return Array.from({ length: DAYS_OF_WEEK }, (_, nth) => plusDays(day, nth - since));
}

/** The weeks that a day's month touches. */
export function monthOf(day: Day): Day[][] {
  const month = day.slice(0, 7);
  const weeks: Day[][] = [];
  for (
    let week = weekOf(`${month}-01`);
    weeks.length === 0 || week[0]?.startsWith(month);
    week = week.map((one) => plusDays(one, DAYS_OF_WEEK))
  ) {
    weeks.push(week);
  }
  return weeks;
}

/** The day that this browser's clock shows at a moment. */
export function localDay(ms: number): Day {
  return wallAt(ms, HERE).slice(0, 10);
}

export function plusMs(wall: Wall, ms: number): Wall {
  return wallOf(Date.parse(`${wall}Z`) + ms);
}

/** How much later the second one shows [ms]. */
export function msBetween(first: Wall, second: Wall): number {
  return Date.parse(`${second}Z`) - Date.parse(`${first}Z`);
}

function wallOf(ms: number): Wall {
  return new Date(ms).toISOString().slice(0, 16);
}

const CLOCKS = new Map<string, Intl.DateTimeFormat>();

function clockOf(zone: string): Intl.DateTimeFormat {
  const known = CLOCKS.get(zone);
  if (known) return known;
  const parts = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' } as const;
  const clock = new Intl.DateTimeFormat('en', { ...parts, hourCycle: 'h23', timeZone: zone });
  CLOCKS.set(zone, clock);
  return clock;
}

/** Whether this is IANA's name of a zone. */
export function isZone(zone: string): boolean {
  try {
    clockOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** What the clocks of a zone show at a moment. */
export function wallAt(ms: number, zone: string): Wall {
  const parts = Object.fromEntries(
    clockOf(zone)
      .formatToParts(ms)
      .map(({ type, value }) => [type, value]),
  );
  return `${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}`;
}

/** The moment at which the clocks of a zone show so: of two the first, and what they skip an hour later, as the server has it. */
export function momentOf(wall: Wall, zone: string): number {
  const asIfUtc = Date.parse(`${wall}Z`);
  const offset = (ms: number) => Date.parse(`${wallAt(ms, zone)}Z`) - ms;
  const found = [asIfUtc - offset(asIfUtc - DAY_MS), asIfUtc - offset(asIfUtc + DAY_MS)].filter(
    (ms) => wallAt(ms, zone) === wall,
  );
  return found.length > 0 ? Math.min(...found) : momentOf(plusMs(wall, HOUR_MS), zone);
}

const isEnglish = language === 'en';
// Everywhere the months of the Gregorian calendar, which the grid shows; in English the day before the month.
const formatOf = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat(isEnglish ? 'en-GB' : LOCALE, { ...options, calendar: 'gregory', timeZone: 'UTC' });

const worded = (options: Intl.DateTimeFormatOptions) => {
  const format = formatOf(options);
  if (!isEnglish) return (day: Day) => format.format(Date.parse(day));
  // What stands between the parts differs from browser to browser.
  const values = (parts: Intl.DateTimeFormatPart[]) =>
    parts.filter(({ type }) => type !== 'literal').map(({ value }) => value);
  return (day: Day) => values(format.formatToParts(Date.parse(day))).join(' ');
};
/** Monday 23 November 2026 */
export const inWords = worded({ weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
/** Mon 23 Nov */
export const inShort = worded({ weekday: 'short', day: 'numeric', month: 'short' });
/** November 2026 */
export const monthInWords = worded({ month: 'long', year: 'numeric' });
/** Mon */
export const weekdayInShort = worded({ weekday: 'short' });
/** Monday */
export const weekdayInWords = worded({ weekday: 'long' });
/** 2026 */
export const yearInWords = worded({ year: 'numeric' });
/** 23 */
export const dayInMonth = (day: Day) => number(Number(day.slice(8)));

const timeFormat = formatOf({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
/** A time such as `09:30`, in the digits of the language. */
export const timeInWords = (time: string) => timeFormat.format(Date.parse(`1970-01-01T${time}Z`));
/** Mon 23 Nov, 09:30 */
export const whenInWords = (wall: Wall) =>
  t('{day}, {time}', { day: inShort(wall.slice(0, 10)), time: timeInWords(wall.slice(11)) });
