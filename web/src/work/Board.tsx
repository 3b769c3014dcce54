// Shows a project's tasks as a board with a column per state. Tasks move by dragging, by Shift and arrow keys, or by the menu on each card.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { api, Problem } from '../api/http';
import { useMe } from '../api/me';
import { Failed } from '../ui/Failed';
import { number, rich, t } from '../ui/language';
import { ReadOnlyKey, Waiting } from '../ui/parts';
import { columnsOf, type Entity, type Graph, graphKey, IN_ORDER, ofType, STATES, type TaskState } from './board';
import { useDropTarget } from './dragging';
import { moveKey, useMoves } from './moves';
import { Narrowing } from './Narrowing';
import { NewTask } from './NewTask';
import { ProjectHead } from './ProjectHead';
import { TaskCard } from './TaskCard';
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
      {graph.isPending ? <Waiting what={t('the project')} /> : null}
      {isGone ? (
        <>
          <h1>{t('Project not found')}</h1>
          <p>
            {t('It may have been deleted.')} <Link to="/work">{t('All projects')}</Link>
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
            {t('Close')}
          </button>
        </p>
      ) : null}
      {all === 0 ? (
        <p className="note quiet">
          {rich('No tasks yet. Agents create them with {tool}.', { tool: <code>create_onto_task</code> })}{' '}
          {mayWrite ? t('You can create them with “New task” below.') : <ReadOnlyKey action={t('Creating tasks')} />}
        </p>
      ) : null}
      {all > 0 && count === 0 ? (
        <p className="note quiet">
          {words.trim() === ''
            ? t('No tasks match the selected plan or goal. Choose another one, or “All”.')
            : t('No tasks match “{words}”.', { words: words.trim() })}
        </p>
      ) : null}
      <p className="quiet told-here">
        <span role="status">{moves.done}</span>
        {moves.done === '' ? (
          mayWrite ? (
            rich('Use the arrow keys to go from task to task. Hold {shift} and press left or right to move a task.', {
              shift: <kbd>{t('Shift')}</kbd>,
            })
          ) : (
            <ReadOnlyKey action={t('Moving tasks')} />
          )
        ) : null}
      </p>
      <div className="board" ref={board}>
        {IN_ORDER.map((state) => (
          <Column key={state} state={state} onDropped={(task) => moves.move({ task, to: state })}>
            <h2>
              <span className={`dot ${state}`} aria-hidden="true" />
              {STATES[state]} <span className="quiet">{number(columns.get(state)?.length ?? 0)}</span>
            </h2>
            <ul>
              {columns.get(state)?.map((card) => (
                <TaskCard
                  key={card.task.id}
                  card={card}
                  mayWrite={mayWrite}
                  move={(to) => moves.move({ task: card.task, to })}
                  step={(by) => moves.step(card.task.id, by)}
                />
              ))}
            </ul>
            {mayWrite ? <NewTask project={graph.project.id} state={state} narrowed={narrowed} /> : null}
          </Column>
        ))}
      </div>
    </>
  );
}

interface ColumnProps {
  state: TaskState;
  onDropped: (task: Entity) => void;
  children: ReactNode;
}

function Column({ state, onDropped, children }: ColumnProps) {
  const element = useRef<HTMLElement>(null);
  const isOver = useDropTarget(element, state, onDropped);
  return (
    <section ref={element} data-state={state} className={isOver ? 'column over' : 'column'} aria-label={STATES[state]}>
      {children}
    </section>
  );
}
