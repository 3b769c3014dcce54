// Moves tasks between states: shown at once, sent in order, and rolled back with a reason if the server refuses.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { api, ifMatch, Problem } from '../api/http';
import { t } from '../ui/language';
import { changed, type Entity, type Graph, graphKey, IN_ORDER, STATES, type TaskState } from './board';

/** Marks the versions that result from changes made here. */
export const FROM_HERE = { 'x-change-source': 'ui' };

export interface Move {
  task: Entity;
  to: TaskState;
}

interface Moves {
  move: (move: Move) => void;
  /** How many columns on. */
  step: (id: string, by: number) => void;
  /** What was done last, in words. */
  done: string;
  /** Why the last one was undone. */
  undone: string | null;
  forget: () => void;
}

/** What moves of a project are known by. */
export function moveKey(projectId: string): readonly [string, string] {
  return ['work-move', projectId];
}

export function useMoves(projectId: string): Moves {
  const queries = useQueryClient();
  const key = graphKey(projectId);
  const mutationKey = moveKey(projectId);
  const [done, setDone] = useState('');
  const [undone, setUndone] = useState<string | null>(null);
  /** The versions that moves from here have made: by the task and the version that it was moved from. */
  const made = useRef(new Map<string, number>());
  const show = (id: string, stateKey: string) =>
    queries.setQueryData<Graph>(key, (graph) => changed(graph, id, { stateKey }));
  const mutation = useMutation({
    mutationKey,
    // One after another: a task that is moved twice is at the version that the first one made.
    scope: { id: mutationKey.join(' ') },
    mutationFn: ({ task, to }: Move) => {
      let version = task.version;
      for (
        let next = made.current.get(`${task.id} ${version}`);
        next !== undefined;
        next = made.current.get(`${task.id} ${version}`)
      )
        version = next;
      return api<Entity>(`/api/onto/tasks/${task.id}`, {
        method: 'PATCH',
        body: { stateKey: to },
        headers: { ...ifMatch(version), ...FROM_HERE },
      }).then((now) => {
        made.current.set(`${task.id} ${version}`, now.version);
        return now;
      });
    },
    onMutate: async ({ task, to }) => {
      setUndone(null);
      // What was read before would show it where it was.
      await queries.cancelQueries({ queryKey: key });
      show(task.id, to);
    },
    onSuccess: (_, { task, to }) => setDone(t('Moved “{name}” to {state}.', { name: task.name, state: STATES[to] })),
    onError: (error, { task }) => {
      show(task.id, task.stateKey);
      setDone('');
      setUndone(t('“{name}” was not moved: {reason}', { name: task.name, reason: reason(error) }));
    },
    onSettled: () => {
      // While others are under way, it would show them where they were.
      if (queries.isMutating({ mutationKey }) <= 1) return queries.invalidateQueries({ queryKey: key });
    },
  });
  const move = (move: Move) => {
    if (move.task.stateKey !== move.to) mutation.mutate(move);
  };
  return {
    move,
    step: (id, by) => {
      // From where it is, not from where it was when it was last drawn: keys come fast.
      const task = queries.getQueryData<Graph>(key)?.entities.find((entity) => entity.id === id);
      const to = task && IN_ORDER[IN_ORDER.indexOf(task.stateKey as TaskState) + by];
      if (task && to) move({ task, to });
    },
    done,
    undone,
    forget: () => setUndone(null),
  };
}

/** Why a change of a task was refused, in words. */
function reason(error: Error): string {
  if (!(error instanceof Problem)) return t('the server did not respond. Try again.');
  if (error.code === 'version_conflict')
    return t('someone else changed it in the meantime. The current version is shown. Move it again if needed.');
  return error.status === 404 ? t('it was deleted in the meantime.') : `${error.message} (${error.code}).`;
}
