// Where the arrow keys lead in a diagram: along its lines first, else to the nearest node on that side.
import type { Layout, Line } from './layout';

const SIDES: Record<string, readonly [axis: 'x' | 'y', way: 1 | -1]> = {
  ArrowLeft: ['x', -1],
  ArrowRight: ['x', 1],
  ArrowUp: ['y', -1],
  ArrowDown: ['y', 1],
};
/** How much farther a node counts that is not in the same row or column. */
const ASIDE = 3;

export function isWay(key: string): boolean {
  return key in SIDES;
}

export function led(
  key: string,
  from: string,
  { places }: Pick<Layout, 'places'>,
  lines: readonly Line[],
): string | undefined {
  const side = SIDES[key];
  const here = places.get(from);
  if (!side || !here) return undefined;
  const [axis, way] = side;
  const other = axis === 'x' ? 'y' : 'x';
  const there = [...places].filter(([id, place]) => id !== from && (place[axis] - here[axis]) * way > 0);
  const near = new Set(lines.flatMap((line) => (line.from === from ? [line.to] : line.to === from ? [line.from] : [])));
  const connected = axis === 'x' ? there.filter(([id]) => near.has(id)) : [];
  const away = (place: { x: number; y: number }) =>
    Math.abs(place[axis] - here[axis]) + ASIDE * Math.abs(place[other] - here[other]);
  const [found] = (connected.length > 0 ? connected : there).sort(([, a], [, b]) => away(a) - away(b));
  return found?.[0];
}
