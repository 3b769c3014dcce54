// One object: its properties, what it is connected to, and what it was before.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, Folded, Payload, Waiting } from '../ui/parts';

type Edge = Schemas['GraphEdge'];

export function ObjectView() {
  const { id } = useParams({ from: '/graph/$id' });
  const me = useMe();
  const path = `/api/projects/${me.projectId}/graph/objects/${id}`;
  const object = useQuery({ queryKey: ['object', id], queryFn: () => api<Schemas['GraphObject']>(path) });
  const edges = useQuery({ queryKey: ['object', id, 'edges'], queryFn: () => api<Schemas['GraphEdges']>(`${path}/edges?limit=100`) });
  if (object.isPending) return <Waiting what="the object" />;
  if (object.isError) return <ErrorNote error={object.error} />;
  const { type, key, name, status, labels, properties, version, updatedAt } = object.data;
  return (
    <main id="main" className="page">
      <h1>{name ?? key}</h1>
      <p className="quiet">
        {type} · <code>{key}</code>
        {status ? ` · ${status}` : ''} · version {version}, <Ago at={updatedAt} />
      </p>
      {labels.length > 0 ? (
        <ul className="chips">
          {labels.map((label) => (
            <li key={label}>{label}</li>
          ))}
        </ul>
      ) : null}
      <section>
        <h2>Properties</h2>
        <Payload value={properties} />
      </section>
      {edges.isError ? <ErrorNote error={edges.error} /> : null}
      {edges.data ? (
        <div className="columns">
          <Edges title="Leads to" edges={edges.data.outgoing} total={edges.data.outgoingTotal} />
          <Edges title="Comes from" edges={edges.data.incoming} total={edges.data.incomingTotal} />
        </div>
      ) : null}
      <Folded label="History">{() => <History path={path} id={id} />}</Folded>
    </main>
  );
}

function Edges({ title, edges, total }: { title: string; edges: Edge[]; total: number }) {
  return (
    <section>
      <h2>
        {title} <span className="quiet">{total.toLocaleString('en')}</span>
      </h2>
      <ul className="hits">
        {edges.map((edge) => (
          <li key={edge.relationshipId}>
            <span className="quiet">{edge.relationshipType}</span>{' '}
            <Link to="/graph/$id" params={{ id: edge.connected.id }}>
              {edge.connected.name}
            </Link>{' '}
            <span className="quiet">{edge.connected.type}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function History({ path, id }: { path: string; id: string }) {
  const versions = useQuery({
    queryKey: ['object', id, 'history'],
    queryFn: () => api<Schemas['GraphObjectHistory']>(`${path}/history?limit=50`),
  });
  if (versions.isPending) return <Waiting what="its history" />;
  if (versions.isError) return <ErrorNote error={versions.error} />;
  return (
    <ol className="records">
      {versions.data.items.map((version) => (
        <li key={version.version}>
          <Folded
            label={
              <>
                <span className="step">{version.version}</span> <Ago at={version.createdAt} />{' '}
                <span className="quiet">{version.changeSummary ?? ''}</span>
              </>
            }
          >
            {() => <Payload value={version.properties} />}
          </Folded>
        </li>
      ))}
    </ol>
  );
}
