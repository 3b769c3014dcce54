// Draws an object among its neighbours: incoming relationships on the left, outgoing ones on the right. Each neighbour is a link, and can be
// expanded by its own neighbours. Types of relationships can be hidden.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Minus, Plus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { IconButton } from '../ui/Button';
import { Diagram } from '../ui/Diagram';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { around, type Found, type Neighbours, ofEdges, ofWalk, typesOf } from './neighbours';

/** How large an object is drawn, and how far from others [px]. */
const SIZES = { width: 176, height: 42, gapX: 72, gapY: 10 };
/** Colours of types, in graph.css. */
const COLOURS = 8;

interface NeighbourhoodProps {
  object: Schemas['GraphObject'];
  edges: Schemas['GraphEdges'];
}

export function Neighbourhood({ object, edges }: NeighbourhoodProps) {
  const me = useMe();
  const [isFar, setFar] = useState(false);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const { expanded, failed, toggle } = useExpanded();
  const walk = useQuery({
    queryKey: ['object', object.id, 'walk'],
    queryFn: () =>
      api<Schemas['GraphWalked']>(`/api/projects/${me.projectId}/graph/traverse`, {
        method: 'POST',
        body: { startEntityId: object.id, maxDepth: 2, direction: 'both' },
      }),
    enabled: isFar,
  });
  const base = useMemo(
    () => (isFar && walk.data ? ofWalk(walk.data) : ofEdges(object, edges)),
    [object, edges, isFar, walk.data],
  );
  const shown = useMemo(() => around(object.id, base, expanded, hidden), [object.id, base, expanded, hidden]);
  const relationships = typesOf([base, ...expanded.values()]);
  // In the order of their appearance: what is expanded later changes no colours.
  const types = [...new Set([base, ...expanded.values()].flatMap(({ nodes }) => nodes.map(({ type }) => type)))];
  if (edges.outgoingTotal + edges.incomingTotal === 0) return null;
  return (
    <section>
      <div className="heading">
        <h2>{t('Related objects')}</h2>
        <label>
          <input type="checkbox" checked={isFar} onChange={() => setFar(!isFar)} /> {t('One step further')}
        </label>
        <span className="quiet" role="status">
          {t(
            shown.isCut
              ? '{count, plural, one {# object; others are not shown} other {# objects; others are not shown}}'
              : '{count, plural, one {# object} other {# objects}}',
            { count: shown.nodes.length },
          )}
        </span>
      </div>
      {relationships.length > 1 ? (
        <fieldset className="legend">
          <legend>{t('Relationships')}</legend>
          {relationships.map((type) => (
            <label key={type}>
              <input
                type="checkbox"
                checked={!hidden.has(type)}
                onChange={() => setHidden(hidden.has(type) ? without(hidden, type) : new Set([...hidden, type]))}
              />{' '}
              {type}
            </label>
          ))}
        </fieldset>
      ) : null}
      {walk.isError ? <ErrorNote error={walk.error} /> : null}
      {failed ? <ErrorNote error={failed} /> : null}
      <Picture shown={shown} centre={object.id} types={types} expanded={expanded} toggle={toggle} />
      <ul className="legend" aria-label={t('Types of objects')}>
        {types.map((type, nth) =>
          shown.nodes.some((node) => node.type === type) ? (
            <li key={type} className={`of-type-${nth % COLOURS}`}>
              {type}
            </li>
          ) : null,
        )}
      </ul>
    </section>
  );
}

function without(set: ReadonlySet<string>, member: string): ReadonlySet<string> {
  return new Set([...set].filter((one) => one !== member));
}

/** The neighbours of the objects that are expanded, in the order in which they were. */
function useExpanded() {
  const me = useMe();
  const queries = useQueryClient();
  const [expanded, setExpanded] = useState<ReadonlyMap<string, Found>>(new Map());
  const [failed, setFailed] = useState<unknown>(null);
  const toggle = async (node: Neighbours['nodes'][number]) => {
    setFailed(null);
    if (expanded.has(node.id)) {
      setExpanded(new Map([...expanded].filter(([id]) => id !== node.id)));
      return;
    }
    const path = `/api/projects/${me.projectId}/graph/objects/${node.id}/edges?limit=100`;
    try {
      const edges = await queries.fetchQuery({
        queryKey: ['object', node.id, 'edges'],
        queryFn: () => api<Schemas['GraphEdges']>(path),
      });
      setExpanded((before) => new Map([...before, [node.id, ofEdges(node, edges)]]));
    } catch (error) {
      setFailed(error);
    }
  };
  return { expanded, failed, toggle };
}

interface PictureProps {
  shown: Neighbours;
  centre: string;
  /** In the order of their colours. */
  types: readonly string[];
  expanded: ReadonlyMap<string, Found>;
  toggle: (node: Neighbours['nodes'][number]) => Promise<void>;
}

function Picture({ shown: { nodes, lines }, centre, types, expanded, toggle }: PictureProps) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  /** How it hangs together with the object, or with what lies between. */
  const relation = (id: string) =>
    lines.find(({ from, to }) => (from === id && to === centre) || (to === id && from === centre)) ??
    lines.find(({ from, to }) => from === id || to === id);
  return (
    <Diagram
      label={t('Related objects')}
      ids={nodes.map(({ id }) => id)}
      lines={lines.map((line) => ({ ...line, title: line.types.join(', ') }))}
      sizes={SIZES}
      centre={centre}
      chainOf={(id) => ({
        before: new Set(lines.filter(({ to }) => to === id).map(({ from }) => from)),
        behind: new Set(lines.filter(({ from }) => from === id).map(({ to }) => to)),
      })}
      draw={(id, { style, kin, focus }) => {
        const node = byId.get(id);
        if (!node) return null;
        const isCentre = id === centre;
        const isExpanded = expanded.has(id);
        const how = relation(id)?.types.join(', ');
        const { tabIndex, onFocus, onBlur } = focus;
        return (
          <div
            key={id}
            className={`task node ${isCentre ? 'centre' : ''} of-type-${types.indexOf(node.type) % COLOURS} ${kin}`}
            style={style}
          >
            <Link
              {...focus}
              to="/graph/$id"
              params={{ id }}
              aria-current={isCentre ? 'true' : undefined}
              title={isCentre ? `${node.name} (${node.type})` : `${node.name} (${node.type}): ${how}`}
            >
              <b dir="auto">{node.name}</b>
              <span>{isCentre ? node.type : how}</span>
            </Link>
            {isCentre ? null : (
              <IconButton
                icon={isExpanded ? Minus : Plus}
                label={isExpanded ? t('Collapse') : t('Expand')}
                name={t(isExpanded ? 'Collapse {name}' : 'Expand {name}', { name: node.name })}
                className="small"
                tabIndex={tabIndex}
                onFocus={onFocus}
                onBlur={onBlur}
                onClick={() => void toggle(node)}
              />
            )}
          </div>
        );
      }}
    />
  );
}
