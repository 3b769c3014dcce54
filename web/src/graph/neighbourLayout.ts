// Lays out an object's neighbours in columns for the drawing, up to two steps away.
import type { Schemas } from '../api/http';

/** Maximum number of objects in the drawing; more are illegible. */
export const NODES_MAX = 40;
/** Maximum number of objects in one column. */
const COLUMN_MAX = 16;

export interface Node {
  id: string;
  name: string;
  type: string;
  /** Steps along relationships from the object: negative for incoming, positive for outgoing. */
  column: number;
}

export interface Line {
  from: string;
  to: string;
  types: string[];
}

export interface NeighbourLayout {
  nodes: Node[];
  lines: Line[];
  /** Some neighbours were left out. */
  isCut: boolean;
}

type Named = Pick<Node, 'id' | 'name' | 'type'>;
type Edge = { type: string; from: string; to: string };

/** Lays out the direct neighbours, from the lists of incoming and outgoing edges. */
export function ofEdges(object: Named, edges: Schemas['GraphEdges']): NeighbourLayout {
  const nodes = new Map<string, Named>([[object.id, object]]);
  const found: Edge[] = [];
  for (const { connected, relationshipType } of edges.outgoing) {
    nodes.set(connected.id, connected);
    found.push({ type: relationshipType, from: object.id, to: connected.id });
  }
  for (const { connected, relationshipType } of edges.incoming) {
    nodes.set(connected.id, connected);
    found.push({ type: relationshipType, from: connected.id, to: object.id });
  }
  const isCut = edges.outgoingTotal > edges.outgoing.length || edges.incomingTotal > edges.incoming.length;
  return layout(object.id, nodes, found, isCut);
}

/** Lays out the result of a graph traversal of several steps. */
export function ofWalk(id: string, walked: Schemas['GraphWalked']): NeighbourLayout {
  const nodes = new Map(
    walked.nodes.map(({ object }): [string, Named] => [
      object.id,
      { id: object.id, name: object.name, type: object.type },
    ]),
  );
  const found = walked.edges.map((edge): Edge => ({ type: edge.type, from: edge.sourceId, to: edge.targetId }));
  return layout(id, nodes, found, walked.truncated);
}

/** Places the nearest objects first, as many as fit, each in the column next to the one it was reached from. */
function layout(
  start: string,
  known: ReadonlyMap<string, Named>,
  edges: readonly Edge[],
  isCut: boolean,
): NeighbourLayout {
  const columns = new Map([[start, 0]]);
  const heights = new Map([[0, 1]]);
  let reached = [start];
  let left = false;
  while (reached.length > 0) {
    const next: string[] = [];
    for (const id of reached) {
      for (const { from, to } of edges) {
        if (from !== id && to !== id) continue;
        const other = from === id ? to : from;
        if (columns.has(other) || !known.has(other)) continue;
        const column = (columns.get(id) ?? 0) + (from === id ? 1 : -1);
        const height = heights.get(column) ?? 0;
        if (columns.size >= NODES_MAX || height >= COLUMN_MAX) {
          left = true;
          continue;
        }
        columns.set(other, column);
        heights.set(column, height + 1);
        next.push(other);
      }
    }
    reached = next;
  }
  const nodes = [...columns].flatMap(([id, column]) => {
    const node = known.get(id);
    return node ? [{ id, name: node.name, type: node.type, column }] : [];
  });
  const lines = new Map<string, Line>();
  for (const { from, to, type } of edges) {
    if (!columns.has(from) || !columns.has(to) || from === to) continue;
    const line = lines.get(`${from} ${to}`) ?? { from, to, types: [] };
    if (!line.types.includes(type)) line.types.push(type);
    lines.set(`${from} ${to}`, line);
  }
  return { nodes, lines: [...lines.values()], isCut: isCut || left };
}
