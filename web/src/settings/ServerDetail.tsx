// An MCP server: its failures, its tools and their approval, its settings.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { confirmed } from '../ui/Dialog';
import { rich, t } from '../ui/language';
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
  const when = <Ago at={server.seenAt} />;
  const listed = info?.name
    ? rich('{server}, tools listed {when}', { server: `${info.name} ${info.version ?? ''}`, when })
    : rich('tools listed {when}', { when });
  return (
    <>
      {server.failure ? (
        <p className="note bad">
          {server.failure} (<Ago at={server.failedAt} />)
        </p>
      ) : null}
      <p className="quiet">
        {server.product ? rich('{listed}, installed with {product}', { listed, product: server.product }) : listed}
      </p>
      <div className="controls">
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? t('Testing…') : t('Test')}
        </button>
        {unapproved.length > 1 ? (
          <button type="button" disabled={approve.isPending} onClick={() => approve.mutate(unapproved)}>
            {t('Approve all {count}', { count: unapproved.length })}
          </button>
        ) : null}
        <button type="button" onClick={() => change.mutate({ enabled: !server.enabled })}>
          {server.enabled ? t('Disable') : t('Enable')}
        </button>
        <button
          type="button"
          onClick={() =>
            void confirmed({
              title: t('Remove the server “{name}”?', { name: server.name }),
              detail: t('Agents can no longer call its tools.'),
              action: t('Remove server'),
            }).then((isAgreed) => isAgreed && remove.mutate())
          }
        >
          {t('Remove')}
        </button>
        {test.isSuccess ? (
          <span role="status" className="quiet">
            {test.data.failure ? t('The test failed.') : t('The server responded.')}
          </span>
        ) : null}
      </div>
      {failed ? <ErrorNote error={failed} /> : null}
      {leftOut.length > 0 ? (
        <Folded label={t('Skipped tools: {count}', { count: leftOut.length })}>
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
      <Folded label={t('Edit settings')}>
        {() => <ServerForm server={server} isBusy={change.isPending} onSubmit={(request) => change.mutate(request)} />}
      </Folded>
    </>
  );
}
