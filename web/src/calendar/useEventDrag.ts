// Drags events and their ends over the hours of a week, by pointer events: a browser's own drags have no exact place. Fingers and pens drag
// after a long press, so that they can scroll. Escape ends a drag.
import { type PointerEvent as Pressed, type RefObject, useEffect, useRef, useState } from 'react';
import type { Day } from './days';
import { DAY_MIN, type Slot } from './lanes';
import { keyOf, type Occurrence } from './layoutEvents';
import type { Part } from './reschedule';

/** Times that events are dragged to are multiples of this. */
const SNAP_MIN = 15;
/** A press that moves less is a click [px]. */
const CLICK_PX = 5;
/** How long a finger rests on an event until it drags it. */
const PRESS_MS = 400;
/** A drag this near to the top or the bottom scrolls [px]. */
const EDGE_PX = 40;
const SCROLL_PX = 12;

/** Where the dragged event would be. */
export interface Ghost {
  /** Of the event that is dragged. */
  key: string;
  day: Day;
  /** In minutes after midnight. */
  from: number;
  to: number;
  /** How far it was dragged, over all days. */
  minutes: number;
}

export type Press = (event: Pressed<HTMLElement>, slot: Slot, day: Day, part: Part) => void;

export function useEventDrag(
  box: RefObject<HTMLElement | null>,
  days: readonly Day[],
  onDropped: (occurrence: Occurrence, part: Part, minutes: number) => void,
): { ghost: Ghost | null; press: Press } {
  const [ghost, setGhost] = useState<Ghost | null>(null);
  /** Ends the drag that is under way. */
  const stop = useRef<(() => void) | null>(null);
  const isHeld = useRef(false);
  useEffect(() => {
    const element = box.current;
    // Browsers ask before a touch begins whether a page may keep them from scrolling.
    const hold = (event: TouchEvent) => {
      if (isHeld.current) event.preventDefault();
    };
    element?.addEventListener('touchmove', hold, { passive: false });
    return () => {
      stop.current?.();
      element?.removeEventListener('touchmove', hold);
    };
  }, [box]);

  const press: Press = (event, slot, day, part) => {
    if (event.button !== 0 || !box.current) return;
    stop.current?.();
    const element = box.current;
    const columns = [...element.querySelectorAll<HTMLElement>('.hours')];
    const { pointerId, clientX, clientY } = event;
    const begin = placeOf(columns, event.nativeEvent);
    const ending = new AbortController();
    const { signal } = ending;
    let now: Ghost | null = null;
    const timer =
      event.pointerType !== 'mouse'
        ? setTimeout(() => {
            isHeld.current = true;
            setGhost({ key: keyOf(slot.placed.occurrence), day, from: slot.from, to: slot.to, minutes: 0 });
          }, PRESS_MS)
        : undefined;
    isHeld.current = event.pointerType === 'mouse';
    const end = () => {
      clearTimeout(timer);
      ending.abort();
      isHeld.current = false;
      stop.current = null;
      setGhost(null);
    };
    stop.current = end;
    const move = (to: PointerEvent) => {
      if (to.pointerId !== pointerId) return;
      const isNear = Math.hypot(to.clientX - clientX, to.clientY - clientY) < CLICK_PX;
      if (now === null && isNear) return;
      // The finger moves before it has rested: it scrolls.
      if (!isHeld.current) {
        end();
        return;
      }
      scrollAtEdges(element, to.clientY);
      const place = placeOf(columns, to);
      now = ghostAt(slot, part, days, days.indexOf(day), place.minutes - begin.minutes, place.column);
      setGhost(now);
    };
    const up = (to: PointerEvent) => {
      if (to.pointerId !== pointerId) return;
      const last = now;
      const wasHeld = last !== null || (isHeld.current && timer !== undefined);
      end();
      if (wasHeld) swallowClick();
      if (last && last.minutes !== 0) onDropped(slot.placed.occurrence, part, last.minutes);
    };
    addEventListener('pointermove', move, { signal });
    addEventListener('pointerup', up, { signal });
    addEventListener('pointercancel', end, { signal });
    const keepMenuClosed = (menu: Event) => {
      if (isHeld.current && timer !== undefined) menu.preventDefault();
    };
    addEventListener('contextmenu', keepMenuClosed, { signal });
    addEventListener(
      'keydown',
      (key) => {
        if (key.key !== 'Escape' || now === null) return;
        key.preventDefault();
        end();
        addEventListener('pointerup', swallowClick, { once: true });
      },
      { signal },
    );
  };
  return { ghost, press };
}

function ghostAt(slot: Slot, part: Part, days: readonly Day[], first: number, by: number, column: number): Ghost {
  const key = keyOf(slot.placed.occurrence);
  // A drag to another day at the same height keeps its time, also where that is not a multiple.
  const snapped = (before: number) =>
    Math.abs(by) < SNAP_MIN / 2 ? before : Math.round((before + by) / SNAP_MIN) * SNAP_MIN;
  const within = (minutes: number, least: number, most: number) => Math.min(most, Math.max(least, minutes));
  const [own, there] = [days[first] ?? '', days[column] ?? ''];
  if (part === 'end') {
    const to = within(snapped(slot.to), slot.from + SNAP_MIN, DAY_MIN);
    return { key, day: own, from: slot.from, to, minutes: to - slot.to };
  }
  const from = within(snapped(slot.from), 0, DAY_MIN - SNAP_MIN);
  const to = Math.min(DAY_MIN, from + slot.to - slot.from);
  return { key, day: there, from, to, minutes: (column - first) * DAY_MIN + from - slot.from };
}

/** The day's column that is nearest, and the minutes after its midnight. */
function placeOf(columns: readonly HTMLElement[], { clientX, clientY }: { clientX: number; clientY: number }) {
  const boxes = columns.map((column) => column.getBoundingClientRect());
  const away = ({ left, right }: DOMRect) => Math.max(left - clientX, clientX - right, 0);
  const nearest = boxes.reduce((best, box, nth) => {
    const other = boxes[best];
    return other && away(box) < away(other) ? nth : best;
  }, 0);
  const box = boxes[nearest];
  return { column: nearest, minutes: box ? ((clientY - box.top) / box.height) * DAY_MIN : 0 };
}

function scrollAtEdges(element: HTMLElement, y: number): void {
  const { top, bottom } = element.getBoundingClientRect();
  if (y < top + EDGE_PX) element.scrollBy(0, -SCROLL_PX);
  else if (y > bottom - EDGE_PX) element.scrollBy(0, SCROLL_PX);
}

/** The click that follows the end of a drag would open the event. */
function swallowClick(): void {
  const ending = new AbortController();
  const swallow = (event: Event) => {
    event.preventDefault();
    event.stopPropagation();
  };
  addEventListener('click', swallow, { capture: true, once: true, signal: ending.signal });
  setTimeout(() => ending.abort());
}
