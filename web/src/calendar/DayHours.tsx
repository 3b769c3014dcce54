// The hours of one day of the week grid: a button for each hour, which creates an event then, and above them the events and the present time.
import type { KeyboardEvent, MouseEvent } from 'react';
import { t } from '../ui/language';
import type { Opened } from './CalendarView';
import { EventButton } from './DayEvents';
import { type Day, inWords, timeInWords } from './days';
import { DAY_MIN, slotsOf } from './lanes';
import { keyOf, type Placed, timesInWords } from './layoutEvents';
import { shownHour } from './reschedule';
import type { Ghost, Press } from './useEventDrag';

export const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

export const clock = (minutes: number) =>
  `${String(Math.floor(minutes / 60) % 24).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;

interface DayHoursProps {
  day: Day;
  placed: readonly Placed[];
  /** The hour that is a stop of the Tab key; null: on another day. */
  stop: number | null;
  /** The minutes after midnight, today. */
  now: number | null;
  ghost: Ghost | null;
  press: Press;
  open: (what: Opened) => void;
  onHourKey: (event: KeyboardEvent, day: Day, hour: number) => void;
  mayWrite: boolean;
}

export function DayHours({ day, placed, stop, now, ghost, press, open, onHourKey, mayWrite }: DayHoursProps) {
  return (
    <div className="hours">
      {mayWrite
        ? HOURS.map((hour) => (
            <HourButton
              key={hour}
              day={day}
              hour={hour}
              isStop={hour === stop}
              open={open}
              onKeyDown={(event) => onHourKey(event, day, hour)}
            />
          ))
        : null}
      {slotsOf(placed, day).map((slot) => {
        const { placed: each, from, to, lane, lanes } = slot;
        const key = keyOf(each.occurrence);
        return (
          <div
            key={key}
            className={ghost?.key === key ? 'slot dragged' : 'slot'}
            style={{
              insetBlockStart: percent(from),
              blockSize: percent(to - from),
              insetInlineStart: `${(100 * lane) / lanes}%`,
              inlineSize: `${100 / lanes}%`,
            }}
          >
            <EventButton
              placed={each}
              day={day}
              open={open}
              onPointerDown={mayWrite ? (event) => press(event, slot, day, 'event') : undefined}
            />
            {mayWrite && each.last === day ? (
              <span className="resize" aria-hidden="true" onPointerDown={(event) => press(event, slot, day, 'end')} />
            ) : null}
          </div>
        );
      })}
      {ghost?.day === day ? (
        <div
          className="slot ghost"
          aria-hidden="true"
          style={{ insetBlockStart: percent(ghost.from), blockSize: percent(ghost.to - ghost.from) }}
        >
          {timesInWords(clock(ghost.from), clock(ghost.to))}
        </div>
      ) : null}
      {now === null ? null : <div className="now" aria-hidden="true" style={{ insetBlockStart: percent(now) }} />}
    </div>
  );
}

/** A part of the day's height. */
function percent(minutes: number): string {
  return `${(100 * minutes) / DAY_MIN}%`;
}

interface HourButtonProps extends Pick<DayHoursProps, 'day' | 'open'> {
  hour: number;
  isStop: boolean;
  onKeyDown: (event: KeyboardEvent) => void;
}

function HourButton({ day, hour, isStop, open, onKeyDown }: HourButtonProps) {
  const time = clock(60 * hour);
  const isSkipped = shownHour(`${day}T${time}`) !== `${day}T${time}`;
  const name = { day: inWords(day), time: timeInWords(time) };
  const create = (event: MouseEvent<HTMLElement>) => {
    const { top, height } = event.currentTarget.getBoundingClientRect();
    // A click by a key has no place: it means the hour itself.
    const isSecondHalf = event.detail > 0 && event.clientY > top + height / 2;
    const shown = shownHour(`${day}T${clock(60 * hour + (isSecondHalf ? 30 : 0))}`);
    open({ day: shown.slice(0, 10), time: shown.slice(11) });
  };
  return (
    <button
      type="button"
      className={isSkipped ? 'hour skipped' : 'hour'}
      data-hour={`${day}T${time}`}
      aria-label={
        isSkipped
          ? t('New event on {day} at {time} (the clocks skip this hour)', name)
          : t('New event on {day} at {time}', name)
      }
      tabIndex={isStop ? 0 : -1}
      onKeyDown={onKeyDown}
      onClick={create}
    />
  );
}
