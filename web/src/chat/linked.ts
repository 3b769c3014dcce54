// Shows the message that the address names: it scrolls into sight, is marked, and gets the focus.
import { type RefObject, useEffect } from 'react';
import type { Item } from '../stream';

const PREFIX = 'message-';
/** What users do by which they leave the message. */
const DEEDS = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const;

/** The attributes of the element that shows the linked message. */
export function linkedAs(id: string) {
  return { id: PREFIX + id, className: 'linked', tabIndex: -1 };
}

/** Whether an item of the conversation shows a message. */
export function holds(item: Item, id: string): boolean {
  if (item.type === 'message') return item.message.id === id;
  const { message, parts } = item.turn;
  return message?.id === id || parts.some((part) => part.type === 'message' && part.message.id === id);
}

function scrollTo(id: string): HTMLElement | null {
  const element = document.getElementById(PREFIX + id);
  element?.scrollIntoView({ block: 'start' });
  return element;
}

/** Goes to the linked message, if it is on the page. */
export function reveal(id: string): void {
  scrollTo(id)?.focus({ preventScroll: true });
}

/** Goes to the linked message as soon as it is shown, and stays there while the page around it grows, until the user goes on. */
export function useLinked(scroller: RefObject<HTMLElement | null>, id: string | undefined, isShown: boolean): void {
  useEffect(() => {
    const content = scroller.current?.firstElementChild;
    if (id === undefined || !isShown || !content) return;
    reveal(id);
    const watch = new ResizeObserver(() => scrollTo(id));
    watch.observe(content);
    const release = () => watch.disconnect();
    for (const deed of DEEDS) addEventListener(deed, release, { once: true, passive: true, capture: true });
    return () => {
      release();
      for (const deed of DEEDS) removeEventListener(deed, release, { capture: true });
    };
  }, [scroller, id, isShown]);
}
