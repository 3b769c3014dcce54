// Adds the questions of answers that the user rated to an evaluation set.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useAgents } from '../chat/agents';
import { Dialog } from '../ui/Dialog';
import { message, t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { addedInWords, type EvaluationSet, refreshSet } from './evaluations';

const RATINGS = [
  ['false', message('Not helpful')],
  ['true', message('Helpful')],
  ['', message('All')],
] as const;

interface FromFeedbackProps {
  set: EvaluationSet;
  /** The set's. */
  path: string;
  onClose: () => void;
}

export function FromFeedback({ set, path, onClose }: FromFeedbackProps) {
  const queries = useQueryClient();
  const agents = useAgents();
  const [helped, setHelped] = useState<string>('false');
  const [agent, setAgent] = useState('');
  const add = useMutation({
    mutationFn: () => {
      const feedback = {
        ...(helped !== '' && { helped: helped === 'true' }),
        ...(agent !== '' && { agentDefinitionId: agent }),
      };
      return api<Schemas['EvaluationCasesAdded']>(`${path}/cases`, { method: 'POST', body: { feedback } });
    },
    onSuccess: () => refreshSet(queries, set.id),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Dialog title={t('Add from feedback')} onClose={onClose}>
      <p className="quiet">
        {t(
          'Adds the questions of answers that you rated. An answer that you rated helpful becomes the expected answer.',
        )}
      </p>
      <form className="editor" onSubmit={submit}>
        <div className="fields">
          <label>
            {t('Rating')}{' '}
            <select value={helped} onChange={(event) => setHelped(event.target.value)}>
              {RATINGS.map(([value, name]) => (
                <option key={name} value={value}>
                  {t(name)}
                </option>
              ))}
            </select>
          </label>
          <label>
            {t('Agent')}{' '}
            <select value={agent} onChange={(event) => setAgent(event.target.value)}>
              <option value="">{t('All agents')}</option>
              {agents.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </div>
        {add.isError ? <ErrorNote error={add.error} /> : null}
        <div role="status">{add.data ? <p className="note">{addedInWords(add.data)}</p> : null}</div>
        <div className="controls">
          <button type="submit" className="primary" disabled={add.isPending}>
            {t('Add cases')}
          </button>
          <button type="button" onClick={onClose}>
            {t('Close')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
