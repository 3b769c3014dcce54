// A task on the board. It moves by dragging, by Shift and arrow keys, or by its menu; arrow keys alone go from card to card.
import { Link } from '@tanstack/react-router';
import { type KeyboardEvent, useRef } from 'react';
import { type Card, IN_ORDER, isOver, STATES, type TaskState } from './board';
import { useDraggable } from './dragging';

interface TaskCardProps {
  card: Card;
  mayWrite: boolean;
  move: (to: TaskState) => void;
  /** How many columns to the right. */
  step: (by: number) => void;
}

export function TaskCard({ card, mayWrite, move, step }: TaskCardProps) {
  const { task, priority, dueAt, waitsFor, assignee, labels } = card;
  const element = useRef<HTMLLIElement>(null);
  const isDragged = useDraggable(element, task, mayWrite);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    // In a menu, arrow keys are the menu's.
    if (event.target instanceof HTMLSelectElement || event.altKey || event.ctrlKey || event.metaKey) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.shiftKey) {
      if (by === undefined || !mayWrite) return;
      step(by);
    } else if (by !== undefined) {
      aside(event.currentTarget, by)?.focus();
    } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      const other =
        event.key === 'ArrowUp' ? event.currentTarget.previousElementSibling : event.currentTarget.nextElementSibling;
      titleOf(other)?.focus();
    } else {
      return;
    }
    event.preventDefault();
  };
  const isLate = dueAt !== null && !isOver(task) && Date.parse(dueAt) < Date.now();
  return (
    <li ref={element} data-task={task.id} className={isDragged ? 'card dragged' : 'card'} onKeyDown={onKeyDown}>
      <Link
        to="/work/$projectId/tasks/$taskId"
        params={{ projectId: task.projectId, taskId: task.id }}
        data-part="title"
        draggable={false}
        aria-keyshortcuts={mayWrite ? 'Shift+ArrowLeft Shift+ArrowRight' : undefined}
      >
        {task.name}
      </Link>
      {priority !== null || dueAt !== null || waitsFor.length > 0 || assignee !== '' || labels.length > 0 ? (
        <p className="quiet">
          {[
            priority === null ? null : (
              <span key="priority" className="badge">
                priority {priority}
              </span>
            ),
            dueAt === null ? null : (
              <time key="due" dateTime={dueAt} className={isLate ? 'late' : undefined}>
                {isLate ? 'was due' : 'due'}{' '}
                {new Date(dueAt).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })}
              </time>
            ),
            waitsFor.length === 0 ? null : (
              <span key="waits">waits for {waitsFor.length > 1 ? `${waitsFor.length} tasks` : `“${waitsFor[0]}”`}</span>
            ),
            assignee === '' ? null : <span key="assignee">{assignee}</span>,
            ...labels.map((label) => (
              <span key={`label ${label}`} className="badge">
                {label}
              </span>
            )),
          ]}
        </p>
      ) : null}
      {mayWrite ? (
        <select
          className="small"
          data-part="state"
          aria-label={`State of ${task.name}`}
          value={task.stateKey}
          onChange={(event) => move(event.target.value as TaskState)}
        >
          {IN_ORDER.map((state) => (
            <option key={state} value={state}>
              {STATES[state]}
            </option>
          ))}
        </select>
      ) : null}
    </li>
  );
}

function titleOf(card: Element | null | undefined): HTMLElement | null {
  return card?.querySelector<HTMLElement>('[data-part="title"]') ?? null;
}

/** The first card of the next column that has one. */
function aside(card: Element, by: number): HTMLElement | null {
  const columns = [...(card.closest('.board')?.querySelectorAll('[data-state]') ?? [])];
  const from = columns.findIndex((column) => column.contains(card));
  for (let nth = from + by; nth >= 0 && nth < columns.length; nth += by) {
    const title = titleOf(columns[nth]?.querySelector('[data-task]'));
    if (title) return title;
  }
  return null;
}
