// Creates a task in a column of the board. If the board is filtered by a plan or goal, the task is linked to it.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { type FormEvent, useRef, useState } from 'react';
import { api } from '../api/http';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { type Entity, graphKey, type Narrowed, STATES, type TaskState } from './board';
import { FROM_HERE } from './moves';

interface NewTaskProps {
  project: string;
  state: TaskState;
  narrowed: Narrowed;
}

export function NewTask({ project, state, narrowed }: NewTaskProps) {
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [title, setTitle] = useState('');
  const opener = useRef<HTMLButtonElement>(null);
  const make = useMutation({
    mutationFn: async (title: string) => {
      const task = await api<Entity>('/api/onto/tasks/create', {
        method: 'POST',
        body: { projectId: project, title, stateKey: state },
        headers: FROM_HERE,
      });
      setTitle('');
      const links = [
        ['in_plan', narrowed.plan],
        ['supports_goal', narrowed.goal],
      ] as const;
      for (const [type, targetId] of links) {
        if (targetId === undefined) continue;
        await api('/api/onto/edges/link', {
          method: 'POST',
          body: { type, sourceId: task.id, targetId },
          headers: FROM_HERE,
        }).catch((error: unknown) => {
          throw new Error(
            t('“{title}” was created, but could not be linked to the selected plan or goal: {reason}', {
              title,
              reason: error instanceof Error ? error.message : t('something went wrong'),
            }),
          );
        });
      }
    },
    onSettled: () => queries.invalidateQueries({ queryKey: graphKey(project) }),
  });
  if (!isOpen) {
    return (
      <button
        ref={opener}
        type="button"
        className="plain small"
        aria-label={t('New task in {state}', { state: STATES[state] })}
        onClick={() => setOpen(true)}
      >
        <Plus className="icon" /> {t('New task')}
      </button>
    );
  }
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (title.trim() !== '' && !make.isPending) make.mutate(title.trim());
  };
  return (
    <form
      className="new-task"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        setOpen(false);
        // The button is there again with the next picture.
        requestAnimationFrame(() => opener.current?.focus());
      }}
    >
      {/* The user has just opened the field: the focus is expected there. */}
      <input
        autoFocus
        required
        aria-label={t('Title of the new task in {state}', { state: STATES[state] })}
        placeholder={t('What needs to be done')}
        value={title}
        onChange={(event) => setTitle(event.target.value)}
      />
      <div className="controls">
        <button type="submit" className="small primary" disabled={make.isPending}>
          {t('Create task')}
        </button>
        <button type="button" className="plain small" onClick={() => setOpen(false)}>
          {t('Close')}
        </button>
      </div>
      {make.isError ? <ErrorNote error={make.error} /> : null}
    </form>
  );
}
