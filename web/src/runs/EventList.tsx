// A virtualized list of events with one selected: a log may have a hundred thousand.
import { type KeyboardEvent, type UIEvent, useEffect, useRef, useState } from 'react';
import { t } from '../ui/language';
import { type Entry, preview } from './log';

/** As in the style sheet [px]. */
const ROW = 26;
const AROUND = 12;

interface EventListProps {
  entries: readonly Entry[];
  /** The place of the one that is chosen, in `entries`; -1: none. */
  chosen: number;
  choose: (nth: number) => void;
  /** Numbers of those that a `reset` has taken back. */
  taken: ReadonlySet<number>;
}

export function EventList({ entries, chosen, choose, taken }: EventListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const height = box.current?.clientHeight ?? 400;
  // What is chosen is seen.
  useEffect(() => {
    const element = box.current;
    if (!element || chosen < 0) return;
    const top = chosen * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW - element.clientHeight;
  }, [chosen]);
  const first = Math.max(0, Math.floor(scrolled / ROW) - AROUND);
  const last = Math.min(entries.length, Math.ceil((scrolled + height) / ROW) + AROUND);
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -entries.length, End: entries.length }[
      event.key
    ];
    if (by === undefined) return;
    event.preventDefault();
    choose(Math.min(entries.length - 1, Math.max(0, chosen + by)));
  };
  const row = (nth: number) => {
    const entry = entries[nth];
    if (!entry) return null;
    const { seq, event } = entry;
    return (
      // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/useFocusableInteractive: the list has the focus and handles the keys; `aria-activedescendant` names the chosen event.
      <div
        key={seq}
        id={`event-${seq}`}
        role="option"
        aria-selected={nth === chosen}
        aria-setsize={entries.length}
        aria-posinset={nth + 1}
        className={taken.has(seq) ? 'taken' : undefined}
        title={taken.has(seq) ? t('discarded by a reset') : undefined}
        style={{ insetBlockStart: nth * ROW }}
        onClick={() => choose(nth)}
      >
        <span className="step">{seq}</span> <b>{event.type}</b>{' '}
        <span dir="auto" className="quiet">
          {preview(event)}
        </span>
      </div>
    );
  };
  // What is chosen is in the page, wherever the list was scrolled to: readers of screens follow it.
  const shown = Array.from({ length: last - first }, (_, nth) => first + nth);
  if (chosen >= 0 && (chosen < first || chosen >= last)) shown.push(chosen);
  return (
    <div
      ref={box}
      className="events"
      role="listbox"
      aria-label={t('Events')}
      tabIndex={0}
      aria-activedescendant={entries[chosen] ? `event-${entries[chosen].seq}` : undefined}
      onKeyDown={move}
      onScroll={(event: UIEvent<HTMLDivElement>) => setScrolled(event.currentTarget.scrollTop)}
    >
      <div role="presentation" style={{ blockSize: entries.length * ROW }}>
        {shown.map(row)}
      </div>
    </div>
  );
}
