// A picture that may be larger than its place: it scrolls, is dragged by its ground, and is zoomed by buttons or by Ctrl and the wheel.
import { Maximize, ZoomIn, ZoomOut } from 'lucide-react';
import {
  type CSSProperties,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from 'react';
import { IconButton } from './Button';

const STEP = 1.25;
const LEAST = 0.3;
const MOST = 2.5;

interface CanvasProps {
  label: string;
  className?: string;
  /** In pixels. */
  width: number;
  height: number;
  /** The element that scrolls. */
  box?: RefObject<HTMLDivElement | null>;
  children: ReactNode;
}

export function Canvas({ label, className = '', width, height, box, children }: CanvasProps) {
  const own = useRef<HTMLDivElement>(null);
  const ref = box ?? own;
  const [zoom, setZoom] = useState(1);
  const by = (factor: number) => setZoom((now) => Math.min(MOST, Math.max(LEAST, now * factor)));
  useEffect(() => {
    const element = ref.current;
    // Without the modifier, the wheel scrolls. React's listeners are passive.
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const factor = event.deltaY < 0 ? STEP : 1 / STEP;
      setZoom((now) => Math.min(MOST, Math.max(LEAST, now * factor)));
    };
    element?.addEventListener('wheel', onWheel, { passive: false });
    return () => element?.removeEventListener('wheel', onWheel);
  }, [ref]);
  const fit = () => {
    const element = ref.current;
    if (element)
      setZoom(Math.max(LEAST, Math.min(1, (element.clientWidth - 34) / width, (element.clientHeight - 34) / height)));
  };
  const pan = (event: PointerEvent<HTMLDivElement>) => {
    const element = event.currentTarget;
    const isGround = event.target instanceof Element && !event.target.closest('button, a');
    if (event.pointerType !== 'mouse' || event.button !== 0 || !isGround) return;
    const { scrollLeft, scrollTop } = element;
    const { clientX, clientY } = event;
    const move = (to: globalThis.PointerEvent) =>
      element.scrollTo(scrollLeft + clientX - to.clientX, scrollTop + clientY - to.clientY);
    const end = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', end);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', end);
  };
  return (
    <div className="canvas-frame">
      <div ref={ref} className={`picture ${className}`} role="group" aria-label={label} onPointerDown={pan}>
        <div style={{ inlineSize: width, blockSize: height, zoom } as CSSProperties}>{children}</div>
      </div>
      <div className="zoom" role="group" aria-label={`Zoom: ${label}`}>
        <IconButton icon={ZoomOut} label="Zoom out" onClick={() => by(1 / STEP)} />
        <IconButton icon={ZoomIn} label="Zoom in" onClick={() => by(STEP)} />
        <IconButton icon={Maximize} label="Fit" onClick={fit} />
      </div>
    </div>
  );
}
