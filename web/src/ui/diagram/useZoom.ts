// Zooms a drawing within the box that it scrolls in: by Ctrl and the wheel, by two fingers, and by the keys + - 0. What is under the pointer, or
// in the middle, stays where it is.
import { type RefObject, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from 'react';

const STEP = 1.25;
const LEAST = 0.2;
const MOST = 2.5;
/** Around the drawing, when all of it is shown [px]. */
const MARGIN = 34;

interface Point {
  clientX: number;
  clientY: number;
}

interface Zoom {
  zoom: number;
  closer: () => void;
  farther: () => void;
  /** Shows all of the drawing, at most in its own size. */
  fit: () => void;
}

/** `sheet`: what is drawn, as large as it is with the zoom. */
export function useZoom(
  box: RefObject<HTMLElement | null>,
  sheet: RefObject<HTMLElement | null>,
  { width, height }: { width: number; height: number },
): Zoom {
  const [zoom, setZoom] = useState(1);
  /** A point of the drawing, and where it has to be on the screen after the zoom. */
  const held = useRef<(Point & { x: number; y: number }) | null>(null);

  const zoomTo = (next: number, at?: Point) => {
    if (!box.current || !sheet.current) return;
    const outer = box.current.getBoundingClientRect();
    const inner = sheet.current.getBoundingClientRect();
    const { clientX, clientY } = at ?? {
      clientX: outer.left + outer.width / 2,
      clientY: outer.top + outer.height / 2,
    };
    held.current = { clientX, clientY, x: (clientX - inner.left) / zoom, y: (clientY - inner.top) / zoom };
    setZoom(Math.min(MOST, Math.max(LEAST, next)));
  };
  const fit = () => {
    const element = box.current;
    if (!element || width === 0 || height === 0) return;
    // The box is only as high as the drawing, up to its largest height.
    const room = Math.max(element.clientHeight, Number.parseFloat(getComputedStyle(element).maxHeight) || 0);
    zoomTo(Math.min(1, (element.clientWidth - MARGIN) / width, (room - MARGIN) / height));
  };
  const closer = () => zoomTo(zoom * STEP);
  const farther = () => zoomTo(zoom / STEP);

  useLayoutEffect(() => {
    const [element, point] = [box.current, held.current];
    held.current = null;
    if (!element || !sheet.current || !point) return;
    const inner = sheet.current.getBoundingClientRect();
    element.scrollBy(inner.left + point.x * zoom - point.clientX, inner.top + point.y * zoom - point.clientY);
  }, [zoom, box, sheet]);

  const pinch = useRef<{ distance: number; zoom: number } | null>(null);
  const onWheel = useEffectEvent((event: WheelEvent) => {
    // Without the modifier, the wheel scrolls.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomTo(zoom * (event.deltaY < 0 ? STEP : 1 / STEP), event);
  });
  const onTouch = useEffectEvent((event: TouchEvent) => {
    const [one, two] = event.touches;
    if (!one || !two) {
      pinch.current = null;
      return;
    }
    event.preventDefault();
    const distance = Math.hypot(one.clientX - two.clientX, one.clientY - two.clientY);
    if (pinch.current === null) {
      pinch.current = { distance, zoom };
      return;
    }
    const middle = { clientX: (one.clientX + two.clientX) / 2, clientY: (one.clientY + two.clientY) / 2 };
    zoomTo((pinch.current.zoom * distance) / pinch.current.distance, middle);
  });
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { '+': closer, '=': closer, '-': farther, '0': fit }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // React's listeners are passive: they could not keep the browser from zooming the page.
    const ending = new AbortController();
    const options = { passive: false, signal: ending.signal };
    element.addEventListener('wheel', (event) => onWheel(event), options);
    for (const name of ['touchstart', 'touchmove', 'touchend', 'touchcancel'] as const)
      element.addEventListener(name, (event) => onTouch(event), options);
    element.addEventListener('keydown', (event) => onKeyDown(event), options);
    return () => ending.abort();
  }, [box]);

  return { zoom, closer, farther, fit };
}
