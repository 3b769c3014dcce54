// MCP servers of the project: how they are, what they offer, and what of it is approved.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, Folded, Payload, State, Waiting } from '../ui/parts';

type Server = Schemas['ServerBody'];

export function McpServers() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/mcp-servers`;
  const servers = useQuery({ queryKey: ['servers'], queryFn: () => api<Schemas['Servers']>(path) });
  const add = useMutation({
    mutationFn: (body: { name: string; transport: string; url: string }) => api(path, { method: 'POST', body }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['servers'] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    add.mutate({ name: String(form.get('name')), transport: 'http', url: String(form.get('url')) });
  };
  if (servers.isPending) return <Waiting what="servers" />;
  if (servers.isError) return <ErrorNote error={servers.error} />;
  return (
    <>
      {servers.data.items.length === 0 ? <p className="note quiet">No server yet.</p> : null}
      <ol className="records">
        {servers.data.items.map((server) => (
          <li key={server.id}>
            <Folded
              label={
                <>
                  <b>{server.name}</b> <span className="quiet">{server.url ?? server.command}</span>{' '}
                  {server.failure ? <State state="failed" /> : <State state={server.enabled ? 'active' : 'off'} />}
                </>
              }
            >
              {() => <One path={`${path}/${server.id}`} server={server} />}
            </Folded>
          </li>
        ))}
      </ol>
      <form className="search" onSubmit={submit}>
        <input name="name" aria-label="Name" placeholder="name" required />
        <input name="url" aria-label="Address" type="url" placeholder="https://…/mcp" required />
        <button type="submit">Add</button>
      </form>
      <p className="quiet">
        Credentials, and servers that are processes, are set by <code>rejoin mcp add</code> or the API.
      </p>
      {add.isError ? <ErrorNote error={add.error} /> : null}
    </>
  );
}

function One({ path, server }: { path: string; server: Server }) {
  const queries = useQueryClient();
  const detail = useQuery({ queryKey: ['server', server.id], queryFn: () => api<Server>(path) });
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: ['server', server.id] });
    await queries.invalidateQueries({ queryKey: ['servers'] });
  };
  const test = useMutation({ mutationFn: () => api<unknown>(`${path}/test`, { method: 'POST' }), onSuccess });
  const approve = useMutation({ mutationFn: (tools: string[]) => api(`${path}/approve`, { method: 'POST', body: { tools } }), onSuccess });
  const change = useMutation({ mutationFn: (enabled: boolean) => api(path, { method: 'PATCH', body: { enabled } }), onSuccess });
  const remove = useMutation({ mutationFn: () => api(path, { method: 'DELETE' }), onSuccess });
  const failed = test.error ?? approve.error ?? change.error ?? remove.error;
  return (
    <>
      {server.failure ? <p className="note bad">{server.failure}</p> : null}
      <p className="quiet">
        Listed <Ago at={server.seenAt} />
      </p>
      <div className="controls">
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Testing…' : 'Test'}
        </button>
        <button type="button" onClick={() => change.mutate(!server.enabled)}>
          {server.enabled ? 'Switch off' : 'Switch on'}
        </button>
        <button
          type="button"
          onClick={() => {
            if (window.confirm(`Remove the server "${server.name}"?`)) remove.mutate();
          }}
        >
          Remove
        </button>
      </div>
      {failed ? <ErrorNote error={failed} /> : null}
      <ul className="hits">
        {detail.data?.offered?.map((tool) => (
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
                  {tool.standing === 'new' || tool.standing === 'changed' ? (
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
    </>
  );
}
