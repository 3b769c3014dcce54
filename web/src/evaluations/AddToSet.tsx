// Adds a run to an evaluation set: its input becomes a question, and its answer the expected one, if the user says so.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { Dialog } from '../ui/Dialog';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { toast } from '../ui/toasts';
import { type EvaluationSet, refreshSet, useSetsPath } from './evaluations';
import { NAME_MAX_CHARS } from './SetForm';

interface AddToSetProps {
  runId: string;
  /** Whether the run has an answer. */
  hasAnswer: boolean;
  onClose: () => void;
}

export default function AddToSet({ runId, hasAnswer, onClose }: AddToSetProps) {
  const path = useSetsPath();
  const sets = usePages<EvaluationSet>(['evaluation-sets', 'all'], path, { limit: 100 });
  return (
    <Dialog title={t('Add to evaluation set')} className="narrow" onClose={onClose}>
      {sets.reading.isPending ? <Waiting what={t('evaluation sets')} /> : null}
      {sets.reading.isError ? <Failed reading={sets.reading} /> : null}
      {sets.reading.isSuccess ? (
        <>
          <Choice sets={sets.items} path={path} runId={runId} hasAnswer={hasAnswer} onClose={onClose} />
          <More of={sets} label={t('Load more sets')} />
        </>
      ) : null}
    </Dialog>
  );
}

/** The choice of a set that does not exist yet. */
const NEW = 'new';

function Choice({ sets, path, runId, hasAnswer, onClose }: AddToSetProps & { sets: EvaluationSet[]; path: string }) {
  const queries = useQueryClient();
  const [chosen, choose] = useState(sets[0]?.id ?? NEW);
  const [name, setName] = useState('');
  const [isExpected, setExpected] = useState(false);
  const add = useMutation({
    mutationFn: async () => {
      let set = sets.find(({ id }) => id === chosen);
      if (!set) {
        set = await api<EvaluationSet>(path, { method: 'POST', body: { name: name.trim() } });
        // If adding fails, the next attempt takes this set.
        await refreshSet(queries, set.id);
        choose(set.id);
      }
      const runs = { ids: [runId], ...(hasAnswer && { expectAnswers: isExpected }) };
      const body = { runs };
      const { added } = await api<Schemas['EvaluationCasesAdded']>(`${path}/${set.id}/cases`, { method: 'POST', body });
      return { set, isNew: added > 0 };
    },
    onSuccess: async ({ set: { id, name }, isNew }) => {
      toast(
        isNew
          ? t('Added to “{name}”.', { name })
          : t('Not added: “{name}” already has this run, or its texts are too long.', { name }),
        !isNew,
      );
      onClose();
      await refreshSet(queries, id);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <form className="editor" onSubmit={submit}>
      <label>
        {t('Evaluation set')}{' '}
        <select value={chosen} onChange={(event) => choose(event.target.value)}>
          {sets.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
          <option value={NEW}>{t('New evaluation set')}</option>
        </select>
      </label>
      {chosen === NEW ? (
        <label>
          {t('Name of the new set')}{' '}
          <input
            required
            pattern=".*\S.*"
            maxLength={NAME_MAX_CHARS}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
      ) : null}
      {hasAnswer ? (
        <label>
          <input type="checkbox" checked={isExpected} onChange={(event) => setExpected(event.target.checked)} />{' '}
          {t('The answer is the expected one')}
        </label>
      ) : null}
      {add.isError ? <ErrorNote error={add.error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={add.isPending}>
          {t('Add')}
        </button>
        <button type="button" onClick={onClose}>
          {t('Cancel')}
        </button>
      </div>
    </form>
  );
}
