// Reads the raw log of a run with its event numbers. The client's `Transcript` turns events into a view.
import { type RejoinError, Transcript, type TranscriptView, type WireEvent } from '@rejoin/client';
import { useEffect, useState } from 'react';
import { client } from '../stream';
import { t } from '../ui/language';

export interface Entry {
  /** Its number in the log. */
  seq: number;
  event: WireEvent;
}

export interface RunLog {
  entries: Entry[];
  /** No more will come. */
  isOver: boolean;
  error: RejoinError | undefined;
}

const NOTHING: RunLog = { entries: [], isOver: false, error: undefined };

/** All events of a run, as they come. */
export function useRunLog(runId: string): RunLog {
  const [log, setLog] = useState<RunLog>(NOTHING);
  useEffect(() => {
    const entries: Entry[] = [];
    let frame: number | undefined;
    const update = () => {
      frame ??= requestAnimationFrame(() => {
        frame = undefined;
        setLog({ entries: entries.slice(), isOver: follower.status === 'ended', error: follower.error });
      });
    };
    const follower = client.follow(
      { runId },
      {
        from: 'beginning',
        onStatus: update,
        onEvent: (event, seq) => {
          if (seq === undefined || seq <= (entries.at(-1)?.seq ?? 0)) return;
          entries.push({ seq, event });
          update();
        },
      },
    );
    return () => {
      follower.close();
      if (frame !== undefined) cancelAnimationFrame(frame);
      setLog(NOTHING);
    };
  }, [runId]);
  return log;
}

/**
 * What a reader would have shown at any event: forward event by event, back from the beginning. The entries may grow at their end, no
 * more.
 */
export class Replay {
  #transcript = new Transcript();
  #shown = 0;

  /** After the first `count` of the entries. */
  after(count: number, entries: readonly Entry[]): TranscriptView {
    if (count < this.#shown) {
      this.#transcript = new Transcript();
      this.#shown = 0;
    }
    for (; this.#shown < count; this.#shown++) {
      const entry = entries[this.#shown];
      if (entry) this.#transcript.apply(entry.seq, entry.event);
    }
    return this.#transcript.getSnapshot();
  }
}

export interface Attempt {
  runId: string;
  /** Of a sub-agent's. */
  agent: string | undefined;
  attempt: number;
  /** Where it begins. */
  seq: number;
  /** Why the one before was lost. */
  reason: string | undefined;
}

/** Each `reset` begins an attempt: its number, and the events that it has taken back. */
export function attemptsOf(entries: readonly Entry[]): { attempts: Attempt[]; taken: Set<number> } {
  const attempts: Attempt[] = [];
  const taken = new Set<number>();
  for (const { seq, event } of entries) {
    if (
      event.type === 'meta' &&
      'attempt' in event &&
      attempts.at(-1)?.attempt !== event.attempt &&
      !event.parentRunId
    ) {
      attempts.push({
        runId: String(event.runId),
        agent: undefined,
        attempt: Number(event.attempt ?? 1),
        seq,
        reason: undefined,
      });
    }
    if (event.type !== 'reset' || !('discardAfter' in event)) continue;
    const { discardAfter, runId, parentRunId, agent, attempt, reason } = event;
    attempts.push({
      runId: String(runId),
      agent: parentRunId ? String(agent ?? t('sub-agent')) : undefined,
      attempt: Number(attempt),
      seq,
      reason: String(reason),
    });
    for (const other of entries) {
      if (other.seq >= seq) break;
      if (other.seq > Number(discardAfter) && 'runId' in other.event && other.event.runId === runId)
        taken.add(other.seq);
    }
  }
  return { attempts, taken };
}

const ENVELOPE = new Set(['type', 'runId', 'parentRunId', 'source']);
const PREVIEW_MAX_CHARS = 160;

/** The fields of an event in one line. */
export function preview(event: WireEvent): string {
  const fields = Object.entries(event).filter(([name]) => !ENVELOPE.has(name));
  const words = fields.map(([name, value]) =>
    fields.length === 1 && typeof value === 'string' ? JSON.stringify(value) : `${name}: ${JSON.stringify(value)}`,
  );
  const line = words.join('  ');
  return line.length > PREVIEW_MAX_CHARS ? `${line.slice(0, PREVIEW_MAX_CHARS)}…` : line;
}
