// Lays out a graph from left to right: each node behind those that have lines to it, with few crossings. Lines that pass a column run between its
// nodes.
import { Graph, type GraphLabel, layout, type Point } from '@dagrejs/dagre';
import { inColumns } from './columns';

/** All in pixels. */
export interface Sizes {
  width: number;
  height: number;
  gapX: number;
  gapY: number;
}

export interface Line {
  from: string;
  to: string;
  /** Its tooltip. */
  title?: string | undefined;
}

/** The upper left corner of a node. */
export interface Place {
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  places: ReadonlyMap<string, Place>;
  /** A line as the path of an SVG. */
  path: (line: Line) => string;
}

/** The vertical room of a line that passes a column [px]. */
const PASSAGE = 8;
/** The largest graph for dagre, in nodes and lines: about half a second. */
const DAGRE_MAX = 600;

interface Box extends Point {
  width: number;
  height: number;
}

export function layoutOf(ids: readonly string[], lines: readonly Line[], sizes: Sizes): Layout {
  if (ids.length + lines.length > DAGRE_MAX) {
    const places = inColumns(ids, lines, sizes);
    return layoutAt(places, sizes, () => []);
  }
  const { width, height, gapX, gapY } = sizes;
  const graph = new Graph<GraphLabel, Box, { points?: Point[] }>();
  graph.setGraph({ rankdir: 'LR', nodesep: gapY, ranksep: gapX, edgesep: PASSAGE });
  // Numbers stand for the ids, which may be any text.
  const numbers = new Map(ids.map((id, nth) => [id, String(nth)]));
  for (const number of numbers.values()) graph.setNode(number, { width, height, x: 0, y: 0 });
  for (const { from, to } of lines) {
    const [start, end] = [numbers.get(from), numbers.get(to)];
    if (start !== undefined && end !== undefined && start !== end) graph.setEdge(start, end, {});
  }
  layout(graph);
  const columns = new Set<number>();
  const places = new Map<string, Place>();
  for (const [id, number] of numbers) {
    const { x, y } = graph.node(number);
    columns.add(Math.round(x));
    places.set(id, { x: x - width / 2, y: y - height / 2 });
  }
  const whole = ids.length > 0 ? graph.graph() : {};
  return {
    ...layoutAt(places, sizes, ({ from, to }) => {
      const [start = '', end = ''] = [numbers.get(from), numbers.get(to)];
      const points = graph.hasEdge(start, end) ? (graph.edge(start, end).points ?? []) : [];
      return points.slice(1, -1).filter(({ x }) => columns.has(Math.round(x)));
    }),
    // Lines may pass outside of all nodes.
    width: whole.width ?? 0,
    height: whole.height ?? 0,
  };
}

/** `passed`: the points in columns that a line passes. */
function layoutAt(places: ReadonlyMap<string, Place>, sizes: Sizes, passed: (line: Line) => Point[]): Layout {
  let [width, height] = [0, 0];
  for (const { x, y } of places.values()) {
    width = Math.max(width, x + sizes.width);
    height = Math.max(height, y + sizes.height);
  }
  return {
    width,
    height,
    places,
    path: (line) => {
      const [start, end] = [places.get(line.from), places.get(line.to)];
      return start && end && start !== end ? pathOf(start, passed(line), end, sizes) : '';
    },
  };
}

/** From the side of one node to the side of another. It is level where it passes a column, so that it touches no node there. */
function pathOf(start: Place, passed: readonly Point[], end: Place, { width, height }: Sizes): string {
  const way = start.x <= end.x ? 1 : -1;
  const half = (way * width) / 2;
  const middle = ({ x, y }: Place): Point => ({ x: x + width / 2, y: y + height / 2 });
  let { x, y } = middle(start);
  x += half;
  let path = `M${x} ${y}`;
  for (const stop of [...passed, middle(end)]) {
    const near = stop.x - half;
    const bend = (x + near) / 2;
    path += ` C${bend} ${y} ${bend} ${stop.y} ${near} ${stop.y}`;
    [x, y] = [stop.x + half, stop.y];
    if (passed.includes(stop)) path += ` L${x} ${y}`;
  }
  return path;
}
