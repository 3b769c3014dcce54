// The filters above the list of runs. The address holds them; what is typed follows after a pause.
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { t } from '../ui/language';
import { ORDERS, PERIODS, type RunFilters, STATES } from './filters';

/** Pause in typing after which the address follows, in milliseconds. */
const TYPING_MS = 300;
/** The maximum of the API. */
const SEARCH_MAX_CHARS = 200;
/** The maximum of a page. */
const AGENTS_MAX = 200;

interface FilterFormProps {
  filters: RunFilters;
  /** The agents of the listed runs: some cannot be chosen for a chat, and some were deleted. */
  seenAgents: readonly string[];
  /** What is in the search field, which the address does not hold yet. */
  words: string;
  onWords: (words: string) => void;
}

export function FilterForm({ filters, seenAgents, words, onWords }: FilterFormProps) {
  const me = useMe();
  const navigate = useNavigate({ from: '/runs' });
  const { agent, state, period, since, until, q = '', order } = filters;
  const agents = useQuery({
    queryKey: ['agents', 'names'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=${AGENTS_MAX}`),
    staleTime: 60_000,
  });
  const known = agents.data?.items.map(({ name }) => name) ?? [];
  const names = new Set([...known, ...seenAgents, ...(agent ? [agent] : [])]);
  const change = (to: RunFilters, replace = false) => void navigate({ search: (now) => ({ ...now, ...to }), replace });
  /** The words that the address got from the field last: other ones come from a link, and belong into the field. */
  const written = useRef(q);
  useEffect(() => {
    if (q === written.current) return;
    written.current = q;
    onWords(q);
  }, [q, onWords]);
  useEffect(() => {
    if (words.trim() === written.current) return;
    const timer = setTimeout(() => {
      written.current = words.trim();
      void navigate({ search: (now) => ({ ...now, q: words.trim() || undefined }), replace: true });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [navigate, words]);
  return (
    <search className="filters" aria-label={t('Filters')}>
      <label className="fill">
        {t('Search')}{' '}
        <input
          type="search"
          value={words}
          placeholder={t('ID, agent, model, input, output or error')}
          maxLength={SEARCH_MAX_CHARS}
          autoComplete="off"
          onChange={(event) => onWords(event.currentTarget.value)}
        />
      </label>
      <label>
        {t('State')}{' '}
        <select
          value={state ?? ''}
          onChange={(event) => change({ state: STATES.find((name) => name === event.target.value) })}
        >
          <option value="">{t('All')}</option>
          {STATES.map((name) => (
            <option key={name} value={name}>
              {t(name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t('Agent')}{' '}
        <select value={agent ?? ''} onChange={(event) => change({ agent: event.target.value || undefined })}>
          <option value="">{t('All')}</option>
          {[...names].sort().map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        {t('Time')}{' '}
        <select
          value={period ?? ''}
          onChange={(event) => {
            const chosen = [...PERIODS.map(([name]) => name), 'custom' as const].find(
              (name) => name === event.target.value,
            );
            change({ period: chosen, since: undefined, until: undefined });
          }}
        >
          <option value="">{t('Any')}</option>
          {PERIODS.map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
          <option value="custom">{t('Custom')}</option>
        </select>
      </label>
      {period === 'custom' ? (
        <>
          <Moment label={t('From')} value={since} max={until} onChange={(moment) => change({ since: moment }, true)} />
          <Moment label={t('To')} value={until} min={since} onChange={(moment) => change({ until: moment }, true)} />
        </>
      ) : null}
      <label>
        <input
          type="checkbox"
          checked={state === 'failed'}
          onChange={(event) => change({ state: event.target.checked ? 'failed' : undefined })}
        />{' '}
        {t('Failed only')}
      </label>
      <label>
        {t('Order')}{' '}
        <select
          value={order ?? ''}
          onChange={(event) => change({ order: ORDERS.find(([name]) => name === event.target.value)?.[0] })}
        >
          <option value="">{t('Newest first')}</option>
          {ORDERS.map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}

interface MomentProps {
  label: string;
  value: string | undefined;
  min?: string | undefined;
  max?: string | undefined;
  onChange: (moment: string | undefined) => void;
}

/** A day and a time in this browser's time zone. */
function Moment({ label, value, min, max, onChange }: MomentProps) {
  const [typed, setTyped] = useState('');
  useEffect(() => setTyped(local(value) ?? ''), [value]);
  return (
    <label>
      {label}{' '}
      <input
        type="datetime-local"
        value={typed}
        min={local(min)}
        max={local(max)}
        onChange={({ currentTarget }) => {
          setTyped(currentTarget.value);
          onChange(currentTarget.value === '' ? undefined : new Date(currentTarget.value).toISOString());
        }}
      />
    </label>
  );
}

function local(moment: string | undefined): string | undefined {
  if (moment === undefined) return undefined;
  const at = new Date(moment);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
