// Gathers what is drawn around an object: its neighbours and those of expanded objects, as many as can be read.
import type { Schemas } from '../api/http';

/** Maximum number of objects in the drawing before others are expanded; more are hard to read. */
export const NODES_MAX = 40;
/** Maximum number of objects that are added when one is expanded. */
export const EXPANDED_MAX = 20;

type Named = Pick<Schemas['GraphEntity'], 'id' | 'name' | 'type'>;

export interface Edge {
  type: string;
  from: string;
  to: string;
}

/** Objects and the relationships between them. */
export interface Found {
  nodes: Named[];
  edges: Edge[];
  /** The server left some out. */
  isCut: boolean;
}

export interface Line {
  from: string;
  to: string;
  types: string[];
}

export interface Neighbours {
  nodes: Named[];
  lines: Line[];
  isCut: boolean;
}

/** The direct neighbours, from the lists of incoming and outgoing edges. */
export function ofEdges(
  object: Named,
  { outgoing, incoming, outgoingTotal, incomingTotal }: Schemas['GraphEdges'],
): Found {
  return {
    nodes: [object, ...outgoing.map(({ connected }) => connected), ...incoming.map(({ connected }) => connected)],
    edges: [
      ...outgoing.map(({ relationshipType: type, connected }) => ({ type, from: object.id, to: connected.id })),
      ...incoming.map(({ relationshipType: type, connected }) => ({ type, from: connected.id, to: object.id })),
    ],
    isCut: outgoingTotal > outgoing.length || incomingTotal > incoming.length,
  };
}

/** The result of a graph traversal of several steps. */
export function ofWalk({ nodes, edges, truncated }: Schemas['GraphWalked']): Found {
  return {
    nodes: nodes.map(({ object }) => object),
    edges: edges.map(({ type, sourceId, targetId }) => ({ type, from: sourceId, to: targetId })),
    isCut: truncated,
  };
}

/** What is drawn: the nearest objects first, over relationships that are not hidden. Expanded ones add their neighbours. */
export function around(
  centre: string,
  base: Found,
  expanded: ReadonlyMap<string, Found>,
  hidden: ReadonlySet<string>,
): Neighbours {
  const all = [base, ...expanded.values()];
  const known = new Map(all.flatMap(({ nodes }) => nodes).map((node) => [node.id, node]));
  const edges = all.flatMap((found) => found.edges).filter(({ type, from, to }) => !hidden.has(type) && from !== to);
  const shown = new Set([centre]);
  let isCut = all.some((found) => found.isCut);
  /** Adds what the edges reach from these, nearest first, up to a number of objects. */
  const reach = (starts: string[], over: readonly Edge[], most: number) => {
    for (let reached = starts; reached.length > 0; ) {
      const next: string[] = [];
      for (const id of reached) {
        for (const { from, to } of over) {
          const other = from === id ? to : to === id ? from : undefined;
          if (other === undefined || shown.has(other) || !known.has(other)) continue;
          if (shown.size >= most) {
            isCut = true;
            continue;
          }
          shown.add(other);
          next.push(other);
        }
      }
      reached = next;
    }
  };
  const notHidden = ({ type }: Edge) => !hidden.has(type);
  reach([centre], base.edges.filter(notHidden), NODES_MAX);
  // In the order in which they were expanded: what one adds, a later one may have expanded further.
  for (const [id, found] of expanded)
    if (shown.has(id)) reach([id], found.edges.filter(notHidden), shown.size + EXPANDED_MAX);
  const lines = new Map<string, Line>();
  for (const { from, to, type } of edges) {
    if (!shown.has(from) || !shown.has(to)) continue;
    const line = lines.get(`${from} ${to}`) ?? { from, to, types: [] };
    if (!line.types.includes(type)) line.types.push(type);
    lines.set(`${from} ${to}`, line);
  }
  const nodes = [...shown].flatMap((id) => known.get(id) ?? []);
  return { nodes, lines: [...lines.values()], isCut };
}

/** All types of relationships among these, by name. */
export function typesOf(found: Iterable<Found>): string[] {
  return [...new Set([...found].flatMap(({ edges }) => edges.map(({ type }) => type)))].sort();
}
