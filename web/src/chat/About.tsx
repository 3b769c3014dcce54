// Shows and changes a conversation's context below the message field: its project, its context type, and how full the model's context is.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { FolderPlus, X } from 'lucide-react';
import { memo, useEffect, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { getOffline } from '../api/offline';
import type { ProjectFocus, TranscriptView } from '../stream';
import { IconButton } from '../ui/Button';
import { message, t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { keptChats } from './kept';

/** As docs/guide/contexts.md names them. */
const TYPES = [
  'global',
  'project',
  'calendar',
  'project_create',
  'project_audit',
  'project_forecast',
  'daily_brief_update',
  'ontology',
  'brain_dump',
];
const TYPES_SHOWN: Record<string, string> = {
  global: t('General'),
  project: t('Project'),
  calendar: t('Calendar'),
  project_create: t('Create a project'),
  project_audit: t('Audit a project'),
  project_forecast: t('Forecast a project'),
  daily_brief_update: t('Daily brief'),
  ontology: t('Ontology'),
  brain_dump: t('Brain dump'),
};
/** Projects that are looked through. */
const PROJECTS = 100;
/** Projects that are offered at a time. */
const OFFERED = 8;

/** A kind of parts of a project. */
interface Part {
  /** As the API names it. */
  list: string;
  /** For people. */
  name: string;
  choose: string;
  none: string;
}
/** Parts of a project that a conversation may be about. */
const PARTS: Readonly<Record<string, Part>> = {
  task: { list: 'tasks', name: t('task'), choose: t('Choose a task'), none: t('No tasks yet') },
  goal: { list: 'goals', name: t('goal'), choose: t('Choose a goal'), none: t('No goals yet') },
  plan: { list: 'plans', name: t('plan'), choose: t('Choose a plan'), none: t('No plans yet') },
  document: { list: 'documents', name: t('document'), choose: t('Choose a document'), none: t('No documents yet') },
  milestone: {
    list: 'milestones',
    name: t('milestone'),
    choose: t('Choose a milestone'),
    none: t('No milestones yet'),
  },
  risk: { list: 'risks', name: t('risk'), choose: t('Choose a risk'), none: t('No risks yet') },
};
/** Parts of one kind that are offered. */
const PARTS_MAX = 100;

/** How full the model's context is, by its state. */
const USED: Record<NonNullable<TranscriptView['contextUsage']>['status'], string> = {
  ok: message('{used} of {budget} tokens, ok'),
  near_limit: message('{used} of {budget} tokens, near limit'),
  over_budget: message('{used} of {budget} tokens, over budget'),
};

/** What a conversation is about, as its events name it. */
type Context = Pick<TranscriptView, 'contextType' | 'focus'>;

/** The stored conversation. Events that change it cause another request. */
export function useStored(id: string, { contextType, focus }: Context) {
  return useQuery({
    queryKey: ['conversation', id, contextType, focus],
    queryFn: () => api<Schemas['ConversationDetail']>(`/api/conversations/${id}`),
    placeholderData: (before) => before,
    initialData: () => (getOffline() ? keptChats().find((one) => one.id === id) : undefined),
    initialDataUpdatedAt: 0,
  });
}

/** Has the server read what the next answer needs: as the conversation is opened, and whenever what it is about changes. */
export function usePrewarmed(id: string, stored: Schemas['ConversationDetail'] | undefined): void {
  const about = stored && JSON.stringify([stored.contextType, stored.projectFocus]);
  useEffect(() => {
    if (about === undefined) return;
    // It only saves time: without it the first answer reads for itself.
    api('/api/agent/prewarm', { method: 'POST', body: { sessionId: id } }).catch(() => {});
  }, [id, about]);
}

interface AboutProps extends Context, Pick<TranscriptView, 'contextUsage'> {
  id: string;
}

/** Memoised: it stays as it is while an answer streams. */
export const About = memo(function About({ id, contextType, focus: named, contextUsage }: AboutProps) {
  const queries = useQueryClient();
  const [isChoosing, setChoosing] = useState(false);
  const [error, setError] = useState<unknown>(null);
  // Shown until the server has it, or has refused it.
  const [chosenType, setChosenType] = useState<string>();
  const stored = useStored(id, { contextType, focus: named });
  const focus = (stored.data?.projectFocus ?? null) as ProjectFocus | null;
  const set = async (about: { contextType?: string; projectFocus?: ProjectFocus }) => {
    try {
      setError(null);
      setChosenType(about.contextType);
      await api(`/api/conversations/${id}`, { method: 'PATCH', body: about });
      setChoosing(false);
    } catch (refusal) {
      setError(refusal);
    }
    await queries.invalidateQueries({ queryKey: ['conversation', id] });
    // A later choice is still on its way.
    setChosenType((now) => (now === about.contextType ? undefined : now));
  };
  return (
    <div className="about" role="group" aria-label={t('Conversation context')}>
      {focus ? (
        <span className="chip">
          <bdi>{focus.projectName}</bdi>
          {focus.focusType ? ` › ${PARTS[focus.focusType]?.name ?? focus.focusType}` : ''}
          <IconButton
            icon={X}
            label={t('Remove')}
            name={t('Remove {name}', { name: focus.projectName })}
            className="small"
            onClick={() => void set({ contextType: 'global' })}
          />
        </span>
      ) : null}
      <button type="button" className="plain small" aria-expanded={isChoosing} onClick={() => setChoosing(!isChoosing)}>
        <FolderPlus className="icon" />
        {focus ? t('Change project') : t('Add project')}
      </button>
      <select
        aria-label={t('Context')}
        className="small"
        value={chosenType ?? stored.data?.contextType ?? ''}
        onChange={(event) => void set({ contextType: event.target.value })}
      >
        {stored.data?.contextType ? null : (
          <option value="" disabled>
            {t('Mode: General')}
          </option>
        )}
        {TYPES.map((type) => (
          <option key={type} value={type}>
            {TYPES_SHOWN[type] ?? type.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
      {focus ? (
        <FocusedPart key={focus.projectId} focus={focus} onChoose={(projectFocus) => void set({ projectFocus })} />
      ) : null}
      {contextUsage ? <Meter usage={contextUsage} /> : null}
      {isChoosing ? (
        <Projects onChoose={(projectFocus) => void set({ projectFocus })} onLeave={() => setChoosing(false)} />
      ) : null}
      {error ? <ErrorNote error={error} /> : null}
    </div>
  );
});

/** One thing of the project that the conversation is about. */
function FocusedPart({ focus, onChoose }: { focus: ProjectFocus; onChoose: (focus: ProjectFocus) => void }) {
  const [kind, setKind] = useState(focus.focusType ?? '');
  const part = PARTS[kind];
  const parts = useQuery({
    queryKey: ['parts', focus.projectId, part?.list],
    queryFn: () =>
      api<{ items: { id: string; name: string }[] }>(
        `/api/onto/${part?.list}?projectId=${focus.projectId}&limit=${PARTS_MAX}`,
      ),
    enabled: part !== undefined,
  });
  const { projectId, projectName } = focus;
  return (
    <>
      <select
        aria-label={t('Project item')}
        className="small"
        value={kind}
        onChange={({ target: { value } }) => {
          setKind(value);
          if (value === '' && focus.focusEntityId) onChoose({ projectId, projectName });
        }}
      >
        <option value="">{t('Whole project')}</option>
        {Object.entries(PARTS).map(([value, { name }]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      {part ? (
        <select
          aria-label={part.choose}
          className="small"
          value={focus.focusType === kind ? (focus.focusEntityId ?? '') : ''}
          onChange={({ target: { value } }) =>
            onChoose(
              value ? { projectId, projectName, focusType: kind, focusEntityId: value } : { projectId, projectName },
            )
          }
        >
          <option value="">{parts.isSuccess && parts.data.items.length === 0 ? part.none : part.choose}</option>
          {parts.data?.items.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      ) : null}
    </>
  );
}

function Meter({ usage }: { usage: NonNullable<TranscriptView['contextUsage']> }) {
  const { usagePercent, estimatedTokens, tokenBudget, status } = usage;
  const tokens = t(USED[status], { used: estimatedTokens, budget: tokenBudget });
  return (
    <span className={`usage ${status}`} title={tokens}>
      <meter
        min={0}
        max={100}
        high={85}
        value={Math.min(usagePercent, 100)}
        aria-label={t('Model context: {tokens}', { tokens })}
      />{' '}
      {t('{percent} %', { percent: Math.round(usagePercent) })}
    </span>
  );
}

function Projects({ onChoose, onLeave }: { onChoose: (focus: ProjectFocus) => void; onLeave: () => void }) {
  const me = useMe();
  const [words, setWords] = useState('');
  const projects = useQuery({
    queryKey: ['projects-of-graph'],
    queryFn: () =>
      api<Schemas['GraphObjectPage']>(`/api/projects/${me.projectId}/graph/objects?type=project&limit=${PROJECTS}`),
  });
  const found = (projects.data?.items ?? []).filter(({ name }) =>
    name.toLowerCase().includes(words.trim().toLowerCase()),
  );
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only handles Escape, which bubbles up from the field and the buttons in it.
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
        aria-label={t('Search projects')}
        placeholder={t('Search projects')}
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
      <ul className="chips" aria-label={t('Projects')}>
        {found.slice(0, OFFERED).map((project) => (
          <li key={project.id}>
            <button
              type="button"
              className="plain small"
              onClick={() => onChoose({ projectId: project.id, projectName: project.name })}
            >
              <bdi>{project.name}</bdi>
            </button>
          </li>
        ))}
      </ul>
      {projects.isSuccess && found.length === 0 ? <p className="quiet">{t('No matching projects')}</p> : null}
      {projects.isError ? <ErrorNote error={projects.error} /> : null}
    </div>
  );
}
