// Shows one object: its properties, relationships and history.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { LoadFailed } from '../ui/LoadFailed';
import { number, rich, t } from '../ui/language';
import { Ago, ErrorNote, Folded, Payload, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Neighbourhood } from './Neighbourhood';

type Edge = Schemas['GraphEdge'];
type GraphObject = Schemas['GraphObject'];

export function ObjectView() {
  const { id } = useParams({ from: '/graph/$id' });
  const me = useMe();
  const path = `/api/projects/${me.projectId}/graph/objects/${id}`;
  const object = useQuery({ queryKey: ['object', id], queryFn: () => api<Schemas['GraphObject']>(path) });
  useTitle(object.data ? (object.data.name ?? object.data.key) : t('Graph'));
  const edges = useQuery({
    queryKey: ['object', id, 'edges'],
    queryFn: () => api<Schemas['GraphEdges']>(`${path}/edges?limit=100`),
  });
  if (object.isPending) return <Waiting what={t('the object')} />;
  if (object.isError)
    return object.error instanceof Problem && object.error.status === 404 ? (
      <Gone path={path} id={id} />
    ) : (
      <LoadFailed reading={object} what={t('This object')} />
    );
  const { type, key, name, status, labels, properties, version, updatedAt } = object.data;
  return (
    <main id="main" className="page">
      <h1 dir="auto">{name ?? key}</h1>
      <p className="quiet">
        {type} · <code>{key}</code>
        {status ? ` · ${status}` : ''} ·{' '}
        {rich('version {version}, {when}', { version: String(version), when: <Ago at={updatedAt} /> })}
      </p>
      {labels.length > 0 ? (
        <ul className="chips">
          {labels.map((label) => (
            <li key={label}>{label}</li>
          ))}
        </ul>
      ) : null}
      {edges.data ? <Neighbourhood key={id} object={object.data} edges={edges.data} /> : null}
      <section>
        <h2>{t('Properties')}</h2>
        <Payload value={properties} />
      </section>
      {edges.isError ? <ErrorNote error={edges.error} /> : null}
      {edges.data ? (
        <div className="columns">
          <Edges
            title={t('Outgoing relationships')}
            choice={t('Type of outgoing relationships')}
            edges={edges.data.outgoing}
            total={edges.data.outgoingTotal}
          />
          <Edges
            title={t('Incoming relationships')}
            choice={t('Type of incoming relationships')}
            edges={edges.data.incoming}
            total={edges.data.incomingTotal}
          />
        </div>
      ) : null}
      <Folded label={t('History')}>{() => <History path={path} id={id} now={object.data} />}</Folded>
    </main>
  );
}

/** Relationships that are listed without being asked for. */
const LISTED = 50;

interface EdgesProps {
  title: string;
  /** The name of the choice of a type. */
  choice: string;
  edges: Edge[];
  total: number;
}

function Edges({ title, choice, edges, total }: EdgesProps) {
  const [type, setType] = useState('');
  const [isAll, setAll] = useState(false);
  const counts = new Map<string, number>();
  for (const { relationshipType } of edges) counts.set(relationshipType, (counts.get(relationshipType) ?? 0) + 1);
  const shown = edges.filter((edge) => type === '' || edge.relationshipType === type);
  return (
    <section>
      <div className="heading">
        <h2>
          {title} <span className="quiet">{number(total)}</span>
        </h2>
        {counts.size > 1 ? (
          <select className="small" aria-label={choice} value={type} onChange={(event) => setType(event.target.value)}>
            <option value="">{t('All types')}</option>
            {[...counts].map(([name, count]) => (
              <option key={name} value={name}>
                {name} ({number(count)})
              </option>
            ))}
          </select>
        ) : null}
      </div>
      <ul className="hits">
        {(isAll ? shown : shown.slice(0, LISTED)).map((edge) => (
          <li key={edge.relationshipId}>
            <span className="badge">{edge.relationshipType}</span>{' '}
            <Link dir="auto" to="/graph/$id" params={{ id: edge.connected.id }}>
              {edge.connected.name}
            </Link>{' '}
            <span className="quiet">{edge.connected.type}</span>
          </li>
        ))}
      </ul>
      {shown.length > LISTED && !isAll ? (
        <button type="button" className="small" onClick={() => setAll(true)}>
          {t('Show all {count}', { count: shown.length })}
        </button>
      ) : null}
    </section>
  );
}

/** An object that is not there: deleted, if it has a history. */
function Gone({ path, id }: { path: string; id: string }) {
  const queries = useQueryClient();
  const restore = useMutation({
    mutationFn: () => api(`${path}/restore`, { method: 'POST' }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['object', id] }),
  });
  return (
    <main id="main" className="page">
      <h1>{t('Object not found')}</h1>
      <p>{t('It may have been deleted.')}</p>
      <p>
        <button type="button" onClick={() => restore.mutate()}>
          {t('Restore')}
        </button>
      </p>
      {restore.isError ? <ErrorNote error={restore.error} /> : null}
      <History path={path} id={id} now={null} />
    </main>
  );
}

function History({ path, id, now }: { path: string; id: string; now: GraphObject | null }) {
  const me = useMe();
  const queries = useQueryClient();
  const versions = useQuery({
    queryKey: ['object', id, 'history'],
    queryFn: () => api<Schemas['GraphObjectHistory']>(`${path}/history?limit=50`),
  });
  const restore = useMutation({
    mutationFn: ({ now, wanted }: { now: GraphObject; wanted: GraphObject }) =>
      api(path, { method: 'PATCH', body: backTo(wanted, now) }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['object', id] }),
  });
  if (versions.isPending) return <Waiting what={t('its history')} />;
  if (versions.isError) return <ErrorNote error={versions.error} />;
  return (
    <>
      {restore.isError ? <ErrorNote error={restore.error} /> : null}
      <ol className="records">
        {versions.data.items.map((version) => (
          <li key={version.version}>
            <Folded
              label={
                <>
                  <span className="step">{version.version}</span> <Ago at={version.createdAt} />{' '}
                  <span className="quiet">
                    {version.version === now?.version ? t('current') : ''} {version.changeSummary ?? ''}
                  </span>
                </>
              }
            >
              {() => (
                <>
                  <Payload value={version.properties} />
                  {now && version.version !== now.version && !version.deletedAt && me.scopes.includes('write') ? (
                    <p>
                      <button
                        type="button"
                        disabled={restore.isPending}
                        onClick={() => restore.mutate({ now, wanted: version })}
                      >
                        {t('Restore version {version}', { version: String(version.version) })}
                      </button>
                    </p>
                  ) : null}
                </>
              )}
            </Folded>
          </li>
        ))}
      </ol>
    </>
  );
}

/** The change that restores an earlier version as a new one. It is a conflict if the object has changed since. */
function backTo(wanted: GraphObject, now: GraphObject) {
  const added = Object.keys(now.properties).filter((name) => !(name in wanted.properties));
  return {
    properties: { ...wanted.properties, ...Object.fromEntries(added.map((name) => [name, null])) },
    labels: wanted.labels,
    replaceLabels: true,
    ...(wanted.status ? { status: wanted.status } : {}),
    version: now.version,
    changeSummary: `Restored version ${wanted.version}`,
  };
}
