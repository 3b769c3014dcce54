// Lists the project's MCP servers with their health and the user's accounts there, and adds servers.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plug } from 'lucide-react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Empty } from '../ui/Empty';
import { ErrorNote, Folded, State, Waiting } from '../ui/parts';
import { ServerDetail } from './ServerDetail';
import { ServerForm, type ServerRequest } from './ServerForm';

type Server = Schemas['ServerBody'];

/** The servers are looked at again so often [ms]: they come and go by themselves. */
const LIVE_MS = 15_000;

export function McpServers() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/mcp-servers`;
  const servers = useQuery({
    queryKey: ['servers'],
    queryFn: () => api<Schemas['Servers']>(path),
    refetchInterval: LIVE_MS,
  });
  const accounts = useQuery({
    queryKey: ['mcp accounts'],
    queryFn: () => api<Schemas['McpAccounts']>('/api/mcp-accounts'),
  });
  const add = useMutation({
    mutationFn: (body: ServerRequest) => api<Server>(path, { method: 'POST', body }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['servers'] });
      await queries.invalidateQueries({ queryKey: ['mcp accounts'] });
    },
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
              {() => <ServerDetail path={`${path}/${server.id}`} server={server} />}
            </Folded>
            {accounts.data?.items
              .filter(({ serverId }) => serverId === server.id)
              .map((account) => (
                <Account key={account.serverId} account={account} />
              ))}
          </li>
        ))}
      </ol>
      {accounts.isError ? <ErrorNote error={accounts.error} /> : null}
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

/** The user's account at a server that acts for each user by itself. */
function Account({ account }: { account: Schemas['McpAccount'] }) {
  const { serverId, serverName, connected, missingScopes = [] } = account;
  const isFine = connected && missingScopes.length === 0;
  const action = isFine ? 'Manage' : 'Connect';
  return (
    <p className="account">
      Your account <State state={isFine ? 'active' : connected ? 'more rights needed' : 'not connected'} />
      <Link to="/mcp/connect" search={{ server: serverId }} aria-label={`${action} your account at ${serverName}`}>
        {action}
      </Link>
    </p>
  );
}
