// An MCP server: its failures, its tools and their approval, its settings.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { confirmed } from '../ui/Dialog';
import { Ago, ErrorNote, Folded } from '../ui/parts';
import { isUnapproved, OfferedTools } from './OfferedTools';
import { ServerForm, type ServerRequest } from './ServerForm';

type Server = Schemas['ServerBody'];

export function ServerDetail({ path, server }: { path: string; server: Server }) {
  const queries = useQueryClient();
  const detail = useQuery({ queryKey: ['server', server.id], queryFn: () => api<Server>(path) });
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: ['server', server.id] });
    await queries.invalidateQueries({ queryKey: ['servers'] });
    await queries.invalidateQueries({ queryKey: ['mcp accounts'] });
  };
  const test = useMutation({ mutationFn: () => api<Server>(`${path}/test`, { method: 'POST' }), onSuccess });
  const approve = useMutation({
    mutationFn: (tools: string[]) => api(`${path}/approve`, { method: 'POST', body: { tools } }),
    onSuccess,
  });
  const change = useMutation({ mutationFn: (body: ServerRequest) => api(path, { method: 'PATCH', body }), onSuccess });
  const remove = useMutation({ mutationFn: () => api(path, { method: 'DELETE' }), onSuccess });
  const failed = detail.error ?? test.error ?? approve.error ?? change.error ?? remove.error;
  const offered = detail.data?.offered ?? [];
  const unapproved = offered.filter(isUnapproved).map((tool) => tool.name);
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
          <button type="button" disabled={approve.isPending} onClick={() => approve.mutate(unapproved)}>
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
      <OfferedTools
        tools={offered}
        isTrusted={server.trustHints}
        isBusy={approve.isPending}
        onApprove={(tool) => approve.mutate([tool])}
      />
      <Folded label="Edit settings">
        {() => <ServerForm server={server} isBusy={change.isPending} onSubmit={(request) => change.mutate(request)} />}
      </Folded>
    </>
  );
}
