// Draws a dependency graph from left to right: each node behind its dependencies, with its state as colour, sign and word.
import { useMemo } from 'react';
import { Diagram } from '../ui/Diagram';
import { stateInWords } from '../ui/states';
import { chainOf } from './chains';

/** What is drawn: a task of a DAG, a step of a plan. */
export interface Drawn {
  id: string;
  title: string;
  state: string;
  /** Ids of those that it waits for. */
  after: string[];
  /** Who does it. */
  agent?: string | null;
}

/** How large they are drawn, and how far from each other [px]; with many of them, smaller. */
const ROOMY = { width: 220, height: 54, gapX: 60, gapY: 18 };
const DENSE = { width: 160, height: 46, gapX: 46, gapY: 10 };
const MANY = 24;

/** States without their colours; all others wait. */
const SIGNS: Record<string, string> = {
  completed: '✓',
  failed: '✗',
  in_progress: '▶',
  executing: '▶',
  cancelled: '–',
  skipped: '–',
};
const WAITS = '○';

interface PictureProps {
  tasks: readonly Drawn[];
  label: string;
  chosen: string | null;
  choose: (id: string) => void;
}

export function Picture({ tasks, label, chosen, choose }: PictureProps) {
  const isDense = tasks.length > MANY;
  const lines = useMemo(
    () => tasks.flatMap(({ id, after }) => after.map((before) => ({ from: before, to: id }))),
    [tasks],
  );
  const byId = new Map(tasks.map((task) => [task.id, task]));
  return (
    <Diagram
      label={label}
      className={isDense ? 'dense' : ''}
      ids={tasks.map(({ id }) => id)}
      lines={lines}
      sizes={isDense ? DENSE : ROOMY}
      chosen={chosen}
      chainOf={(id) => chainOf(tasks, id)}
      draw={(id, { style, kin, focus }) => {
        const task = byId.get(id);
        if (!task) return null;
        return (
          <button
            {...focus}
            key={id}
            type="button"
            className={`task ${task.state} ${kin}`}
            aria-pressed={id === chosen}
            title={task.title}
            style={style}
            onClick={() => choose(id)}
          >
            <b dir="auto">{task.title}</b>
            <span>
              <i aria-hidden="true">{SIGNS[task.state] ?? WAITS}</i> {stateInWords(task.state)}
              {task.agent ? ` · ${task.agent}` : ''}
            </span>
          </button>
        );
      }}
    />
  );
}
