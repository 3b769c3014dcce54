// Lists a document's versions, compares two of them, and restores one. The address holds the two versions.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { api, type Schemas } from '../../api/http';
import { useMe } from '../../api/me';
import { Failed } from '../../ui/Failed';
import { lazyPart } from '../../ui/lazyView';
import { Ago, Waiting } from '../../ui/parts';
import type { Entity } from '../board';
import { change, documentKey, historyKey, reason, useChanged } from './document';

const Changes = lazyPart(async () => (await import('../../ui/editor')).Changes, 'the changes');

type Version = Schemas['WorkVersion'];

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
        changeSummary: `Restored version ${version.version}`,
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
        <h2>Versions of {document.name}</h2>
        <div className="actions">
          <Link from="/work/$projectId/documents/$documentId" to="." search={{}} className="button">
            Back to document
          </Link>
        </div>
      </div>
      {history.isPending ? <Waiting what="versions" /> : null}
      {history.isError ? <Failed reading={history} /> : null}
      {restore.isError ? (
        <p className="note bad" role="alert">
          Version {restore.variables.version} was not restored: {reason(restore.error)}
        </p>
      ) : null}
      <p className="quiet" role="status">
        {restore.isSuccess ? `Version ${restore.variables.version} restored as version ${restore.data.version}.` : ''}
      </p>
      {history.data ? (
        <div className="scrolls versions">
          <table>
            <thead>
              <tr>
                <th scope="col">Before</th>
                <th scope="col">After</th>
                <th scope="col">Version</th>
                <th scope="col">Saved</th>
                <th scope="col">By</th>
                <th scope="col">Changes</th>
                {mayWrite ? (
                  <th scope="col">
                    <span className="hidden">Restore</span>
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
                        aria-label={`Version ${version.version} ${side}`}
                        checked={(side === 'before' ? before : after)?.version === version.version}
                        onChange={() => choose(side, version.version)}
                      />
                    </td>
                  ))}
                  <td>
                    {version.version}
                    {version.version === document.version ? <span className="quiet"> current</span> : null}
                  </td>
                  <td>
                    <Ago at={version.writtenAt} />
                  </td>
                  <td>
                    {version.actorType}
                    {version.changeSource ? <span className="quiet"> via {version.changeSource}</span> : null}
                  </td>
                  <td className="wraps">{version.deleted ? 'Deleted' : (version.changeSummary ?? '')}</td>
                  {mayWrite ? (
                    <td>
                      {version.version === document.version || version.deleted ? null : (
                        <button
                          type="button"
                          className="small"
                          disabled={restore.isPending}
                          onClick={() => restore.mutate(version)}
                        >
                          Restore version {version.version}
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
          Older versions are not shown. There {oldest === 2 ? 'is one' : `are ${oldest - 1}`} before version {oldest}.
        </p>
      ) : null}
      {after && before ? <Compared before={before} after={after} /> : null}
      {after && !before && oldest === 1 ? (
        <p className="note quiet">Only one version exists. There is nothing to compare yet.</p>
      ) : null}
    </article>
  );
}

function Compared({ before, after }: { before: Version; after: Version }) {
  const [old, now] = [written(before), written(after)];
  const name = `From version ${before.version} to version ${after.version}`;
  const isSameText = (old.content ?? '') === (now.content ?? '');
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      {before.name === after.name ? null : (
        <p>
          Title: <del>{before.name}</del> <ins>{after.name}</ins>
        </p>
      )}
      {old.description === now.description ? null : (
        <p>
          Description: <del>{old.description}</del> <ins>{now.description}</ins>
        </p>
      )}
      {isSameText ? (
        <p className="note quiet">
          {before.version === after.version ? 'Select two different versions.' : 'Both versions have the same text.'}
        </p>
      ) : (
        <Changes before={old.content ?? ''} after={now.content ?? ''} label={name} />
      )}
    </section>
  );
}
