// What a conversation is about, beside where one writes: its project, its kind, and how full the model's context is.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import type { ProjectFocus, TranscriptView } from '../stream';
import { ErrorNote } from '../ui/parts';

/** As docs/CONTEXTS.md names them. */
const TYPES = ['global', 'project', 'calendar', 'project_create', 'project_audit', 'project_forecast', 'daily_brief_update', 'ontology', 'brain_dump'];
/** Projects that are looked through. */
const PROJECTS = 100;
/** Projects that are offered at a time. */
const OFFERED = 8;

export function About({ id, view }: { id: string; view: TranscriptView }) {
  const queries = useQueryClient();
  const [isChoosing, setChoosing] = useState(false);
  const [error, setError] = useState<unknown>(null);
  // The server knows; events say when to ask it again.
  const stored = useQuery({
    queryKey: ['conversation', id, view.contextType, view.focus],
    queryFn: () => api<Schemas['ConversationDetail']>(`/api/conversations/${id}`),
    placeholderData: (before) => before,
  });
  const focus = (stored.data?.projectFocus ?? null) as ProjectFocus | null;
  const set = async (about: { contextType?: string; projectFocus?: ProjectFocus }) => {
    try {
      setError(null);
      await api(`/api/conversations/${id}`, { method: 'PATCH', body: about });
      setChoosing(false);
    } catch (refusal) {
      setError(refusal);
    }
    await queries.invalidateQueries({ queryKey: ['conversation', id] });
  };
  return (
    <div className="about" role="group" aria-label="What this conversation is about">
      {focus ? (
        <span className="chip">
          {focus.projectName}
          <button type="button" className="plain small" aria-label={`Leave ${focus.projectName}`} onClick={() => void set({ contextType: 'global' })}>
            ×
          </button>
        </span>
      ) : null}
      <button type="button" className="plain small" aria-expanded={isChoosing} onClick={() => setChoosing(!isChoosing)}>
        {focus ? 'Another project' : 'Choose a project'}
      </button>
      <select
        aria-label="Context"
        value={stored.data?.contextType ?? ''}
        onChange={(event) => void set({ contextType: event.target.value })}
      >
        {stored.data?.contextType ? null : (
          <option value="" disabled>
            no context
          </option>
        )}
        {TYPES.map((type) => (
          <option key={type} value={type}>
            {type.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
      {view.contextUsage ? <Meter usage={view.contextUsage} /> : null}
      {isChoosing ? <Projects onChoose={(projectFocus) => void set({ projectFocus })} onLeave={() => setChoosing(false)} /> : null}
      {error ? <ErrorNote error={error} /> : null}
    </div>
  );
}

function Meter({ usage }: { usage: NonNullable<TranscriptView['contextUsage']> }) {
  const { usagePercent, estimatedTokens, tokenBudget, status } = usage;
  const tokens = `${estimatedTokens.toLocaleString('en')} of ${tokenBudget.toLocaleString('en')} tokens, ${status.replaceAll('_', ' ')}`;
  return (
    <span className={`usage ${status}`} title={tokens}>
      <meter min={0} max={100} high={85} value={Math.min(usagePercent, 100)} aria-label={`The model's context: ${tokens}`} />{' '}
      {Math.round(usagePercent)} %
    </span>
  );
}

function Projects({ onChoose, onLeave }: { onChoose: (focus: ProjectFocus) => void; onLeave: () => void }) {
  const me = useMe();
  const [words, setWords] = useState('');
  const projects = useQuery({
    queryKey: ['projects-of-graph'],
    queryFn: () => api<Schemas['GraphObjectPage']>(`/api/projects/${me.projectId}/graph/objects?type=project&limit=${PROJECTS}`),
  });
  const found = (projects.data?.items ?? []).filter(({ name }) => name.toLowerCase().includes(words.trim().toLowerCase()));
  return (
    <div
      className="projects"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        // It would stop the run.
        event.stopPropagation();
        onLeave();
      }}
    >
      <input
        type="search"
        aria-label="Search projects"
        placeholder="Search projects"
        autoFocus
        value={words}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          // Not the message is sent, but the first project chosen.
          event.preventDefault();
          const [first] = found;
          if (first) onChoose({ projectId: first.id, projectName: first.name });
        }}
      />
      <ul className="chips" aria-label="Projects">
        {found.slice(0, OFFERED).map((project) => (
          <li key={project.id}>
            <button type="button" className="plain small" onClick={() => onChoose({ projectId: project.id, projectName: project.name })}>
              {project.name}
            </button>
          </li>
        ))}
      </ul>
      {projects.isSuccess && found.length === 0 ? <p className="quiet">no project is called so</p> : null}
      {projects.isError ? <ErrorNote error={projects.error} /> : null}
    </div>
  );
}
