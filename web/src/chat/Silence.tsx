// Says what an answer is doing while nothing of it comes, so that a slow model and a broken connection look different.
import { useEffect, useState } from 'react';
import type { Turn } from '../stream';
import { duration } from '../ui/duration';

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
  const call = turn.toolCalls.findLast(({ status }) => status === 'running');
  const what =
    turn.status === 'queued'
      ? 'Waiting for a worker'
      : turn.status === 'waiting'
        ? 'Waiting'
        : call
          ? `Running ${call.tool}`
          : 'Thinking';
  return (
    <span className="silence quiet">
      {silentMs < MENTIONED_MS ? '' : `${what}… ${duration(Math.floor(silentMs / 1_000) * 1_000)}`}
    </span>
  );
}
