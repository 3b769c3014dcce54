// Shows a month as a grid with arrow-key navigation. Tab moves from a day to its events; Enter creates an event.
import { type KeyboardEvent, useEffect, useRef } from 'react';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { t } from '../ui/language';
import type { Opened } from './CalendarView';
import {
  type Day,
  dayInMonth,
  inWords,
  plusDays,
  plusMonths,
  timeInWords,
  weekdayInShort,
  weekdayInWords,
  weekOf,
} from './days';
import { elsewhere, keyOf, type Placed, timeOn } from './layoutEvents';

/** Events that a day of the grid has room for; more are counted. */
const SHOWN = 3;

interface MonthGridProps {
  weeks: readonly Day[][];
  day: Day;
  today: Day;
  placed: Map<Day, Placed[]>;
  go: (day: Day) => void;
  open: (what: Opened) => void;
  mayWrite: boolean;
}

/** Where a key leads from a day. */
function led(key: string, day: Day): Day | undefined {
  const week = weekOf(day);
  const ways: Record<string, Day | undefined> = {
    [BACKWARD]: plusDays(day, -1),
    [FORWARD]: plusDays(day, 1),
    ArrowUp: plusDays(day, -7),
    ArrowDown: plusDays(day, 7),
    Home: week[0],
    End: week.at(-1),
    PageUp: plusMonths(day, -1),
    PageDown: plusMonths(day, 1),
  };
  return ways[key];
}

function cellOf(grid: HTMLElement | null, day: Day) {
  return grid?.querySelector<HTMLElement>(`[data-day="${day}"]`);
}

export function MonthGrid({ weeks, day, today, placed, go, open, mayWrite }: MonthGridProps) {
  const grid = useRef<HTMLTableElement>(null);
  const isLed = useRef(false);
  // A day that the grid did not have when a key led there.
  useEffect(() => {
    if (isLed.current) cellOf(grid.current, day)?.focus();
    isLed.current = false;
  }, [day]);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    // Keys on an event are the event's.
    if (event.target !== event.currentTarget || event.altKey || event.ctrlKey || event.metaKey) return;
    const from = event.currentTarget.dataset.day ?? day;
    const to = led(event.key, from);
    if (to !== undefined) {
      cellOf(grid.current, to)?.focus();
      isLed.current = true;
      go(to);
    } else if (event.key === 'Enter' && mayWrite) {
      open({ day: from });
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: HTML has no element for a grid that arrow keys move through.
    <table ref={grid} role="grid" aria-labelledby="shown">
      <thead>
        <tr>
          {(weeks[0] ?? []).map((one) => (
            <th key={one} scope="col" abbr={weekdayInWords(one)}>
              {weekdayInShort(one)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weeks.map((week) => (
          <tr key={week[0]}>
            {week.map((one) => {
              const here = placed.get(one) ?? [];
              const classes = [one.slice(0, 7) === day.slice(0, 7) ? '' : 'other', one === today ? 'today' : ''];
              return (
                <td
                  key={one}
                  // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a cell of that grid takes the focus.
                  role="gridcell"
                  data-day={one}
                  className={classes.join(' ').trim()}
                  aria-selected={one === day}
                  aria-current={one === today ? 'date' : undefined}
                  tabIndex={one === day ? 0 : -1}
                  onKeyDown={onKeyDown}
                  onClick={() => go(one)}
                  onDoubleClick={(event) => {
                    if (mayWrite && event.target === event.currentTarget) open({ day: one });
                  }}
                >
                  <span className="of-month" aria-hidden="true">
                    {dayInMonth(one)}
                  </span>
                  <span className="hidden">{inWords(one)}</span>
                  {here.slice(0, SHOWN).map((each) => (
                    <button
                      key={keyOf(each.occurrence)}
                      type="button"
                      className={each.from === undefined ? 'event whole' : 'event'}
                      title={[timeOn(each, one), each.occurrence.title, elsewhere(each.occurrence)]
                        .filter(Boolean)
                        .join(' · ')}
                      tabIndex={one === day ? 0 : -1}
                      onClick={() => open({ occurrence: each.occurrence })}
                    >
                      {each.from !== undefined && each.first === one ? (
                        <span className="at">{timeInWords(each.from)}</span>
                      ) : null}{' '}
                      <bdi>{each.occurrence.title}</bdi>
                    </button>
                  ))}
                  {here.length > SHOWN ? (
                    <span className="more">{t('{count, plural, other {# more}}', { count: here.length - SHOWN })}</span>
                  ) : null}
                  <span className="dots" aria-hidden="true">
                    {'•'.repeat(Math.min(here.length, SHOWN))}
                  </span>
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
