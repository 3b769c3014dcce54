// The whole of a large drawing in a corner, with the part that is seen. A press moves the drawing there; scrolling and the keys do the same.
import { type PointerEvent, type RefObject, useEffect, useState } from 'react';
import type { Layout, Sizes } from './layout';

/** Its largest size, and the least of either side [px]. */
const WIDTH = 150;
const HEIGHT = 100;
const SIDE_MIN = 28;
/** A drawing of fewer nodes has no minimap. */
const NODES_MIN = 12;

interface MinimapProps {
  box: RefObject<HTMLElement | null>;
  sheet: RefObject<HTMLElement | null>;
  zoom: number;
  layout: Layout;
  sizes: Sizes;
}

interface Seen {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function Minimap({ box, sheet, zoom, layout: { width, height, places }, sizes }: MinimapProps) {
  const [seen, setSeen] = useState<Seen | null>(null);
  const isSmall = places.size < NODES_MIN;
  useEffect(() => {
    const element = box.current;
    if (!element || isSmall) return;
    const look = () => {
      if (!sheet.current) return;
      const outer = element.getBoundingClientRect();
      const inner = sheet.current.getBoundingClientRect();
      const isWhole = width * zoom <= element.clientWidth && height * zoom <= element.clientHeight;
      setSeen(
        isWhole
          ? null
          : {
              x: (outer.left - inner.left) / zoom,
              y: (outer.top - inner.top) / zoom,
              width: element.clientWidth / zoom,
              height: element.clientHeight / zoom,
            },
      );
    };
    look();
    const sized = new ResizeObserver(look);
    sized.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    return () => {
      sized.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, [box, sheet, zoom, width, height, isSmall]);
  if (isSmall || seen === null) return null;
  const scale = Math.min(WIDTH / width, HEIGHT / height);
  const [mapWidth, mapHeight] = [width, height].map((side) => Math.max(SIDE_MIN, side * scale) / scale) as [
    number,
    number,
  ];
  // A drawing that is long and thin is in the middle of its map.
  const [left, top] = [(width - mapWidth) / 2, (height - mapHeight) / 2];
  const go = (event: PointerEvent<SVGSVGElement>) => {
    if (event.buttons === 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const map = event.currentTarget.getBoundingClientRect();
    const x = left + (event.clientX - map.left) / scale - seen.width / 2;
    const y = top + (event.clientY - map.top) / scale - seen.height / 2;
    box.current?.scrollBy((x - seen.x) * zoom, (y - seen.y) * zoom);
  };
  return (
    <svg
      className="minimap"
      aria-hidden="true"
      width={mapWidth * scale}
      height={mapHeight * scale}
      viewBox={`${left} ${top} ${mapWidth} ${mapHeight}`}
      onPointerDown={go}
      onPointerMove={go}
    >
      {[...places].map(([id, { x, y }]) => (
        <rect key={id} x={x} y={y} width={sizes.width} height={sizes.height} />
      ))}
      <rect className="seen" {...seen} />
    </svg>
  );
}
