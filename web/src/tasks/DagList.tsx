// Lists task graphs (DAGs), newest first.
import { Link } from '@tanstack/react-router';
import { Workflow } from 'lucide-react';
import type { Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';
import { stateInWords } from '../ui/states';
import { useTitle } from '../ui/title';
import { Wide } from '../ui/Wide';

export function DagList() {
  useTitle(t('Workflows'));
  const me = useMe();
  const dags = usePages<Schemas['DagPage']['items'][number]>(['dags'], `/api/projects/${me.projectId}/task-dags`, {
    refetchMs: 5_000,
  });
  return (
    <main id="main" className="page">
      <h1>{t('Workflows')}</h1>
      {dags.reading.isError ? <ErrorNote error={dags.reading.error} /> : null}
      {dags.reading.isPending ? <Waiting what={t('workflows')} /> : null}
      {dags.reading.isSuccess && dags.items.length === 0 ? (
        <Empty icon={Workflow} title={t('No workflows yet')}>
          {rich('Agents create task graphs with {tool}. You can create one with {command}.', {
            tool: <code>create_tasks</code>,
            command: <code>rejoin tasks apply FILE.yaml</code>,
          })}
        </Empty>
      ) : null}
      {dags.items.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Name')}</th>
                <th scope="col">{t('State')}</th>
                <th scope="col">{t('Tasks')}</th>
                <th scope="col">{t('Created')}</th>
              </tr>
            </thead>
            <tbody>
              {dags.items.map((dag) => (
                <tr key={dag.id} className="leads">
                  <td>
                    <Link dir="auto" to="/tasks/$id" params={{ id: dag.id }} className="row-link">
                      {dag.name}
                    </Link>
                  </td>
                  <td>
                    <State state={dag.state} />
                  </td>
                  <td>
                    {Object.entries(dag.counts as Record<string, number>)
                      .map(([state, count]) => t('{count} {state}', { count, state: stateInWords(state) }))
                      .join(t(', '))}
                  </td>
                  <td>
                    <Ago at={dag.createdAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
      <More of={dags} />
    </main>
  );
}
