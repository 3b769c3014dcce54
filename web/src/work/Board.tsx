// Shows a project's tasks as a board with a column per state. Tasks move by dragging, by Shift and arrow keys, or by the menu on each card.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type KeyboardEvent, type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { api, Problem } from '../api/http';
import { useMe } from '../api/me';
import { Failed } from '../ui/Failed';
import { ReadOnlyKey, Waiting } from '../ui/parts';
import {
  type Card,
  columnsOf,
  type Entity,
  type Graph,
  graphKey,
  IN_ORDER,
  isOver,
  type Narrowed,
  ofType,
  STATES,
  type TaskState,
} from './board';
import { moveKey, useMoves } from './moves';
import { NewTask } from './NewTask';
import { ProjectHead } from './ProjectHead';
import './work.css';

export function Board() {
  const { projectId } = useParams({ from: '/work/$projectId' });
  const queries = useQueryClient();
  const graph = useQuery({
    queryKey: graphKey(projectId),
    queryFn: ({ signal }) => api<Graph>(`/api/onto/projects/${projectId}/graph`, { signal }),
    refetchOnWindowFocus: false,
  });
  useEffect(() => {
    // Agents and others work on it, too: who comes back to the window sees what they did. After a move that is under way it is read anyway.
    const look = () => {
      if (queries.isMutating({ mutationKey: moveKey(projectId) }) === 0)
        void queries.invalidateQueries({ queryKey: graphKey(projectId) });
    };
    window.addEventListener('focus', look);
    return () => window.removeEventListener('focus', look);
  }, [queries, projectId]);
  const isGone = graph.error instanceof Problem && graph.error.status === 404;
  return (
    <main id="main" className="page wide">
      {graph.isPending ? <Waiting what="the project" /> : null}
      {isGone ? (
        <>
          <h1>Project not found</h1>
          <p>
            It may have been deleted. <Link to="/work">All projects</Link>
          </p>
        </>
      ) : graph.isError ? (
        <Failed reading={graph} />
      ) : null}
      {graph.data && !isGone ? <Tasks key={projectId} graph={graph.data} /> : null}
    </main>
  );
}

/** Restores the focus after a card has moved: a card in another column is another element. */
function useKeptFocus(board: RefObject<HTMLElement | null>): void {
  const before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  const part = before?.dataset.part;
  const task = before?.closest<HTMLElement>('[data-task]')?.dataset.task;
  useLayoutEffect(() => {
    if (part === undefined || task === undefined || before?.isConnected) return;
    board.current?.querySelector<HTMLElement>(`[data-task="${task}"] [data-part="${part}"]`)?.focus();
  });
}

