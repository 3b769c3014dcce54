// Reads a project of the work graph as a board: its tasks by state, filtered by a plan or a goal.
import type { Schemas } from '../api/http';
import { LOCALE, language, t } from '../ui/language';

export type Graph = Schemas['WorkGraph'];
export type Entity = Schemas['WorkEntity'];

/** The states of tasks, in the order in which they are gone through, and what they are called. */
export const STATES = {
  todo: t('To do'),
  in_progress: t('In progress'),
  blocked: t('Blocked'),
  done: t('Done'),
  cancelled: t('Cancelled'),
};
export type TaskState = keyof typeof STATES;
export const IN_ORDER = Object.keys(STATES) as TaskState[];

/** The locale of due dates: in English, the day comes first. */
export const DAY_LOCALE = language === 'en' ? 'en-GB' : LOCALE;

/** States of tasks, plans and milestones that no longer block others. */
const OVER = ['done', 'cancelled', 'completed', 'abandoned'];
/** How urgent a task is that says nothing about it: 1 is most, 5 is least. */
const NO_PRIORITY = 6;

/** What a board is narrowed to. */
export interface Narrowed {
  plan?: string | undefined;
  goal?: string | undefined;
}

export interface Card {
  task: Entity;
  priority: number | null;
  dueAt: string | null;
  /** Names of what it can't be finished before. */
  waitsFor: string[];
  /** Empty: no one. */
  assignee: string;
  labels: string[];
}

/** What a task has besides its name and state. The graph has no fields for assignees and labels: they are custom properties. */
interface TaskProperties {
  description?: string | null;
  priority?: number | null;
  due_at?: string | null;
  props?: { assignee?: unknown; labels?: unknown } | null;
}

export function detailsOf(task: Entity) {
  const { description, priority, due_at, props } = task.properties as TaskProperties;
  const labels = Array.isArray(props?.labels) ? props.labels : [];
  return {
    description: description ?? '',
    priority: priority ?? null,
    dueAt: due_at ?? null,
    assignee: typeof props?.assignee === 'string' ? props.assignee : '',
    labels: labels.filter((label) => typeof label === 'string'),
  };
}

/** The address under which a project's graph is kept. */
export function graphKey(projectId: string): readonly [string, string] {
  return ['work-graph', projectId];
}

/** The address under which a project itself is kept. */
export function projectKey(projectId: string): readonly [string, string] {
  return ['work-project', projectId];
}

export function ofType(graph: Graph, type: string): Entity[] {
  return graph.entities.filter((entity) => entity.type === type);
}

export function isOver(entity: Entity): boolean {
  return OVER.includes(entity.stateKey);
}

/** The cards of each column whose titles contain the words: the urgent ones first, then in the order of their making. */
export function columnsOf(graph: Graph, narrowed: Narrowed, words = ''): Map<TaskState, Card[]> {
  const known = new Map(graph.entities.map((entity) => [entity.id, entity]));
  const links = new Set(graph.links.map(({ type, source, target }) => `${type} ${source.id} ${target.id}`));
  const has = (type: string, source: string, target: string) => links.has(`${type} ${source} ${target}`);
  const waits = new Map<string, string[]>();
  for (const { source, target } of graph.links.filter(({ type }) => type === 'depends_on')) {
    const other = known.get(target.id);
    if (other && !isOver(other)) waits.set(source.id, [...(waits.get(source.id) ?? []), other.name]);
  }
  const plansOfGoal = ofType(graph, 'plan').filter(
    (plan) => narrowed.goal !== undefined && has('supports_goal', plan.id, narrowed.goal),
  );
  const searched = words.trim().toLowerCase();
  const isShown = ({ id, name }: Entity) =>
    name.toLowerCase().includes(searched) &&
    (narrowed.plan === undefined || has('in_plan', id, narrowed.plan)) &&
    (narrowed.goal === undefined ||
      has('supports_goal', id, narrowed.goal) ||
      plansOfGoal.some((plan) => has('in_plan', id, plan.id)));
  const cards = ofType(graph, 'task')
    .filter(isShown)
    .map((task): Card => {
      const { priority, dueAt, assignee, labels } = detailsOf(task);
      return { task, priority, dueAt, assignee, labels, waitsFor: waits.get(task.id) ?? [] };
    })
    .sort((a, b) => (a.priority ?? NO_PRIORITY) - (b.priority ?? NO_PRIORITY));
  return new Map(IN_ORDER.map((state) => [state, cards.filter(({ task }) => task.stateKey === state)]));
}

/** The graph with one of its entities changed. */
export function changed(graph: Graph | undefined, id: string, change: Partial<Entity>): Graph | undefined {
  return (
    graph && {
      ...graph,
      entities: graph.entities.map((entity) => (entity.id === id ? { ...entity, ...change } : entity)),
    }
  );
}
