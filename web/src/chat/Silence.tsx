// Says what an answer is doing while nothing of it comes, so that a slow model and a broken connection look different.
import { useEffect, useRef, useState } from 'react';
import type { Turn } from '../stream';
import { duration } from '../ui/duration';
import { t } from '../ui/language';

/** How often the silence is measured, in milliseconds. */
const LOOK_MS = 1_000;
/** Shorter silences are not mentioned, in milliseconds. */
const MENTIONED_MS = 2_000;

export function Silence({ turn }: { turn: Turn }) {
  const [silentMs, setSilentMs] = useState(0);
  const since = useRef(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each event makes another turn, which ends the silence.
  useEffect(() => {
    since.current = Date.now();
    setSilentMs(0);
  }, [turn]);
  // One timer for all turns: an answer may change with each frame.
  useEffect(() => {
    const look = () => setSilentMs(Math.floor((Date.now() - since.current) / LOOK_MS) * LOOK_MS);
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return <span className="silence quiet">{silentMs < MENTIONED_MS ? '' : doing(turn, duration(silentMs))}</span>;
}

/** What the turn is doing, and for how long. */
function doing(turn: Turn, time: string): string {
  if (turn.status === 'queued') return t('Waiting for a worker… {time}', { time });
  if (turn.status === 'waiting') return t('Waiting… {time}', { time });
  const call = turn.toolCalls.findLast(({ status }) => status === 'running');
  return call ? t('Running {tool}… {time}', { tool: call.tool, time }) : t('Thinking… {time}', { time });
}
