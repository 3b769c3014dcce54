// Lists the project's MCP servers with their health and the user's accounts there, and adds servers.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plug } from 'lucide-react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Empty } from '../ui/Empty';
import { message, t } from '../ui/language';
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
  if (servers.isPending) return <Waiting what={t('servers')} />;
  if (servers.isError) return <ErrorNote error={servers.error} />;
  return (
    <>
      {servers.data.items.length === 0 ? (
        <Empty icon={Plug} title={t('No MCP servers yet')}>
          {t('Agents can use the built-in tools. A server adds its own.')}
        </Empty>
      ) : null}
      <ol className="records">
        {servers.data.items.map((server) => (
          <li key={server.id}>
            <Folded
              label={
                <>
                  <b dir="auto">{server.name}</b> <Health server={server} />{' '}
                  <span className="quiet" dir="ltr">
                    {server.url ?? server.command}
                  </span>
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
      <h2>{t('Add a server')}</h2>
      <ServerForm key={servers.data.items.length} isBusy={add.isPending} onSubmit={(request) => add.mutate(request)} />
      {add.isError ? <ErrorNote error={add.error} /> : null}
    </>
  );
}

/** How a server is, as its workers have found it. */
function Health({ server }: { server: Server }) {
  if (!server.enabled) return <State state={message('disabled')} />;
  if (server.failure) return <State state="failed" />;
  return <State state={server.seenAt ? 'active' : message('not connected yet')} />;
}

/** The user's account at a server that acts for each user by itself. */
function Account({ account }: { account: Schemas['McpAccount'] }) {
  const { serverId, serverName, connected, missingScopes = [] } = account;
  const isFine = connected && missingScopes.length === 0;
  const [action, label] = isFine
    ? [t('Manage'), t('Manage your account at {server}', { server: serverName })]
    : [t('Connect'), t('Connect your account at {server}', { server: serverName })];
  const state = isFine ? 'active' : connected ? message('more rights needed') : message('not connected');
  return (
    <p className="account">
      {t('Your account')} <State state={state} />
      <Link to="/mcp/connect" search={{ server: serverId }} aria-label={label}>
        {action}
      </Link>
    </p>
  );
}
