// Notices that an answer ended while the page was hidden. A hidden page gives up its connection after a while: then the run itself is asked for.
import { useEffect, useRef, useState } from 'react';
import { client, type TranscriptView, type Turn } from '../stream';
import { ENDS } from './Announcements';

/** How often a hidden page asks for the run, in milliseconds. */
const ASKED_MS = 5_000;

type Status = Turn['status'];

/** How the last answer ended that has ended since the page was hidden, until the page is seen. `onEnd` is called once for each. */
export function useReady({ active, turns }: TranscriptView, onEnd: (status: Status) => void): Status | null {
  const [ended, setEnded] = useState<Status | null>(null);
  const runId = active?.runId;
  const before = useRef(runId);
  const reported = useRef<string>(undefined);
  const report = useRef((_runId: string, _status: Status) => {});
  useEffect(() => {
    report.current = (runId, status) => {
      if (!document.hidden || reported.current === runId || !(status in ENDS)) return;
      reported.current = runId;
      setEnded(status);
      onEnd(status);
    };
  });
  // The stream reports the end while the page has its connection.
  useEffect(() => {
    const over = turns.findLast((turn) => turn.runId === before.current);
    if (over && over.runId !== runId) report.current(over.runId, over.status);
    before.current = runId;
  }, [runId, turns]);
  useEffect(() => {
    if (runId === undefined) return;
    const ask = async () => {
      if (!document.hidden || reported.current === runId) return;
      const { state } = await client.runs.get(runId);
      report.current(runId, state as Status);
    };
    // What fails is asked again.
    const timer = setInterval(() => void ask().catch(() => {}), ASKED_MS);
    return () => clearInterval(timer);
  }, [runId]);
  useEffect(() => {
    const look = () => {
      if (!document.hidden) setEnded(null);
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return ended;
}
