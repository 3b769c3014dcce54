// A week as columns of hours: events lie where their times are, all-day events above them. Enter or a click on an hour creates an event then; arrow
// keys go from hour to hour. Events are dragged to other times; the editor does the same by the keyboard.
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { t } from '../ui/language';
import type { Opened } from './CalendarView';
import { EventButton, NewOnDay } from './DayEvents';
import { clock, DayHours, HOURS } from './DayHours';
import { type Day, HERE, inShort, inWords, timeInWords, wallAt } from './days';
import { minutesOf } from './lanes';
import { keyOf, type Occurrence, type Placed } from './layoutEvents';
import type { Part } from './reschedule';
import { useEventDrag } from './useEventDrag';

/** The hour that is at the top at first. */
const MORNING = 7;
/** The hour that the Tab key leads to at first. */
const NINE = 9;
/** How often the present time is drawn again. */
const NOW_MS = 30_000;

interface WeekGridProps {
  days: readonly Day[];
  today: Day;
  placed: ReadonlyMap<Day, readonly Placed[]>;
  open: (what: Opened) => void;
  /** An event was dragged, or its end. */
  onDropped: (occurrence: Occurrence, part: Part, minutes: number) => void;
  mayWrite: boolean;
}

export function WeekGrid({ days, today, placed, open, onDropped, mayWrite }: WeekGridProps) {
  const box = useRef<HTMLDivElement>(null);
  const now = useNow();
  const [stop, setStop] = useState<{ day: Day; hour: number } | null>(null);
  const { ghost, press } = useEventDrag(box, days, onDropped);
  useEffect(() => {
    const hours = box.current?.querySelector('.hours');
    if (box.current && hours) box.current.scrollTop = (hours.clientHeight / 24) * MORNING;
  }, []);
  const first = days.includes(today) ? today : days[0];
  const current = stop && days.includes(stop.day) ? stop : { day: first, hour: NINE };
  const onHourKey = (event: KeyboardEvent, day: Day, hour: number) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const column = days.indexOf(day);
    const to = {
      ArrowUp: [column, hour - 1],
      ArrowDown: [column, hour + 1],
      [BACKWARD]: [column - 1, hour],
      [FORWARD]: [column + 1, hour],
      Home: [0, hour],
      End: [days.length - 1, hour],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const [nextDay, nextHour = hour] = [days[to[0] ?? column], to[1]];
    if (nextDay === undefined || !HOURS.includes(nextHour)) return;
    setStop({ day: nextDay, hour: nextHour });
    box.current?.querySelector<HTMLElement>(`[data-hour="${nextDay}T${clock(60 * nextHour)}"]`)?.focus();
  };
  return (
    <section ref={box} className="week" aria-label={t('Week')} tabIndex={0}>
      <ol className="clock" aria-hidden="true">
        {HOURS.map((hour) => (
          <li key={hour}>{timeInWords(clock(60 * hour))}</li>
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
                {day === today ? <span className="hidden">{t(', today')}</span> : null}
              </span>
              {mayWrite ? <NewOnDay day={day} open={open} /> : null}
            </h3>
            <div className="whole-day">
              {whole.map((each) => (
                <EventButton key={keyOf(each.occurrence)} placed={each} day={day} open={open} />
              ))}
            </div>
            <DayHours
              day={day}
              placed={all}
              stop={current.day === day ? current.hour : null}
              now={now.startsWith(day) ? minutesOf(now.slice(11)) : null}
              ghost={ghost}
              press={press}
              open={open}
              onHourKey={onHourKey}
              mayWrite={mayWrite}
            />
          </section>
        );
      })}
    </section>
  );
}

/** What the clock of this browser shows. */
function useNow(): string {
  const [now, setNow] = useState(() => wallAt(Date.now(), HERE));
  useEffect(() => {
    const timer = setInterval(() => setNow(wallAt(Date.now(), HERE)), NOW_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
