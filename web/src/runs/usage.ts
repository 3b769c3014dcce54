// What a run or a model call used, for people.
import type { Schemas } from '../api/http';

export type Usage = Schemas['UsageTotals'];

type Used = Pick<Schemas['RunBody'], 'usage'>;

/** The sums of a run; the API's document leaves their fields open. */
export function usageOf({ usage }: Used): Usage {
  return (usage as Usage | null) ?? {};
}

export function tokensOf(run: Used): string {
  return count(usageOf(run).totalTokens);
}

export function costOf(run: Used): string {
  return dollars(usageOf(run).costUsd);
}

export function count(tokens: number | undefined): string {
  return tokens?.toLocaleString('en') ?? '—';
}

export function dollars(cost: number | undefined): string {
  return cost ? `$${cost.toFixed(cost < 0.01 ? 4 : 2)}` : '—';
}

/** The input that the provider had in its cache, with its share. */
export function cacheHits({ inputTokens, cachedTokens }: Usage): string {
  if (!inputTokens) return '—';
  const cached = cachedTokens ?? 0;
  return cached === 0 ? 'None' : `${count(cached)} (${Math.round((100 * cached) / inputTokens)} %)`;
}

const SUMS = [
  'inputTokens',
  'outputTokens',
  'totalTokens',
  'cachedTokens',
  'cacheWriteTokens',
  'reasoningTokens',
  'costUsd',
] as const;

/** What came between two sums of a run. */
export function difference(later: Usage, earlier: Usage): Usage {
  const between: Usage = {};
  for (const name of SUMS) {
    const value = later[name];
    if (value !== undefined) between[name] = value - (earlier[name] ?? 0);
  }
  return between;
}
