// Lists the versions of an agent, compares two of them, and restores one. The address holds the two versions.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { api, query, type Schemas } from '../../api/http';
import { More, usePages } from '../../api/pages';
import { confirmed } from '../../ui/Dialog';
import { Failed } from '../../ui/Failed';
import { list, t } from '../../ui/language';
import { Ago, ErrorNote, Waiting } from '../../ui/parts';
import { useHandles } from '../handles';
import { FieldChange, labelOf } from './Comparison';
import type { Definition } from './draft';

type Version = Schemas['AgentVersionBody'];

interface Props {
  /** The definition's. */
  path: string;
  definition: Definition;
}

export function useVersions(path: string, id: string) {
  return usePages<Version>(['agent versions', id], `${path}/versions`);
}

export function Versions({ path, definition }: Props) {
  const { id } = definition;
  const queries = useQueryClient();
  const navigate = useNavigate({ from: '/agents' });
  const chosen = useSearch({ from: '/agents' });
  const handleOf = useHandles();
  const versions = useVersions(path, id);
  const restore = useMutation({
    mutationFn: (version: number) => api<Definition>(`${path}/versions/${version}/restore`, { method: 'POST' }),
    onSuccess: async (restored) => {
      queries.setQueryData(['definition', id], restored);
      await navigate({ search: { agent: id, view: 'versions' }, replace: true });
      await queries.invalidateQueries({ queryKey: ['agent versions', id] });
      await queries.invalidateQueries({ queryKey: ['definitions'] });
      await queries.invalidateQueries({ queryKey: ['agents'] });
    },
  });
  if (versions.reading.isPending) return <Waiting what={t('versions')} />;
  if (versions.reading.isError) return <Failed reading={versions.reading} />;
  const after = chosen.after ?? definition.version;
  const before = chosen.before ?? after - 1;
  const choose = (side: 'before' | 'after', version: number) =>
    void navigate({ search: { agent: id, view: 'versions', before, after, [side]: version }, replace: true });
  return (
    <section aria-label={t('Versions of {name}', { name: definition.name })}>
      {restore.isError ? (
        <>
          <p>{t('Version {version} was not restored.', { version: String(restore.variables) })}</p>
          <ErrorNote error={restore.error} />
        </>
      ) : null}
      <p className="quiet" role="status">
        {restore.isSuccess
          ? t('Version {version} restored as version {newest}.', {
              version: String(restore.variables),
              newest: String(restore.data.version),
            })
          : ''}
      </p>
      <section className="scrolls versions" aria-label={t('List of versions')} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('Before')}</th>
              <th scope="col">{t('After')}</th>
              <th scope="col">{t('Version')}</th>
              <th scope="col">{t('Saved')}</th>
              <th scope="col">{t('By')}</th>
              <th scope="col">{t('Changed')}</th>
              <th scope="col">
                <span className="hidden">{t('Restore')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {versions.items.map(({ version, createdAt, createdBy, changed }) => (
              <tr key={version}>
                {(['before', 'after'] as const).map((side) => (
                  <td key={side}>
                    <input
                      type="radio"
                      name={side}
                      aria-label={t(side === 'before' ? 'Version {version} before' : 'Version {version} after', {
                        version: String(version),
                      })}
                      checked={(side === 'before' ? before : after) === version}
                      onChange={() => choose(side, version)}
                    />
                  </td>
                ))}
                <td>
                  {version}
                  {version === definition.version ? <span className="quiet"> {t('current')}</span> : null}
                </td>
                <td>
                  <Ago at={createdAt} />
                </td>
                <td>{handleOf(createdBy)}</td>
                <td className="wraps">{list(changed.map(labelOf))}</td>
                <td>
                  {version === definition.version ? null : (
                    <button
                      type="button"
                      className="small"
                      aria-label={t('Restore version {version}', { version: String(version) })}
                      disabled={restore.isPending}
                      onClick={() =>
                        void confirmed({
                          title: t('Restore version {version}?', { version: String(version) }),
                          detail: t('Its content becomes the newest version of “{name}”. No version is lost.', {
                            name: definition.name,
                          }),
                          action: t('Restore this version'),
                        }).then((isAgreed) => isAgreed && restore.mutate(version))
                      }
                    >
                      {t('Restore')}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <More of={versions} label={t('Load older versions')} />
      {before >= 1 ? (
        <Compared path={path} id={id} before={before} after={after} />
      ) : (
        <p className="note quiet">{t('Version 1 has no earlier version. Select two versions to compare them.')}</p>
      )}
    </section>
  );
}

function Compared({ path, id, before, after }: { path: string; id: string; before: number; after: number }) {
  const name = t('From version {before} to version {after}', { before: String(before), after: String(after) });
  const comparison = useQuery({
    queryKey: ['agent comparison', id, before, after],
    queryFn: () => api<Schemas['AgentComparison']>(`${path}/versions/${after}/diff${query({ from: before })}`),
    // Versions never change.
    staleTime: Infinity,
    enabled: before !== after,
  });
  if (before === after) return <p className="note quiet">{t('Select two different versions to compare them.')}</p>;
  return (
    <section aria-label={name}>
      <div className="title">
        <h2>{name}</h2>
        <div className="actions">
          <Link to="/agents" search={{ agent: id, view: 'try', before, after }} className="button">
            {t('Compare their answers')}
          </Link>
        </div>
      </div>
      {comparison.isPending ? <Waiting what={t('the comparison')} /> : null}
      {comparison.isError ? <Failed reading={comparison} /> : null}
      {comparison.data?.changes.length === 0 ? (
        <p className="note quiet">{t('Both versions have the same content.')}</p>
      ) : null}
      {comparison.data?.changes.map((change) => (
        <FieldChange key={change.field} change={change} />
      ))}
    </section>
  );
}
