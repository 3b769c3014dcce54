// Draws a dependency graph in columns: each node right of its dependencies, with its state as colour, sign and word. Arrow keys follow edges.
import { type KeyboardEvent, useMemo, useRef, useState } from 'react';
import { Canvas } from '../ui/Canvas';
import { drawn } from '../ui/columns';
import { chainOf, columnsOf } from './layers';

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
  const boxes = useRef(new Map<string, HTMLButtonElement>());
  // What one points at, or has gone to with the keyboard: all that it hangs together with stands out.
  const [looked, look] = useState<string | null>(null);
  const about = looked ?? chosen;
  const shape = JSON.stringify(tasks.map(({ id, after }) => ({ id, after })));
  const sizes = tasks.length > MANY ? DENSE : ROOMY;
  // Drawn again when the dependencies change, not when the state of a task does.
  const drawing = useMemo(() => {
    const shaped = JSON.parse(shape) as { id: string; after: string[] }[];
    const lines = shaped.flatMap((task) => task.after.map((before): [string, string] => [before, task.id]));
    return drawn(columnsOf(shaped), lines, sizes);
  }, [shape, sizes]);
  const chain = useMemo(() => (about === null ? null : chainOf(tasks, about)), [tasks, about]);
  /** What it is to the one that is looked at. */
  const kin = (id: string) => {
    if (chain === null || id === about) return '';
    return chain.before.has(id) ? 'before' : chain.behind.has(id) ? 'behind' : 'apart';
  };
  const isOfChain = (before: string, after: string) =>
    chain !== null &&
    (after === about || chain.before.has(after) || before === about || chain.behind.has(before)) &&
    kin(before) !== 'apart' &&
    kin(after) !== 'apart';
  const onKeyDown = (event: KeyboardEvent, from: Drawn) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const others = otherwise(event.key, from, tasks, drawing.at);
    if (others === null) return;
    event.preventDefault();
    const { y } = drawing.at(from.id);
    const away = ({ id }: Drawn) => Math.abs(drawing.at(id).y - y);
    const [next] = others.sort((a, b) => away(a) - away(b));
    if (next) boxes.current.get(next.id)?.focus();
  };
  return (
    <Canvas label={label} className={tasks.length > MANY ? 'dense' : ''} width={drawing.width} height={drawing.height}>
      <svg width={drawing.width} height={drawing.height} aria-hidden="true">
        {tasks.flatMap((task) =>
          task.after.map((before) => (
            <path
              key={`${before}-${task.id}`}
              className={chain === null ? undefined : isOfChain(before, task.id) ? 'of-chain' : 'apart'}
              d={drawing.path(before, task.id)}
            />
          )),
        )}
      </svg>
      {tasks.map((task) => {
        const { x, y } = drawing.at(task.id);
        return (
          <button
            key={task.id}
            ref={(box) => {
              if (box) boxes.current.set(task.id, box);
              else boxes.current.delete(task.id);
            }}
            type="button"
            className={`task ${task.state} ${kin(task.id)}`}
            aria-pressed={task.id === chosen}
            title={task.title}
            style={{ insetInlineStart: x, insetBlockStart: y, inlineSize: sizes.width, blockSize: sizes.height }}
            onClick={() => choose(task.id)}
            onKeyDown={(event) => onKeyDown(event, task)}
            onMouseEnter={() => look(task.id)}
            onMouseLeave={() => look(null)}
            onFocus={() => look(task.id)}
            onBlur={() => look(null)}
          >
            <b>{task.title}</b>
            <span>
              <i aria-hidden="true">{SIGNS[task.state] ?? WAITS}</i> {task.state.replaceAll('_', ' ')}
              {task.agent ? ` · ${task.agent}` : ''}
            </span>
          </button>
        );
      })}
    </Canvas>
  );
}

/** Where an arrow key leads: what it waits for, what waits for it, or those above or below in its column. Null: another key. */
function otherwise(
  key: string,
  from: Drawn,
  all: readonly Drawn[],
  at: (id: string) => { x: number; y: number },
): Drawn[] | null {
  const here = at(from.id);
  switch (key) {
    case 'ArrowLeft':
      return all.filter((other) => from.after.includes(other.id));
    case 'ArrowRight':
      return all.filter((other) => other.after.includes(from.id));
    case 'ArrowUp':
      return all.filter(({ id }) => at(id).x === here.x && at(id).y < here.y);
    case 'ArrowDown':
      return all.filter(({ id }) => at(id).x === here.x && at(id).y > here.y);
    default:
      return null;
  }
}
