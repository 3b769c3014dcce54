// Draws nodes and the lines between them. The layout changes only when their connections do. The drawing scrolls; the mouse drags its ground.
// Nodes are one stop of the Tab key, and arrow keys go from node to node. They are HTML, so that long names are cut and read as elsewhere; lines
// and the minimap are SVG.
import { Maximize, ZoomIn, ZoomOut } from 'lucide-react';
import {
  type CSSProperties,
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  useEffectEvent,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { IconButton } from '../Button';
import { t } from '../language';
import { type Line, layoutOf, type Sizes } from './layout';
import { Minimap } from './Minimap';
import { useZoom } from './useZoom';
import { isWay, led } from './walk';

/** What a node is to the one that is looked at: it leads to it, follows it, or has nothing to do with it. Empty: it is that one, or none is. */
export type Kin = 'before' | 'behind' | 'apart' | '';

/** How a node is drawn. */
export interface DrawnNode {
  /** Its place, for its outer element. */
  style: CSSProperties;
  kin: Kin;
  /** For its button or link. */
  focus: {
    'data-node': string;
    tabIndex: 0 | -1;
    onKeyDown: (event: KeyboardEvent) => void;
    onFocus: () => void;
    onBlur: () => void;
    onMouseEnter: () => void;
    onMouseLeave: () => void;
  };
}

interface DrawingProps {
  label: string;
  className?: string;
  ids: readonly string[];
  lines: readonly Line[];
  sizes: Sizes;
  /** The node whose connections stand out while no other one is looked at. */
  chosen?: string | null;
  /** The node that is in the middle at first. */
  centre?: string;
  /** What leads to a node, and what follows it. */
  chainOf: (id: string) => { before: ReadonlySet<string>; behind: ReadonlySet<string> };
  draw: (id: string, node: DrawnNode) => ReactNode;
}

export function Drawing({
  label,
  className = '',
  ids,
  lines,
  sizes,
  chosen = null,
  centre,
  chainOf,
  draw,
}: DrawingProps) {
  const box = useRef<HTMLDivElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const arrow = useId();
  /** The node that one points at, or has gone to with the keyboard. */
  const [looked, look] = useState<string | null>(null);
  /** The stop of the Tab key. */
  const [stop, setStop] = useState<string | null>(null);
  const shape = JSON.stringify({ ids, lines: lines.map(({ from, to }) => ({ from, to })), sizes });
  const layout = useMemo(() => {
    const shaped = JSON.parse(shape) as Pick<DrawingProps, 'ids' | 'lines' | 'sizes'>;
    return layoutOf(shaped.ids, shaped.lines, shaped.sizes);
  }, [shape]);
  const { zoom, closer, farther, fit } = useZoom(box, sheet, layout);
  const current = [stop, chosen, centre].find((id) => id && layout.places.has(id)) ?? ids[0];

  const before = useRef<typeof layout | null>(null);
  const keepInPlace = useEffectEvent((now: typeof layout) => {
    const [element, id] = [box.current, current];
    const was = id === undefined ? undefined : before.current?.places.get(id);
    const is = id === undefined ? undefined : now.places.get(id);
    const isFirst = before.current === null;
    before.current = now;
    if (!element || !is) return;
    if (was) element.scrollBy((is.x - was.x) * zoom, (is.y - was.y) * zoom);
    else if (isFirst && id === centre)
      element.scrollTo(
        is.x + sizes.width / 2 - element.clientWidth / 2,
        is.y + sizes.height / 2 - element.clientHeight / 2,
      );
  });
  useLayoutEffect(() => keepInPlace(layout), [layout]);

  const about = looked ?? chosen;
  const chain = about === null ? null : chainOf(about);
  const kinOf = (id: string): Kin => {
    if (chain === null || id === about) return '';
    return chain.before.has(id) ? 'before' : chain.behind.has(id) ? 'behind' : 'apart';
  };
  const isOfChain = ({ from, to }: Line) =>
    chain !== null &&
    (to === about || chain.before.has(to) || from === about || chain.behind.has(from)) &&
    kinOf(from) !== 'apart' &&
    kinOf(to) !== 'apart';

  const nodeOf = (id: string): DrawnNode => {
    const { x, y } = layout.places.get(id) ?? { x: 0, y: 0 };
    return {
      style: { insetInlineStart: x, insetBlockStart: y, inlineSize: sizes.width, blockSize: sizes.height },
      kin: kinOf(id),
      focus: {
        'data-node': id,
        tabIndex: id === current ? 0 : -1,
        onKeyDown: (event) => {
          if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !isWay(event.key)) return;
          event.preventDefault();
          const next = led(event.key, id, layout, lines);
          if (next !== undefined) box.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(next)}"]`)?.focus();
        },
        onFocus: () => {
          setStop(id);
          look(id);
        },
        onBlur: () => look(null),
        onMouseEnter: () => look(id),
        onMouseLeave: () => look(null),
      },
    };
  };

  return (
    <div className="canvas-frame">
      {/* From left to right in every language, as the lines are computed. */}
      <div ref={box} dir="ltr" className={`picture ${className}`} role="group" aria-label={label} onPointerDown={pan}>
        <div ref={sheet} className="sheet" style={{ inlineSize: layout.width * zoom, blockSize: layout.height * zoom }}>
          <div style={{ inlineSize: layout.width, blockSize: layout.height, transform: `scale(${zoom})` }}>
            <svg width={layout.width} height={layout.height} aria-hidden="true">
              <defs>
                <marker
                  id={arrow}
                  viewBox="0 0 8 8"
                  refX="7"
                  refY="4"
                  markerWidth="9"
                  markerHeight="9"
                  markerUnits="userSpaceOnUse"
                  orient="auto"
                >
                  <path className="arrow" d="M0 1 L7 4 L0 7 z" />
                </marker>
              </defs>
              {lines.map((line) => (
                <path
                  key={`${line.from} ${line.to}`}
                  className={chain === null ? undefined : isOfChain(line) ? 'of-chain' : 'apart'}
                  markerEnd={`url(#${arrow})`}
                  d={layout.path(line)}
                >
                  {line.title ? <title>{line.title}</title> : null}
                </path>
              ))}
            </svg>
            {ids.map((id) => draw(id, nodeOf(id)))}
          </div>
        </div>
      </div>
      <Minimap box={box} sheet={sheet} zoom={zoom} layout={layout} sizes={sizes} />
      <div className="zoom" role="group" aria-label={t('Zoom: {diagram}', { diagram: label })}>
        <IconButton icon={ZoomOut} label={t('Zoom out')} keys="-" onClick={farther} />
        <IconButton icon={ZoomIn} label={t('Zoom in')} keys="+" onClick={closer} />
        <IconButton icon={Maximize} label={t('Fit')} keys="0" onClick={fit} />
      </div>
    </div>
  );
}

/** Drags the ground. Fingers scroll it. */
function pan(event: PointerEvent<HTMLDivElement>): void {
  const element = event.currentTarget;
  const isGround = event.target instanceof Element && !event.target.closest('button, a');
  if (event.pointerType !== 'mouse' || event.button !== 0 || !isGround) return;
  const { scrollLeft, scrollTop } = element;
  const { clientX, clientY } = event;
  const ending = new AbortController();
  const { signal } = ending;
  const move = (to: globalThis.PointerEvent) =>
    element.scrollTo(scrollLeft + clientX - to.clientX, scrollTop + clientY - to.clientY);
  addEventListener('pointermove', move, { signal });
  for (const end of ['pointerup', 'pointercancel'] as const) addEventListener(end, () => ending.abort(), { signal });
}
