// Starts an evaluation of a set: which agent answers, which one judges, and by which criteria.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { api } from '../api/http';
import { useAgents } from '../chat/agents';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { BUILT_IN_JUDGE, type Detail, type EvaluationSet, refreshSet } from './evaluations';

const CRITERIA_MAX_CHARS = 4_000;
/** The agent's and the judge's. */
const RUNS_OF_A_CASE = 2;

interface RunFormProps {
  set: EvaluationSet;
  /** The set's. */
  path: string;
  onClose: () => void;
}

export function RunForm({ set, path, onClose }: RunFormProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const agents = useAgents();
  const [chosen, setChosen] = useState<string>();
  /** Empty: the built-in one. */
  const [judge, setJudge] = useState('');
  const [criteria, setCriteria] = useState('');
  // Mostly the agent that was evaluated last is evaluated again, after a change.
  const offered = [chosen, set.latest?.agentDefinitionId, agents.find(({ isDefault }) => isDefault)?.id];
  const agent = offered.find((id) => agents.some((one) => one.id === id)) ?? agents[0]?.id ?? '';
  const start = useMutation({
    mutationFn: () => {
      const body = {
        agentDefinitionId: agent,
        ...(judge !== '' && { judge }),
        ...(criteria.trim() !== '' && { criteria: criteria.trim() }),
      };
      return api<Detail>(`${path}/evaluations`, { method: 'POST', body });
    },
    onSuccess: async (evaluation) => {
      queries.setQueryData(['evaluation', set.id, evaluation.id], evaluation);
      await navigate({
        to: '/evaluations/$id/$evaluation',
        params: { id: set.id, evaluation: evaluation.id },
      });
      await refreshSet(queries, set.id);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate();
  };
  return (
    <Dialog title={t('Run evaluation')} onClose={onClose}>
      <p className="quiet">
        {t(
          'The agent answers each case, and the judge decides whether the answer passes. These are two runs for each case, {runs} in total. Tools really run.',
          { runs: RUNS_OF_A_CASE * set.cases },
        )}
      </p>
      <form className="editor" onSubmit={submit}>
        <label>
          {t('Agent')}{' '}
          <select required value={agent} onChange={(event) => setChosen(event.target.value)}>
            {agents.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t('Judge')}{' '}
          <select value={judge} onChange={(event) => setJudge(event.target.value)}>
            <option value="">{t('Built-in judge ({name})', { name: BUILT_IN_JUDGE })}</option>
            {agents
              .filter(({ name }) => name !== BUILT_IN_JUDGE)
              .map(({ id, name }) => (
                <option key={id} value={name}>
                  {name}
                </option>
              ))}
          </select>
        </label>
        <label>
          {t('Criteria')}{' '}
          <textarea
            rows={4}
            maxLength={CRITERIA_MAX_CHARS}
            placeholder={t('Optional: the properties of a good answer')}
            value={criteria}
            onChange={(event) => setCriteria(event.target.value)}
          />
        </label>
        {start.isError ? <ErrorNote error={start.error} /> : null}
        <div className="controls">
          <button type="submit" className="primary" disabled={agent === '' || start.isPending}>
            {t('Start evaluation')}
          </button>
          <button type="button" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