function Tasks({ graph }: { graph: Graph }) {
  const mayWrite = useMe().scopes.includes('write');
  const narrowed = useSearch({ from: '/work/$projectId' });
  const board = useRef<HTMLDivElement>(null);
  const [dragged, drag] = useState<Entity | null>(null);
  const [over, setOver] = useState<TaskState | null>(null);
  const [words, setWords] = useState('');
  const columns = useMemo(() => columnsOf(graph, narrowed, words), [graph, narrowed, words]);
  const moves = useMoves(graph.project.id);
  useKeptFocus(board);
  const count = [...columns.values()].reduce((sum, cards) => sum + cards.length, 0);
  const all = ofType(graph, 'task').length;
  return (
    <>
      <ProjectHead project={graph.project} />
      <Narrowing graph={graph} narrowed={narrowed} words={words} onWords={setWords} shown={count} of={all} />
      {moves.undone ? (
        <p className="note bad" role="alert">
          {moves.undone}{' '}
          <button type="button" className="small" onClick={moves.forget}>
            Close
          </button>
        </p>
      ) : null}
      {all === 0 ? (
        <p className="note quiet">
          No tasks yet. Agents create them with <code>create_onto_task</code>.{' '}
          {mayWrite ? 'You can create them with “New task” below.' : <ReadOnlyKey action="Creating tasks" />}
        </p>
      ) : null}
      {all > 0 && count === 0 ? (
        <p className="note quiet">
          {words.trim() === ''
            ? 'No tasks match the selected plan or goal. Choose another one, or “All”.'
            : `No tasks match “${words.trim()}”.`}
        </p>
      ) : null}
      <p className="quiet told-here">
        <span role="status">{moves.done}</span>
        {moves.done === '' ? (
          mayWrite ? (
            <>
              Use the arrow keys to go from task to task. Hold <kbd>Shift</kbd> and press left or right to move a task.
            </>
          ) : (
            <ReadOnlyKey action="Moving tasks" />
          )
        ) : null}
      </p>
      <div className="board" ref={board}>
        {IN_ORDER.map((state) => {
          const cards = columns.get(state) ?? [];
          return (
            <section
              key={state}
              data-state={state}
              className={over === state && dragged && dragged.stateKey !== state ? 'column over' : 'column'}
              aria-label={STATES[state]}
              onDragOver={(event) => {
                if (dragged === null) return;
                event.preventDefault();
                setOver(state);
              }}
              onDrop={(event) => {
                event.preventDefault();
                if (dragged) moves.move({ task: dragged, to: state });
                drag(null);
                setOver(null);
              }}
            >
              <h2>
                <span className={`dot ${state}`} aria-hidden="true" />
                {STATES[state]} <span className="quiet">{cards.length}</span>
              </h2>
              <ul>
                {cards.map((card) => (
                  <TaskCard
                    key={card.task.id}
                    card={card}
                    mayWrite={mayWrite}
                    isDragged={dragged?.id === card.task.id}
                    move={(to) => moves.move({ task: card.task, to })}
                    step={(by) => moves.step(card.task.id, by)}
                    drag={(isBegun) => {
                      drag(isBegun ? card.task : null);
                      if (!isBegun) setOver(null);
                    }}
                  />
                ))}
              </ul>
              {mayWrite ? <NewTask project={graph.project.id} state={state} narrowed={narrowed} /> : null}
            </section>
          );
        })}
      </div>
    </>
  );
}

interface NarrowingProps {
  graph: Graph;
  narrowed: Narrowed;
  words: string;
  onWords: (words: string) => void;
  /** Tasks that are shown, of all. */
  shown: number;
  of: number;
}

function Narrowing({ graph, narrowed, words, onWords, shown, of }: NarrowingProps) {
  const navigate = useNavigate({ from: '/work/$projectId' });
  const choices = [
    ['plan', 'Plan', ofType(graph, 'plan')],
    ['goal', 'Goal', ofType(graph, 'goal')],
  ] as const;
  if (of === 0) return null;
  return (
    <div className="controls">
      <input
        type="search"
        aria-label="Filter tasks"
        placeholder="Filter tasks"
        value={words}
        onChange={(event) => onWords(event.target.value)}
      />
      {choices.map(([name, label, entities]) =>
        entities.length === 0 ? null : (
          <label key={name}>
            {label}{' '}
            <select
              value={narrowed[name] ?? ''}
              onChange={(event) =>
                void navigate({
                  search: (before) => ({ ...before, [name]: event.target.value || undefined }),
                  replace: true,
                })
              }
            >
              <option value="">All</option>
              {entities.map(({ id, name: called }) => (
                <option key={id} value={id}>
                  {called}
                </option>
              ))}
            </select>
          </label>
        ),
      )}
      {shown < of ? (
        <span className="quiet">
          {shown} of {of} tasks
        </span>
      ) : null}
    </div>
  );
}

interface TaskCardProps {
  card: Card;
  mayWrite: boolean;
  isDragged: boolean;
  move: (to: TaskState) => void;
  /** So many columns to the right. */
  step: (by: number) => void;
  drag: (isBegun: boolean) => void;
}

function TaskCard({ card: { task, priority, dueAt, waitsFor }, mayWrite, isDragged, move, step, drag }: TaskCardProps) {
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
    <li
      data-task={task.id}
      className={isDragged ? 'card dragged' : 'card'}
      draggable={mayWrite}
      onKeyDown={onKeyDown}
      onDragStart={(event) => {
        event.dataTransfer.setData('text/plain', task.name);
        event.dataTransfer.effectAllowed = 'move';
        drag(true);
      }}
      onDragEnd={() => drag(false)}
    >
      <Link
        to="/graph/$id"
        params={{ id: task.id }}
        data-part="title"
        draggable={false}
        aria-keyshortcuts={mayWrite ? 'Shift+ArrowLeft Shift+ArrowRight' : undefined}
      >
        {task.name}
      </Link>
      {priority !== null || dueAt !== null || waitsFor.length > 0 ? (
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
