// The draft of a task's view, and the change that it becomes: only the fields that differ.
import { HERE, momentOf, wallAt } from '../calendar/days';
import { detailsOf, type Entity } from './board';

export interface TaskDraft {
  title: string;
  description: string;
  stateKey: string;
  /** From 1 to 5; empty: not set. */
  priority: string;
  /** The day in this browser's time zone; empty: not set. */
  due: string;
  assignee: string;
  /** Separated by commas. */
  labels: string;
}

/** A task is due at the end of its day. */
const END_OF_DAY = '23:59';

export function draftOf(task: Entity): TaskDraft {
  const { description, priority, dueAt, assignee, labels } = detailsOf(task);
  return {
    title: task.name,
    description,
    stateKey: task.stateKey,
    priority: priority === null ? '' : String(priority),
    due: dueAt === null ? '' : wallAt(Date.parse(dueAt), HERE).slice(0, 10),
    assignee,
    labels: labels.join(', '),
  };
}

/** The fields that differ; custom properties are merged on the server, and null clears one. */
export function changesOf(before: TaskDraft, now: TaskDraft): Record<string, unknown> {
  const isChanged = (name: keyof TaskDraft) => before[name].trim() !== now[name].trim();
  const fields: Record<string, unknown> = {};
  for (const name of ['title', 'description', 'stateKey'] as const)
    if (isChanged(name)) fields[name] = now[name].trim();
  if (isChanged('priority')) fields.priority = now.priority === '' ? null : Number(now.priority);
  if (isChanged('due'))
    fields.dueAt = now.due === '' ? null : new Date(momentOf(`${now.due}T${END_OF_DAY}`, HERE)).toISOString();
  const props: Record<string, unknown> = {};
  if (isChanged('assignee')) props.assignee = now.assignee.trim() || null;
  if (isChanged('labels')) {
    const labels = labelsOf(now.labels);
    props.labels = labels.length === 0 ? null : labels;
  }
  return Object.keys(props).length === 0 ? fields : { ...fields, props };
}

export function labelsOf(text: string): string[] {
  return [...new Set(text.split(',').map((label) => label.trim()))].filter((label) => label !== '');
}
