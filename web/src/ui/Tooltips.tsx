// The tooltip of whatever has `data-tip`. One for the whole page: lists of thousands of buttons cost nothing more. It is shown for the pointer and
// for the keyboard's focus, and Escape hides it. It only repeats names: assistive technology reads those from the buttons themselves.
import { useEffect, useRef } from 'react';

/** Until it is shown for the pointer, in milliseconds. */
const DELAY_MS = 400;
/** Between it and what it belongs to, in pixels. */
const GAP = 6;

export function Tooltips() {
  const tip = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const hide = () => {
      clearTimeout(timer);
      if (tip.current?.matches(':popover-open')) tip.current.hidePopover();
    };
    const show = (of: Element) => {
      const element = tip.current;
      const words = of.getAttribute('data-tip');
      if (!element || !words || !of.isConnected) return;
      element.textContent = words;
      element.showPopover();
      const [there, own] = [of.getBoundingClientRect(), element.getBoundingClientRect()];
      const middle = there.left + there.width / 2 - own.width / 2;
      const isBelow = there.bottom + GAP + own.height < innerHeight;
      element.style.left = `${Math.max(4, Math.min(middle, innerWidth - own.width - 4))}px`;
      element.style.top = `${isBelow ? there.bottom + GAP : there.top - GAP - own.height}px`;
    };
    const of = (event: Event) => (event.target instanceof Element ? event.target.closest('[data-tip]') : null);
    const over = (event: PointerEvent) => {
      const element = of(event);
      hide();
      if (element && event.pointerType === 'mouse') timer = setTimeout(show, DELAY_MS, element);
    };
    const focus = (event: FocusEvent) => {
      const element = of(event);
      hide();
      if (element?.matches(':focus-visible')) show(element);
    };
    const key = (event: KeyboardEvent) => {
      if (event.key === 'Escape') hide();
    };
    const listeners: [string, (event: never) => void][] = [
      ['pointerover', over],
      ['pointerdown', hide],
      ['focusin', focus],
      ['focusout', hide],
      ['keydown', key],
    ];
    for (const [type, listener] of listeners) addEventListener(type, listener as EventListener, true);
    addEventListener('scroll', hide, true);
    return () => {
      hide();
      for (const [type, listener] of listeners) removeEventListener(type, listener as EventListener, true);
      removeEventListener('scroll', hide, true);
    };
  }, []);
  return <div ref={tip} className="tip" popover="manual" aria-hidden="true" />;
}
