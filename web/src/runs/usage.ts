// What a run used, for people.
import type { Schemas } from '../api/http';

interface Usage {
  totalTokens?: number;
  costUsd?: number;
}

type Used = Pick<Schemas['RunBody'], 'usage'>;

export function tokensOf({ usage }: Used): string {
  return (usage as Usage | null)?.totalTokens?.toLocaleString('en') ?? '—';
}

export function costOf({ usage }: Used): string {
  const cost = (usage as Usage | null)?.costUsd;
  return cost ? `$${cost.toFixed(cost < 0.01 ? 4 : 2)}` : '—';
}
