// The user's accounts at MCP servers: connects and disconnects them, and takes the answers of authorization servers.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useEffect } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { sendAccountConsent } from './consent';

type Account = Schemas['McpAccount'];

/** What is to be done about a refusal. */
const ADVICE: Record<string, string> = {
  consent_refused: t('No account was connected. To try again, connect it below.'),
  consent_unknown: t(
    'The answer has expired, was already used, or belongs to another user. Connect the account again.',
  ),
  mcp_account_failed: t('No account was connected. Try again later, or ask an admin of the project.'),
};

const KEY = ['mcp accounts'];

export function AccountsView() {
  useTitle(t('Accounts'));
  const { server } = useSearch({ from: '/mcp/connect' });
  const queries = useQueryClient();
  // Never again by itself: a code counts once.
  const consent = useQuery({
    queryKey: ['mcp consent'],
    queryFn: () => sendAccountConsent(),
    retry: false,
    retryOnMount: false,
    staleTime: Infinity,
    refetchOnReconnect: false,
    refetchOnWindowFocus: false,
  });
  const accounts = useQuery({
    queryKey: KEY,
    queryFn: () => api<Schemas['McpAccounts']>('/api/mcp-accounts'),
  });
  const connected = consent.data;
  useEffect(() => {
    if (connected) void queries.invalidateQueries({ queryKey: KEY });
  }, [connected, queries]);
  const items = accounts.data?.items.filter((account) => !server || account.serverId === server);
  const advice = consent.error instanceof Problem ? ADVICE[consent.error.code] : undefined;
  return (
    <main id="main" className="page">
      <h1>{t('Accounts')}</h1>
      <p>
        {t('Tools of these servers act with your own account there.')}{' '}
        {t('Your chats use the accounts that you connect here.')}
      </p>
      {consent.isPending ? <Waiting what={t('the answer of the authorization server')} /> : null}
      {consent.isError ? <ErrorNote error={consent.error} /> : null}
      {advice ? <p>{advice}</p> : null}
      {connected ? (
        <p className="note" role="status">
          {t('Your account at {server} is connected. Chats that wait for it go on. You can close this page.', {
            server: connected.serverName,
          })}
        </p>
      ) : null}
      {accounts.isPending ? <Waiting what={t('your accounts')} /> : null}
      {accounts.isError ? <ErrorNote error={accounts.error} /> : null}
      {items?.length === 0 ? <p className="note quiet">{t('No server asks for an account of yours.')}</p> : null}
      <ul className="records">
        {items?.map((account) => (
          <OneAccount key={account.serverId} account={account} />
        ))}
      </ul>
    </main>
  );
}

function OneAccount({ account }: { account: Account }) {
  const queries = useQueryClient();
  const path = `/api/mcp-accounts/${account.serverId}`;
  const connect = useMutation({
    mutationFn: () => api<Schemas['McpConsentBody']>(path, { method: 'POST' }),
    onSuccess: ({ url }) => location.assign(url),
  });
  const disconnect = useMutation({
    mutationFn: () => api(path, { method: 'DELETE' }),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const missing = account.missingScopes ?? [];
  const isBusy = connect.isPending || connect.isSuccess || disconnect.isPending;
  return (
    <li>
      <b dir="auto">{account.serverName}</b>{' '}
      {account.connected ? rich('connected {when}', { when: <Ago at={account.authorizedAt} /> }) : t('not connected')}
      {missing.length > 0 ? (
        <p>{t('A tool needs more rights: {rights}. Connect the account again.', { rights: missing.join(', ') })}</p>
      ) : null}
      <p>
        <button type="button" className="primary" disabled={isBusy} onClick={() => connect.mutate()}>
          {account.connected ? t('Connect again') : t('Connect')}
        </button>{' '}
        {account.connected ? (
          <button type="button" disabled={isBusy} onClick={() => disconnect.mutate()}>
            {t('Disconnect')}
          </button>
        ) : null}
      </p>
      {connect.isError ? <ErrorNote error={connect.error} /> : null}
      {disconnect.isError ? <ErrorNote error={disconnect.error} /> : null}
    </li>
  );
}
