// Answers a message again in a branch: by the same agent, or by another agent or model.
import { useQuery } from '@tanstack/react-query';
import { ChevronDown, RefreshCw } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { useAgents } from './agents';
import { type Change, useBranching } from './branches';

/** Models that are offered at a time; typing narrows them. */
const OFFERED = 30;

export function Regenerate({ runId }: { runId: string }) {
  const branch = useBranching();
  const [isChoosing, setChoosing] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const again = async (change?: Change) => {
    setError(null);
    setAsking(true);
    try {
      await branch(runId, change);
    } catch (refusal) {
      setError(refusal);
    } finally {
      setAsking(false);
    }
  };
  return (
    <>
      <IconButton
        icon={RefreshCw}
        label={t('Regenerate in a new branch')}
        disabled={isAsking}
        onClick={() => void again()}
      />
      <IconButton
        icon={ChevronDown}
        label={t('Regenerate with another agent or model')}
        aria-haspopup="dialog"
        onClick={() => {
          setError(null);
          setChoosing(true);
        }}
      />
      {isChoosing ? (
        <Dialog title={t('Regenerate with another agent or model')} onClose={() => setChoosing(false)}>
          {error ? <ErrorNote error={error} /> : null}
          <Choices isDisabled={isAsking} onChoose={(change) => void again(change)} />
        </Dialog>
      ) : error ? (
        <ErrorNote error={error} />
      ) : null}
    </>
  );
}

function Choices({ isDisabled, onChoose }: { isDisabled: boolean; onChoose: (change: Change) => void }) {
  const [words, setWords] = useState('');
  const field = useRef<HTMLInputElement>(null);
  const agents = useAgents();
  const models = useQuery({
    queryKey: ['models'],
    queryFn: () => api<Schemas['ModelList']>('/api/models'),
    staleTime: 600_000,
    select: usable,
  });
  // A dialog that opens gives the focus to its first button.
  useEffect(() => field.current?.focus(), []);
  const fits = (name: string) => name.toLowerCase().includes(words.trim().toLowerCase());
  const found = (models.data ?? []).filter(fits);
  const groups: [string, { key: string; name: string; hint?: string; change: Change }[]][] = [
    [
      t('Agents'),
      agents
        .filter(({ name }) => fits(name))
        .map(({ id, name, description }) => ({ key: id, name, hint: description, change: { agentDefinitionId: id } })),
    ],
    [t('Models'), found.slice(0, OFFERED).map((model) => ({ key: model, name: model, change: { model } }))],
  ];
  return (
    <div className="alternatives">
      <input
        ref={field}
        type="search"
        aria-label={t('Search agents and models')}
        placeholder={t('Search agents and models')}
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {groups.map(([group, choices]) =>
        choices.length === 0 ? null : (
          <section key={group} aria-label={group}>
            <h3>{group}</h3>
            <ul>
              {choices.map(({ key, name, hint, change }) => (
                <li key={key}>
                  <button type="button" className="plain" disabled={isDisabled} onClick={() => onChoose(change)}>
                    <bdi>{name}</bdi>{' '}
                    <span className="quiet" dir="auto">
                      {hint}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ),
      )}
      <p className="quiet" role="status">
        {found.length > OFFERED
          ? t('{count, plural, other {# more models. Type to find them.}}', { count: found.length - OFFERED })
          : ''}
        {models.isSuccess && groups.every(([, choices]) => choices.length === 0)
          ? t('No matching agents or models.')
          : ''}
      </p>
      {models.isError ? <ErrorNote error={models.error} /> : null}
    </div>
  );
}

/** The names of the models of providers that this server has a key of. Without any key here, the workers may have them. */
function usable({ items }: Schemas['ModelList']): string[] {
  const withKey = items.filter(({ hasKey }) => hasKey);
  const all = withKey.length > 0 ? withKey : items;
  return all.toSorted((one, other) => Number(other.isDefault) - Number(one.isDefault)).map(({ name }) => name);
}
