// Lists the project's agents, and shows the chosen one: its editor, its versions, two versions beside each other, its feedback. The address
// names the agent and the part.
import { useQuery } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { api } from '../../api/http';
import { useMe } from '../../api/me';
import { More, usePages } from '../../api/pages';
import { Failed } from '../../ui/Failed';
import { message, t } from '../../ui/language';
import { Waiting } from '../../ui/parts';
import type { AgentPart } from '../parts';
import type { Definition } from './draft';
import { Editor } from './Editor';
import { FeedbackList } from './FeedbackList';
import { TestRun } from './TestRun';
import { TryVersions } from './TryVersions';
import { Versions } from './Versions';
import './agents.css';

/** The agent of the address that does not exist yet. */
const NEW = 'new';

const PARTS: readonly (readonly [AgentPart | undefined, string])[] = [
  [undefined, message('Edit')],
  ['versions', message('Versions')],
  ['try', message('Compare answers')],
  ['feedback', message('Feedback')],
];

export function Agents() {
  const me = useMe();
  const path = `/api/admin/projects/${me.projectId}/agent-definitions`;
  const { agent, view } = useSearch({ from: '/agents' });
  const [shown, show] = useState(false);
  const all = usePages<Definition>(['definitions', shown], path, {
    limit: 100,
    narrowedBy: { visibility: shown ? 'all' : undefined },
  });
  if (all.reading.isPending) return <Waiting what={t('agents')} />;
  if (all.reading.isError) return <Failed reading={all.reading} />;
  return (
    <div className="split">
      <nav aria-label={t('Agents of the project')}>
        <ul className="choices">
          {all.items.map((one) => (
            <li key={one.id}>
              <Link
                to="/agents"
                search={{ agent: one.id, view }}
                className="button plain"
                aria-current={one.id === agent ? 'page' : undefined}
              >
                <bdi>{one.name}</bdi> {one.isDefault ? <span className="quiet">{t('default')}</span> : null}
              </Link>
            </li>
          ))}
        </ul>
        <More of={all} />
        <label>
          <input type="checkbox" checked={shown} onChange={(event) => show(event.target.checked)} />{' '}
          {t('Show internal agents')}
        </label>
        <Link to="/agents" search={{ agent: NEW }} className="button">
          <Plus className="icon" /> {t('New agent')}
        </Link>
      </nav>
      {agent === undefined ? <p className="quiet">{t('Select an agent, or create one.')}</p> : null}
      {agent === NEW ? <Editor key={NEW} path={path} definition={null} /> : null}
      {agent === undefined || agent === NEW ? null : <One key={agent} path={path} id={agent} />}
    </div>
  );
}

function One({ path, id }: { path: string; id: string }) {
  const { view } = useSearch({ from: '/agents' });
  const definition = useQuery({ queryKey: ['definition', id], queryFn: () => api<Definition>(`${path}/${id}`) });
  if (definition.isPending) return <Waiting what={t('the agent')} />;
  // A failed refresh takes nothing away that is being edited.
  if (!definition.data) return <Failed reading={definition} />;
  const of = { path: `${path}/${id}`, definition: definition.data };
  return (
    <div className="agent">
      <nav className="parts" aria-label={t('Sections of {name}', { name: definition.data.name })}>
        {PARTS.map(([part, name]) => (
          <Link
            key={name}
            to="/agents"
            search={{ agent: id, view: part }}
            activeOptions={{ exact: true }}
            aria-current={part === view ? 'page' : undefined}
          >
            {t(name)}
          </Link>
        ))}
      </nav>
      {view === undefined ? (
        <div className="beside">
          <Editor path={path} definition={definition.data} />
          <TestRun agentId={id} />
        </div>
      ) : null}
      {view === 'versions' ? <Versions {...of} /> : null}
      {view === 'try' ? <TryVersions {...of} /> : null}
      {view === 'feedback' ? <FeedbackList definition={definition.data} /> : null}
    </div>
  );
}
