// What a run or a model call used, for people.
import type { Schemas } from '../api/http';
import { LOCALE, number, t } from '../ui/language';

export type Usage = Schemas['UsageTotals'];

type Used = Pick<Schemas['RunBody'], 'usage'>;

/** The sums of a run; the API's document leaves their fields open. */
export function usageOf({ usage }: Used): Usage {
  return (usage as Usage | null) ?? {};
}

const CENTS = dollarFormat(2);
const FRACTIONS = dollarFormat(4);

function dollarFormat(digits: number): Intl.NumberFormat {
  return new Intl.NumberFormat(LOCALE, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    useGrouping: false,
  });
}

export function tokensOf(run: Used): string {
  return count(usageOf(run).totalTokens);
}

export function costOf(run: Used): string {
  return dollars(usageOf(run).costUsd);
}

export function count(tokens: number | undefined): string {
  return typeof tokens === 'number' ? number(tokens) : '—';
}

export function dollars(cost: number | undefined): string {
  return cost ? (cost < 0.01 ? FRACTIONS : CENTS).format(cost) : '—';
}

/** For comparisons: also of nothing, and small differences are seen. */
export function exactDollars(cost: number | undefined): string {
  return cost === undefined ? '—' : FRACTIONS.format(cost);
}

/** The input that the provider had in its cache, with its share. */
export function cacheHits({ inputTokens, cachedTokens }: Usage): string {
  if (!inputTokens) return '—';
  const cached = cachedTokens ?? 0;
  if (cached === 0) return t('None');
  return t('{tokens} ({share} %)', { tokens: cached, share: Math.round((100 * cached) / inputTokens) });
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
