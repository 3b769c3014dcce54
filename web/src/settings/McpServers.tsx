// Lists the project's MCP servers with their health, tools and approvals.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Plug } from 'lucide-react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { Empty } from '../ui/Empty';
import { Ago, ErrorNote, Folded, Payload, State, Waiting } from '../ui/parts';
import { ServerForm, type ServerRequest } from './ServerForm';

type Server = Schemas['ServerBody'];

/** The servers are looked at again so often [ms]: they come and go by themselves. */
const LIVE_MS = 15_000;
/** How a tool stands that waits for a person. */
const UNAPPROVED = ['new', 'changed'];

export function McpServers() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/mcp-servers`;
  const servers = useQuery({
    queryKey: ['servers'],
    queryFn: () => api<Schemas['Servers']>(path),
    refetchInterval: LIVE_MS,
  });
  const add = useMutation({
    mutationFn: (body: ServerRequest) => api<Server>(path, { method: 'POST', body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['servers'] }),
  });
  if (servers.isPending) return <Waiting what="servers" />;
  if (servers.isError) return <ErrorNote error={servers.error} />;
  return (
    <>
      {servers.data.items.length === 0 ? (
        <Empty icon={Plug} title="No MCP servers yet">
          Agents can use the built-in tools. A server adds its own.
        </Empty>
      ) : null}
      <ol className="records">
        {servers.data.items.map((server) => (
          <li key={server.id}>
            <Folded
              label={
                <>
                  <b>{server.name}</b> <Health server={server} />{' '}
                  <span className="quiet">{server.url ?? server.command}</span>
                </>
              }
            >
              {() => <One path={`${path}/${server.id}`} server={server} />}
            </Folded>
          </li>
        ))}
      </ol>
      <h2>Add a server</h2>
      <ServerForm key={servers.data.items.length} isBusy={add.isPending} onSubmit={(request) => add.mutate(request)} />
      {add.isError ? <ErrorNote error={add.error} /> : null}
    </>
  );
}

/** How a server is, as its workers have found it. */
function Health({ server }: { server: Server }) {
  if (!server.enabled) return <State state="disabled" />;
  if (server.failure) return <State state="failed" />;
  return <State state={server.seenAt ? 'active' : 'not connected yet'} />;
}

function One({ path, server }: { path: string; server: Server }) {
  const queries = useQueryClient();
  const detail = useQuery({ queryKey: ['server', server.id], queryFn: () => api<Server>(path) });
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: ['server', server.id] });
    await queries.invalidateQueries({ queryKey: ['servers'] });
  };
  const test = useMutation({ mutationFn: () => api<Server>(`${path}/test`, { method: 'POST' }), onSuccess });
  const approve = useMutation({
    mutationFn: (tools: string[]) => api(`${path}/approve`, { method: 'POST', body: { tools } }),
    onSuccess,
  });
  const change = useMutation({ mutationFn: (body: ServerRequest) => api(path, { method: 'PATCH', body }), onSuccess });
  const remove = useMutation({ mutationFn: () => api(path, { method: 'DELETE' }), onSuccess });
  const failed = test.error ?? approve.error ?? change.error ?? remove.error;
  const offered = detail.data?.offered ?? [];
  const unapproved = offered.filter((tool) => UNAPPROVED.includes(tool.standing)).map((tool) => tool.name);
  const leftOut = (detail.data?.leftOut ?? []) as unknown as { tool: string | null; reason: string }[];
  const info = detail.data?.serverInfo as { name?: string; version?: string } | null | undefined;
  return (
    <>
      {server.failure ? (
        <p className="note bad">
          {server.failure} (<Ago at={server.failedAt} />)
        </p>
      ) : null}
      <p className="quiet">
        {info?.name ? `${info.name} ${info.version ?? ''}, ` : ''}tools listed <Ago at={server.seenAt} />
        {server.product ? `, installed with ${server.product}` : ''}
      </p>
      <div className="controls">
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Testing…' : 'Test'}
        </button>
        {unapproved.length > 1 ? (
          <button type="button" onClick={() => approve.mutate(unapproved)}>
            Approve all {unapproved.length}
          </button>
        ) : null}
        <button type="button" onClick={() => change.mutate({ enabled: !server.enabled })}>
          {server.enabled ? 'Disable' : 'Enable'}
        </button>
        <button
          type="button"
          onClick={() =>
            void confirmed({
              title: `Remove the server “${server.name}”?`,
              detail: 'Agents can no longer call its tools.',
              action: 'Remove server',
            }).then((isAgreed) => isAgreed && remove.mutate())
          }
        >
          Remove
        </button>
        {test.isSuccess ? (
          <span role="status" className="quiet">
            {test.data.failure ? 'The test failed.' : 'The server responded.'}
          </span>
        ) : null}
      </div>
      {failed ? <ErrorNote error={failed} /> : null}
      {leftOut.length > 0 ? (
        <Folded label={<>Skipped tools: {leftOut.length}</>}>
          {() => (
            <ul className="hits">
              {leftOut.map((left, place) => (
                <li key={place}>
                  {left.tool === null ? null : <code>{left.tool}</code>} {left.reason}
                </li>
              ))}
            </ul>
          )}
        </Folded>
      ) : null}
      <ul className="hits">
        {offered.map((tool) => (
          <li key={tool.name}>
            <Folded
              label={
                <>
                  <code>{tool.name}</code> <State state={tool.standing} />
                </>
              }
            >
              {() => (
                <>
                  <Payload value={tool.definition} />
                  {UNAPPROVED.includes(tool.standing) ? (
                    <button type="button" onClick={() => approve.mutate([tool.name])}>
                      Approve
                    </button>
                  ) : null}
                </>
              )}
            </Folded>
          </li>
        ))}
      </ul>
      <Folded label="Edit settings">
        {() => <ServerForm server={server} isBusy={change.isPending} onSubmit={(request) => change.mutate(request)} />}
      </Folded>
    </>
  );
}
