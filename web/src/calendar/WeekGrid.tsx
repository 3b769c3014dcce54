// A week as columns of hours: events lie where their times are, all-day events above them.
import { useEffect, useRef } from 'react';
import type { Opened } from './CalendarView';
import { EventButton, NewOnDay } from './DayEvents';
import { type Day, inShort, inWords } from './days';
import { slotsOf } from './lanes';
import { keyOf, type Placed } from './layoutEvents';

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** The hour that is at the top at first. */
const MORNING = 7;

interface WeekGridProps {
  days: readonly Day[];
  today: Day;
  placed: ReadonlyMap<Day, readonly Placed[]>;
  open: (what: Opened) => void;
  mayWrite: boolean;
}

export function WeekGrid({ days, today, placed, open, mayWrite }: WeekGridProps) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const hours = box.current?.querySelector('.hours');
    if (box.current && hours) box.current.scrollTop = (hours.clientHeight / 24) * MORNING;
  }, []);
  return (
    <section ref={box} className="week" aria-label="Week" tabIndex={0}>
      <ol className="clock" aria-hidden="true">
        {HOURS.map((hour) => (
          <li key={hour}>{`${String(hour).padStart(2, '0')}:00`}</li>
        ))}
      </ol>
      {days.map((day) => {
        const all = placed.get(day) ?? [];
        const whole = all.filter(({ from }) => from === undefined);
        return (
          <section key={day} className="day" aria-label={inWords(day)}>
            <h3>
              <span className={day === today ? 'is-today' : undefined}>
                {inShort(day)}
                {day === today ? <span className="hidden">, today</span> : null}
              </span>
              {mayWrite ? <NewOnDay day={day} open={open} /> : null}
            </h3>
            <div className="whole-day">
              {whole.map((each) => (
                <EventButton key={keyOf(each.occurrence)} placed={each} day={day} open={open} />
              ))}
            </div>
            <div className="hours">
              {slotsOf(all, day).map(({ placed: each, from, to, lane, lanes }) => (
                <div
                  key={keyOf(each.occurrence)}
                  className="slot"
                  style={{
                    insetBlockStart: `${(100 * from) / 1440}%`,
                    blockSize: `${(100 * (to - from)) / 1440}%`,
                    insetInlineStart: `${(100 * lane) / lanes}%`,
                    inlineSize: `${100 / lanes}%`,
                  }}
                >
                  <EventButton placed={each} day={day} open={open} />
                </div>
              ))}
            </div>
          </section>
        );
      })}
    </section>
  );
}
