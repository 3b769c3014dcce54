// The filters and the order of the list of runs, as its address and saved views hold them.
import { t } from '../ui/language';

export const STATES = ['queued', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled'] as const;

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** How far back the list reaches: the name in the address, the label, and the time. */
export const PERIODS = [
  ['hour', t('Last hour'), HOUR_MS],
  ['day', t('Last 24 hours'), 24 * HOUR_MS],
  ['week', t('Last 7 days'), 7 * 24 * HOUR_MS],
  ['month', t('Last 30 days'), 30 * 24 * HOUR_MS],
] as const;

/** Orders besides the newest first: the name in the address and the API, and the label. */
export const ORDERS = [
  ['longest', t('Longest first')],
  ['mostExpensive', t('Most expensive first')],
] as const;

type Period = (typeof PERIODS)[number][0] | 'custom';

export interface RunFilters {
  agent?: string | undefined;
  state?: (typeof STATES)[number] | undefined;
  period?: Period | undefined;
  /** Of the period `custom`: moments, as ISO 8601. */
  since?: string | undefined;
  until?: string | undefined;
  /** Words that the id, the agent, the model, the input, the output or the error contains. */
  q?: string | undefined;
  /** Absent: the newest first. */
  order?: (typeof ORDERS)[number][0] | undefined;
}

/** Reads filters from an address or from the browser's storage; what is unknown is left out. */
export function filtersOf(search: Record<string, unknown>): RunFilters {
  const period = search.period === 'custom' ? 'custom' : PERIODS.find(([name]) => name === search.period)?.[0];
  return {
    agent: text(search.agent),
    state: STATES.find((state) => state === search.state),
    period,
    since: period === 'custom' ? moment(search.since) : undefined,
    until: period === 'custom' ? moment(search.until) : undefined,
    q: text(search.q)?.trim() || undefined,
    order: ORDERS.find(([name]) => name === search.order)?.[0],
  };
}

const NAMES = ['agent', 'state', 'period', 'since', 'until', 'q', 'order'] as const;

export function isFiltered(filters: RunFilters): boolean {
  return NAMES.some((name) => filters[name] !== undefined);
}

export function isSame(one: RunFilters, other: RunFilters): boolean {
  return NAMES.every((name) => one[name] === other[name]);
}

/** What the API is asked for. */
export function parametersOf(filters: RunFilters, now: number): Record<string, string | undefined> {
  const { agent, state, period, since, until, q, order } = filters;
  const back = PERIODS.find(([name]) => name === period)?.[2];
  // By whole minutes: all pages of a list begin with the same moment.
  const from = back && new Date(Math.floor(now / MINUTE_MS) * MINUTE_MS - back).toISOString();
  return { agent, state, since: from || since, until, q, order, topLevel: 'true' };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function moment(value: unknown): string | undefined {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? value : undefined;
}
