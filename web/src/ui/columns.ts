// Lays out a graph in columns: each node near its neighbours, so that few lines cross. A line that passes a column gets its own slot there and runs
// behind no node.

/** How often all columns are gone through; more changes little. */
const SWEEPS = 8;
/** The room of a line that passes [px]. */
const PASSAGE = 4;

/** All in pixels. */
export interface Sizes {
  width: number;
  height: number;
  gapX: number;
  gapY: number;
}

export interface Drawing {
  width: number;
  height: number;
  /** Where its upper left corner is. */
  at: (id: string) => { x: number; y: number };
  /** A line between two of them, as the path of an SVG. */
  path: (from: string, to: string) => string;
}

interface Place {
  column: number;
  /** Of its middle. */
  y: number;
  height: number;
}

export function drawn(
  columns: readonly (readonly string[])[],
  lines: readonly (readonly [from: string, to: string])[],
  sizes: Sizes,
): Drawing {
  const ordered = columns.map((column) => [...column]);
  const places = new Map<string, Place>();
  for (const [nth, column] of ordered.entries())
    for (const id of column) places.set(id, { column: nth, y: 0, height: sizes.height });
  const routes = lines
    .filter((line) => line.every((id) => places.has(id)))
    .map((line) => routeOf(line, places, ordered));
  arrange(ordered, places, routes, sizes.gapY);
  const routeBetween = new Map(routes.map((route) => [JSON.stringify([route[0], route.at(-1)]), route]));

  const all = [...places.values()];
  const top = Math.min(...all.map(({ y, height }) => y - height / 2));
  const bottom = Math.max(...all.map(({ y, height }) => y + height / 2));
  const placeOf = (id: string) => places.get(id) ?? { column: 0, y: 0, height: 0 };
  const left = (column: number) => column * (sizes.width + sizes.gapX);
  return {
    width: Math.max(0, left(columns.length) - sizes.gapX),
    height: bottom - top,
    at: (id) => {
      const { column, y, height } = placeOf(id);
      return { x: left(column), y: y - height / 2 - top };
    },
    path: (from, to) => {
      const stops = (routeBetween.get(JSON.stringify([from, to])) ?? []).map(placeOf);
      return stops
        .slice(1)
        .map((stop, nth) => {
          const before = stops[nth] ?? stop;
          const isBack = stop.column < before.column;
          // Within a column it leaves and arrives on the right.
          const x1 = left(before.column) + (isBack ? 0 : sizes.width);
          const x2 = left(stop.column) + (isBack || stop.column === before.column ? sizes.width : 0);
          const bend = (sizes.gapX / 2) * (isBack ? -1 : 1);
          const arrival = stop.column === before.column ? x2 + bend : x2 - bend;
          const [y1, y2] = [before.y - top, stop.y - top];
          return `${nth === 0 ? 'M' : 'L'}${x1} ${y1} C${x1 + bend} ${y1} ${arrival} ${y2} ${x2} ${y2}`;
        })
        .join(' ');
    },
  };
}

/** Its two ends, and between them the places where it passes a column: lines from the same start do so together. They are added there. */
function routeOf([from, to]: readonly [string, string], places: Map<string, Place>, columns: string[][]): string[] {
  const [start, end] = [places.get(from)?.column ?? 0, places.get(to)?.column ?? 0];
  const way = start < end ? 1 : -1;
  const passed: string[] = [];
  for (let column = start + way; (end - column) * way > 0; column += way) {
    const id = JSON.stringify([from, column]);
    if (!places.has(id)) {
      places.set(id, { column, y: 0, height: PASSAGE });
      columns[column]?.push(id);
    }
    passed.push(id);
  }
  return [from, ...passed, to];
}

/** Orders each column by the middle of what its members are connected with in the columns before, and then in those behind. */
function arrange(columns: string[][], places: Map<string, Place>, routes: readonly string[][], gap: number): void {
  const before = new Map<string, string[]>();
  const behind = new Map<string, string[]>();
  const connect = (a: string, b: string) => {
    const [left, right] = (places.get(a)?.column ?? 0) < (places.get(b)?.column ?? 0) ? [a, b] : [b, a];
    before.set(right, [...(before.get(right) ?? []), left]);
    behind.set(left, [...(behind.get(left) ?? []), right]);
  };
  for (const route of routes) {
    route.slice(1).forEach((stop, nth) => {
      const other = route[nth] ?? stop;
      if (places.get(stop)?.column !== places.get(other)?.column) connect(other, stop);
    });
  }
  const stack = (column: string[]) => {
    const members = column.flatMap((id) => places.get(id) ?? []);
    let y = -(members.reduce((sum, { height }) => sum + height + gap, 0) - gap) / 2;
    for (const member of members) {
      member.y = y + member.height / 2;
      y += member.height + gap;
    }
  };
  columns.forEach(stack);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0;
    for (const column of isForward ? columns : [...columns].reverse()) {
      const middle = new Map(
        column.map((id) => {
          const others = ((isForward ? before : behind).get(id) ?? []).map((other) => places.get(other)?.y ?? 0);
          return [
            id,
            others.length === 0 ? (places.get(id)?.y ?? 0) : others.reduce((sum, y) => sum + y, 0) / others.length,
          ];
        }),
      );
      column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      stack(column);
    }
  }
}
