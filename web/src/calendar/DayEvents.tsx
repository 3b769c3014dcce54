// Lists the events of one day with their times, and the event's own time zone where it differs from the browser's.
import { Plus } from 'lucide-react';
import type { PointerEvent } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import type { Opened } from './CalendarView';
import { type Day, inShort, inWords } from './days';
import { elsewhere, keyOf, type Placed, timeOn } from './layoutEvents';

interface DayEventsProps {
  day: Day;
  isToday: boolean;
  placed: readonly Placed[];
  open: (what: Opened) => void;
  mayWrite: boolean;
}

export function DayEvents({ day, isToday, placed, open, mayWrite }: DayEventsProps) {
  return (
    <section className="day" aria-label={inWords(day)}>
      <h3>
        <span className={isToday ? 'is-today' : undefined}>
          {inShort(day)}
          {isToday ? <span className="hidden">{t(', today')}</span> : null}
        </span>
        {mayWrite ? <NewOnDay day={day} open={open} /> : null}
      </h3>
      {placed.length === 0 ? <p className="quiet">{t('No events')}</p> : null}
      <ol>
        {placed.map((each) => (
          <li key={keyOf(each.occurrence)}>
            <EventButton placed={each} day={day} open={open} />
          </li>
        ))}
      </ol>
    </section>
  );
}

export function NewOnDay({ day, open }: Pick<DayEventsProps, 'day' | 'open'>) {
  return (
    <IconButton
      icon={Plus}
      label={t('New event')}
      name={t('New event on {day}', { day: inWords(day) })}
      onClick={() => open({ day })}
    />
  );
}

interface EventButtonProps extends Pick<DayEventsProps, 'day' | 'open'> {
  placed: Placed;
  onPointerDown?: ((event: PointerEvent<HTMLElement>) => void) | undefined;
}

export function EventButton({ placed, day, open, onPointerDown }: EventButtonProps) {
  const { occurrence } = placed;
  const away = elsewhere(occurrence);
  return (
    <button
      type="button"
      className={placed.from === undefined ? 'event whole' : 'event'}
      onPointerDown={onPointerDown}
      onClick={() => open({ occurrence })}
    >
      <span className="at">{timeOn(placed, day)}</span> <b dir="auto">{occurrence.title}</b>
      {occurrence.recurring ? (
        <span className="quiet" title={t('Repeats')}>
          {' '}
          ↻<span className="hidden">{t(', repeats')}</span>
        </span>
      ) : null}
      {away ? <span className="quiet beneath">{away}</span> : null}
      {occurrence.location ? (
        <span dir="auto" className="quiet beneath">
          {occurrence.location}
        </span>
      ) : null}
    </button>
  );
}
