// Says what an answer is doing while nothing of it comes, so that a slow model and a broken connection look different.
import { useEffect, useState } from 'react';
import type { Turn } from '../stream';
import { duration } from '../ui/duration';
import { t } from '../ui/language';

/** Shorter silences are not mentioned, in milliseconds. */
const MENTIONED_MS = 2_000;

export function Silence({ turn }: { turn: Turn }) {
  const [silentMs, setSilentMs] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each event makes another turn, which ends the silence.
  useEffect(() => {
    const since = Date.now();
    setSilentMs(0);
    const timer = setInterval(() => setSilentMs(Date.now() - since), 1_000);
    return () => clearInterval(timer);
  }, [turn]);
  return (
    <span className="silence quiet">
      {silentMs < MENTIONED_MS ? '' : doing(turn, duration(Math.floor(silentMs / 1_000) * 1_000))}
    </span>
  );
}

/** What the turn is doing, and for how long. */
function doing(turn: Turn, time: string): string {
  if (turn.status === 'queued') return t('Waiting for a worker… {time}', { time });
  if (turn.status === 'waiting') return t('Waiting… {time}', { time });
  const call = turn.toolCalls.findLast(({ status }) => status === 'running');
  return call ? t('Running {tool}… {time}', { tool: call.tool, time }) : t('Thinking… {time}', { time });
}
