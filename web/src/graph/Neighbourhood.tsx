// Draws an object among its neighbours: incoming relationships on the left, outgoing ones on the right. Each neighbour is a link.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Canvas } from '../ui/Canvas';
import { drawn } from '../ui/columns';
import { ErrorNote } from '../ui/parts';
import { type NeighbourLayout, NODES_MAX, ofEdges, ofWalk } from './neighbourLayout';

/** How large an object is drawn, and how far from others [px]. */
const SIZES = { width: 160, height: 42, gapX: 56, gapY: 8 };

interface NeighbourhoodProps {
  object: Schemas['GraphObject'];
  edges: Schemas['GraphEdges'];
}

export function Neighbourhood({ object, edges }: NeighbourhoodProps) {
  const me = useMe();
  const [isFar, setFar] = useState(false);
  const walk = useQuery({
    queryKey: ['object', object.id, 'walk'],
    queryFn: () =>
      api<Schemas['GraphWalked']>(`/api/projects/${me.projectId}/graph/traverse`, {
        method: 'POST',
        body: { startEntityId: object.id, maxDepth: 2, direction: 'both' },
      }),
    enabled: isFar,
  });
  const around = useMemo(
    () => (isFar && walk.data ? ofWalk(object.id, walk.data) : ofEdges(object, edges)),
    [object, edges, isFar, walk.data],
  );
  if (edges.outgoingTotal + edges.incomingTotal === 0) return null;
  return (
    <section>
      <div className="heading">
        <h2>Related objects</h2>
        <label>
          <input type="checkbox" checked={isFar} onChange={() => setFar(!isFar)} /> One step further
        </label>
        {around.isCut ? <span className="quiet">Limited to {NODES_MAX} objects</span> : null}
      </div>
      {walk.isError ? <ErrorNote error={walk.error} /> : null}
      <Picture around={around} centre={object.id} />
    </section>
  );
}

function Picture({ around: { nodes, lines }, centre }: { around: NeighbourLayout; centre: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [about, look] = useState<string | null>(null);
  const drawing = useMemo(() => {
    const first = Math.min(...nodes.map(({ column }) => column));
    const last = Math.max(...nodes.map(({ column }) => column));
    const columns = Array.from({ length: last - first + 1 }, (_, nth) =>
      nodes.filter(({ column }) => column === first + nth).map(({ id }) => id),
    );
    return drawn(
      columns,
      lines.map(({ from, to }) => [from, to] as const),
      SIZES,
    );
  }, [nodes, lines]);
  const middle = drawing.at(centre);
  // The object itself is in the middle of what is seen.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    element.scrollLeft = middle.x + SIZES.width / 2 - element.clientWidth / 2;
    element.scrollTop = middle.y + SIZES.height / 2 - element.clientHeight / 2;
  }, [middle.x, middle.y]);
  const isAbout = ({ from, to }: NeighbourLayout['lines'][number]) =>
    about !== null && (from === about || to === about);
  /** How it hangs together with the object, or with what lies between. */
  const relation = (id: string) =>
    lines.find(({ from, to }) => (from === id && to === centre) || (to === id && from === centre)) ??
    lines.find(({ from, to }) => from === id || to === id);
  return (
    <Canvas label="Related objects" width={drawing.width} height={drawing.height} box={box}>
      <svg width={drawing.width} height={drawing.height} aria-hidden="true">
        <defs>
          <marker
            id="arrow"
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
            className={about === null ? undefined : isAbout(line) ? 'of-chain' : 'apart'}
            markerEnd="url(#arrow)"
            d={drawing.path(line.from, line.to)}
          >
            <title>{line.types.join(', ')}</title>
          </path>
        ))}
      </svg>
      {nodes.map(({ id, name, type }) => {
        const { x, y } = drawing.at(id);
        const types = relation(id)?.types.join(', ');
        return (
          <Link
            key={id}
            to="/graph/$id"
            params={{ id }}
            className={`task node ${id === centre ? 'centre' : ''}`}
            aria-current={id === centre ? 'true' : undefined}
            title={id === centre ? name : `${name}: ${types}`}
            style={{ insetInlineStart: x, insetBlockStart: y, inlineSize: SIZES.width, blockSize: SIZES.height }}
            onMouseEnter={() => look(id)}
            onMouseLeave={() => look(null)}
            onFocus={() => look(id)}
            onBlur={() => look(null)}
          >
            <b>{name}</b>
            <span>{id === centre ? type : types}</span>
          </Link>
        );
      })}
    </Canvas>
  );
}
