// What can answer instead: models of the catalogue, and agents where another one may be asked.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import type { Change } from './branches';

/** Models that are offered at a time; typing narrows them. */
const OFFERED = 30;

interface Props {
  /** undefined: only models are offered. */
  agents?: readonly Schemas['AgentItem'][] | undefined;
  /** The model that is chosen already. */
  chosen?: string | undefined;
  isDisabled?: boolean;
  onChoose: (change: Change) => void;
}

export function Choices({ agents, chosen, isDisabled = false, onChoose }: Props) {
  const [words, setWords] = useState('');
  const field = useRef<HTMLInputElement>(null);
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
  const label = agents ? t('Search agents and models') : t('Search models');
  const groups: [string, { key: string; name: string; hint?: string; change: Change }[]][] = [
    [
      t('Agents'),
      (agents ?? [])
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
        aria-label={label}
        placeholder={label}
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
                  <button
                    type="button"
                    className="plain"
                    disabled={isDisabled}
                    aria-pressed={chosen === undefined ? undefined : chosen === change.model}
                    onClick={() => onChoose(change)}
                  >
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
          ? agents
            ? t('No matching agents or models.')
            : t('No matching models.')
          : ''}
      </p>
      {models.isError ? <ErrorNote error={models.error} /> : null}
    </div>
  );
}

/** The names of the models that users may choose, of providers that this server has a key of. Without any key here, the workers may have them. */
function usable({ items }: Schemas['ModelList']): string[] {
  const choosable = items.filter(({ mayChoose }) => mayChoose);
  const withKey = choosable.filter(({ hasKey }) => hasKey);
  const all = withKey.length > 0 ? withKey : choosable;
  return all.toSorted((one, other) => Number(other.isDefault) - Number(one.isDefault)).map(({ name }) => name);
}
