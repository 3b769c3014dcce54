// Moves and resizes events by the clock of this browser. An event that is moved over a change of the clocks keeps its duration.
import { HERE, momentOf, msBetween, plusMs, type Wall, wallAt } from './days';
import type { Draft } from './draft';
import type { Occurrence } from './layoutEvents';

const MINUTE_MS = 60_000;
/** The shortest duration that a resized event gets. */
const LEAST_MS = 15 * MINUTE_MS;

/** When an event takes place, in milliseconds since 1970. */
export interface Times {
  start: number;
  end: number;
}

/** What was dragged: the whole event, or its end. */
export type Part = 'event' | 'end';

/** The times of an event after it was dragged by minutes of this browser's clock. */
export function dragged({ start, end }: Pick<Occurrence, 'start' | 'end'>, part: Part, minutes: number): Times {
  const before = { start: Date.parse(start), end: Date.parse(end) };
  const later = (ms: number) => momentOf(plusMs(wallAt(ms, HERE), minutes * MINUTE_MS), HERE);
  if (part === 'end') return { start: before.start, end: Math.max(later(before.end), before.start + LEAST_MS) };
  const moved = later(before.start);
  return { start: moved, end: moved + before.end - before.start };
}

/** An occurrence at other times, in the format of the API: by the clock of its zone, with the offset. */
export function at<Event extends Pick<Occurrence, 'timeZone' | 'start' | 'end'>>(event: Event, times: Times): Event {
  return { ...event, start: stamp(times.start, event.timeZone), end: stamp(times.end, event.timeZone) };
}

/** A draft at other times, by the clock of its zone. */
export function draftAt(draft: Draft, { start, end }: Times): Draft {
  const [first, last] = [wallAt(start, draft.timeZone), wallAt(end, draft.timeZone)];
  return {
    ...draft,
    startDay: first.slice(0, 10),
    startTime: first.slice(11),
    endDay: last.slice(0, 10),
    endTime: last.slice(11),
  };
}

function stamp(ms: number, zone: string): string {
  const wall = wallAt(ms, zone);
  const offset = Math.round(msBetween(new Date(ms).toISOString().slice(0, 16), wall) / MINUTE_MS);
  const part = (minutes: number) => String(minutes).padStart(2, '0');
  const size = Math.abs(offset);
  return `${wall}:00${offset < 0 ? '-' : '+'}${part(Math.floor(size / 60))}:${part(size % 60)}`;
}

/** The wall-clock time that an hour of a day begins with here; where the clocks skip it, the one that they show next. */
export function shownHour(wall: Wall): Wall {
  return wallAt(momentOf(wall, HERE), HERE);
}
