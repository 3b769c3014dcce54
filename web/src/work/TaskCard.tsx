// A task on the board. It moves by dragging, by Shift and arrow keys, or by its menu; arrow keys alone go from card to card.
import { Link } from '@tanstack/react-router';
import { type KeyboardEvent, useRef } from 'react';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { t } from '../ui/language';
import { type Card, DAY_LOCALE, IN_ORDER, isOver, STATES, type TaskState } from './board';
import { useDraggable } from './dragging';

/** How many columns an arrow key leads on. The first column is where lines of text begin. */
const BY: Record<string, number> = { [BACKWARD]: -1, [FORWARD]: 1 };

interface TaskCardProps {
  card: Card;
  mayWrite: boolean;
  move: (to: TaskState) => void;
  /** How many columns on. */
  step: (by: number) => void;
}

export function TaskCard({ card, mayWrite, move, step }: TaskCardProps) {
  const { task, priority, dueAt, waitsFor, assignee, labels } = card;
  const element = useRef<HTMLLIElement>(null);
  const isDragged = useDraggable(element, task, mayWrite);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    // In a menu, arrow keys are the menu's.
    if (event.target instanceof HTMLSelectElement || event.altKey || event.ctrlKey || event.metaKey) return;
    const by = BY[event.key];
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
        dir="auto"
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
                {t('priority {priority}', { priority })}
              </span>
            ),
            dueAt === null ? null : (
              <time key="due" dateTime={dueAt} className={isLate ? 'late' : undefined}>
                {t(isLate ? 'was due {day}' : 'due {day}', {
                  day: new Date(dueAt).toLocaleDateString(DAY_LOCALE, {
                    day: 'numeric',
                    month: 'short',
                    year: 'numeric',
                  }),
                })}
              </time>
            ),
            waitsFor.length === 0 ? null : (
              <span key="waits">
                {waitsFor.length > 1
                  ? t('waits for {count, plural, one {# task} other {# tasks}}', { count: waitsFor.length })
                  : t('waits for “{name}”', { name: waitsFor[0] ?? '' })}
              </span>
            ),
            assignee === '' ? null : (
              <span key="assignee" dir="auto">
                {assignee}
              </span>
            ),
            ...labels.map((label) => (
              <span key={`label ${label}`} className="badge" dir="auto">
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
          aria-label={t('State of {name}', { name: task.name })}
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
