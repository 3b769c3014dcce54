// Creates an evaluation set, or changes its name and description.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api } from '../api/http';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { type EvaluationSet, refreshSet, useSetsPath } from './evaluations';

export const NAME_MAX_CHARS = 100;
const DESCRIPTION_MAX_CHARS = 4_000;

interface SetFormProps {
  /** null: a new one. */
  set: EvaluationSet | null;
  onClose: () => void;
  onSaved?: (set: EvaluationSet) => void;
}

export function SetForm({ set, onClose, onSaved }: SetFormProps) {
  const queries = useQueryClient();
  const path = useSetsPath();
  const [name, setName] = useState(set?.name ?? '');
  const [description, setDescription] = useState(set?.description ?? '');
  const save = useMutation({
    mutationFn: () => {
      const body = { name: name.trim(), description: description.trim() };
      return set
        ? api<EvaluationSet>(`${path}/${set.id}`, { method: 'PATCH', body })
        : api<EvaluationSet>(path, { method: 'POST', body });
    },
    onSuccess: async (stored) => {
      onClose();
      onSaved?.(stored);
      await refreshSet(queries, stored.id);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={set ? t('Edit evaluation set') : t('New evaluation set')} onClose={onClose}>
      <form className="editor" onSubmit={submit}>
        <label>
          {t('Name')}{' '}
          <input
            autoFocus
            required
            pattern=".*\S.*"
            maxLength={NAME_MAX_CHARS}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        <label>
          {t('Description')}{' '}
          <textarea
            rows={3}
            maxLength={DESCRIPTION_MAX_CHARS}
            placeholder={t('Optional')}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
          />
        </label>
        {save.isError ? <ErrorNote error={save.error} /> : null}
        <div className="controls">
          <button type="submit" className="primary" disabled={save.isPending}>
            {set ? t('Save') : t('Create evaluation set')}
          </button>
          <button type="button" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
