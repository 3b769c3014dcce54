// Lists a document's versions, compares two of them, and restores one. The address holds the two versions.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { api, type Schemas } from '../../api/http';
import { useMe } from '../../api/me';
import { Failed } from '../../ui/Failed';
import { rich, t } from '../../ui/language';
import { lazyPart } from '../../ui/lazyView';
import { Ago, Waiting } from '../../ui/parts';
import type { Entity } from '../board';
import { change, documentKey, historyKey, reason, useChanged } from './document';

const Changes = lazyPart(async () => (await import('../../ui/editor')).Changes, t('the changes'));

type Version = Schemas['WorkVersion'];

/** What those are called who write versions. */
const ACTORS: Record<string, string> = {
  user: t('user'),
  agent: t('agent'),
  import: t('import'),
  system: t('system'),
};

/** What of a version people have written. */
function written({ properties }: Version): { content: string | null; description: string | null } {
  const { content, description } = properties as { content?: string | null; description?: string | null };
  return { content: content ?? null, description: description ?? null };
}

export function Versions({ document }: { document: Entity }) {
  const mayWrite = useMe().scopes.includes('write');
  const queries = useQueryClient();
  const changed = useChanged();
  const chosen = useSearch({ from: '/work/$projectId/documents/$documentId' });
  const navigate = useNavigate({ from: '/work/$projectId/documents/$documentId' });
  const { id } = document;
  const history = useQuery({
    queryKey: historyKey(id),
    queryFn: ({ signal }) => api<Schemas['WorkHistory']>(`/api/onto/documents/${id}/history`, { signal }),
  });
  const restore = useMutation({
    mutationFn: (version: Version) =>
      change(id, document.version, {
        title: version.name,
        ...written(version),
        changeSummary: t('Restored version {version}', { version: String(version.version) }),
      }),
    onSuccess: async (now) => {
      await changed(now);
      // What has become of it stands at the top.
      await navigate({ search: { view: 'versions' }, replace: true });
    },
    onError: () => queries.invalidateQueries({ queryKey: documentKey(id) }),
  });
  const items = history.data?.items ?? [];
  const after = items.find(({ version }) => version === chosen.after) ?? items[0];
  const before =
    items.find(({ version }) => version === chosen.before) ??
    items.find(({ version }) => after && version < after.version);
  // They are counted from one, and the API gives the newest: as many as it has in one answer.
  const oldest = items.at(-1)?.version ?? 1;
  const choose = (side: 'before' | 'after', version: number) =>
    // The other side stays what was chosen last, also where the page has not followed yet.
    void navigate({
      search: (now) => ({
        view: 'versions',
        before: now.before ?? before?.version,
        after: now.after ?? after?.version,
        [side]: version,
      }),
      replace: true,
    });
  return (
    <article aria-label={document.name}>
      <div className="title">
        <h2>{t('Versions of {name}', { name: document.name })}</h2>
        <div className="actions">
          <Link from="/work/$projectId/documents/$documentId" to="." search={{}} className="button">
            {t('Back to document')}
          </Link>
        </div>
      </div>
      {history.isPending ? <Waiting what={t('versions')} /> : null}
      {history.isError ? <Failed reading={history} /> : null}
      {restore.isError ? (
        <p className="note bad" role="alert">
          {t('Version {version} was not restored: {reason}', {
            version: String(restore.variables.version),
            reason: reason(restore.error),
          })}
        </p>
      ) : null}
      <p className="quiet" role="status">
        {restore.isSuccess
          ? t('Version {version} restored as version {restored}.', {
              version: String(restore.variables.version),
              restored: String(restore.data.version),
            })
          : ''}
      </p>
      {history.data ? (
        <div className="scrolls versions">
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Before')}</th>
                <th scope="col">{t('After')}</th>
                <th scope="col">{t('Version')}</th>
                <th scope="col">{t('Saved')}</th>
                <th scope="col">{t('By')}</th>
                <th scope="col">{t('Changes')}</th>
                {mayWrite ? (
                  <th scope="col">
                    <span className="hidden">{t('Restore')}</span>
                  </th>
                ) : null}
              </tr>
            </thead>
            <tbody>
              {items.map((version) => (
                <tr key={version.version}>
                  {(['before', 'after'] as const).map((side) => (
                    <td key={side}>
                      <input
                        type="radio"
                        name={side}
                        aria-label={t(side === 'before' ? 'Version {version} before' : 'Version {version} after', {
                          version: String(version.version),
                        })}
                        checked={(side === 'before' ? before : after)?.version === version.version}
                        onChange={() => choose(side, version.version)}
                      />
                    </td>
                  ))}
                  <td>
                    {version.version}
                    {version.version === document.version ? <span className="quiet"> {t('current')}</span> : null}
                  </td>
                  <td>
                    <Ago at={version.writtenAt} />
                  </td>
                  <td>
                    {ACTORS[version.actorType] ?? version.actorType}
                    {version.changeSource ? (
                      <span className="quiet"> {t('via {source}', { source: version.changeSource })}</span>
                    ) : null}
                  </td>
                  <td dir="auto" className="wraps">
                    {version.deleted ? t('Deleted') : (version.changeSummary ?? '')}
                  </td>
                  {mayWrite ? (
                    <td>
                      {version.version === document.version || version.deleted ? null : (
                        <button
                          type="button"
                          className="small"
                          disabled={restore.isPending}
                          onClick={() => restore.mutate(version)}
                        >
                          {t('Restore version {version}', { version: String(version.version) })}
                        </button>
                      )}
                    </td>
                  ) : null}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {oldest > 1 ? (
        <p className="note quiet">
          {t(
            'Older versions are not shown. {count, plural, one {There is one before version {version}.} other {There are # before version {version}.}}',
            { count: oldest - 1, version: String(oldest) },
          )}
        </p>
      ) : null}
      {after && before ? <Compared before={before} after={after} /> : null}
      {after && !before && oldest === 1 ? (
        <p className="note quiet">{t('Only one version exists. There is nothing to compare yet.')}</p>
      ) : null}
    </article>
  );
}

function Compared({ before, after }: { before: Version; after: Version }) {
  const [old, now] = [written(before), written(after)];
  const name = t('From version {before} to version {after}', {
    before: String(before.version),
    after: String(after.version),
  });
  const isSameText = (old.content ?? '') === (now.content ?? '');
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      {before.name === after.name ? null : (
        <p>
          {rich('Title: {before} {after}', {
            before: <del dir="auto">{before.name}</del>,
            after: <ins dir="auto">{after.name}</ins>,
          })}
        </p>
      )}
      {old.description === now.description ? null : (
        <p>
          {rich('Description: {before} {after}', {
            before: <del dir="auto">{old.description}</del>,
            after: <ins dir="auto">{now.description}</ins>,
          })}
        </p>
      )}
      {isSameText ? (
        <p className="note quiet">
          {t(before.version === after.version ? 'Select two different versions.' : 'Both versions have the same text.')}
        </p>
      ) : (
        <Changes before={old.content ?? ''} after={now.content ?? ''} label={name} />
      )}
    </section>
  );
}
