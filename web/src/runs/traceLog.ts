// What the log of a run adds to its records: the usage of each model call, the resets, and the text that was streamed before the run ended.
import type { Transcript, WireEvent } from '@rejoin/client';
import { useEffect, useState } from 'react';
import { client } from '../stream';
import { difference, type Usage } from './usage';

/** A new attempt of a run, which has discarded what the one before did not store. */
export interface Reset {
  runId: string;
  /** Its number in the log. */
  seq: number;
  attempt: number;
  reason: string;
  /** The step that the attempt begins with. */
  step: number;
  /** How many events were discarded. */
  discarded: number;
}

export interface TraceLog {
  /** Of the model calls, by run and step: `stepKey`. */
  used: ReadonlyMap<string, Usage>;
  resets: readonly Reset[];
  /** Of the run's answer, once the log has ended. */
  text: string;
}

const NOTHING: TraceLog = { used: new Map(), resets: [], text: '' };

export function stepKey(runId: string, step: number): string {
  return `${runId} ${step}`;
}

/** Follows the log of a run and of those that it started. `turn`: another one after the run was resumed, whose log has ended before. */
export function useTraceLog(runId: string, turn: number): TraceLog {
  const [log, setLog] = useState(NOTHING);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn is followed by itself.
  useEffect(() => {
    const folded = new Folded();
    let frame: number | undefined;
    const update = () => {
      frame ??= requestAnimationFrame(() => {
        frame = undefined;
        setLog(folded.read(follower.status === 'ended' ? follower.transcript : undefined, runId));
      });
    };
    const follower = client.follow(
      { runId },
      {
        from: 'beginning',
        onStatus: update,
        onEvent: (event, seq) => {
          if (seq !== undefined && folded.add(seq, event)) update();
        },
      },
    );
    return () => {
      follower.close();
      if (frame !== undefined) cancelAnimationFrame(frame);
      setLog(NOTHING);
    };
  }, [runId, turn]);
  return log;
}

interface Seen {
  /** The sums after its last step. */
  sums: Usage;
  steps: number;
  /** The numbers of its events. */
  seqs: number[];
}

class Folded {
  #runs = new Map<string, Seen>();
  #used = new Map<string, Usage>();
  #resets: Reset[] = [];
  #last = 0;

  /** Takes an event in. True: it adds to the trace. */
  add(seq: number, event: WireEvent): boolean {
    if (seq <= this.#last || !('runId' in event) || typeof event.runId !== 'string') return false;
    this.#last = seq;
    const { runId } = event;
    const run = this.#runs.get(runId) ?? { sums: {}, steps: 0, seqs: [] };
    this.#runs.set(runId, run);
    if (event.type === 'usage' && 'steps' in event) {
      this.#used.set(stepKey(runId, event.steps), difference(event, run.sums));
      Object.assign(run, { sums: event, steps: event.steps });
      return true;
    }
    if (event.type !== 'reset' || !('discardAfter' in event)) {
      run.seqs.push(seq);
      return false;
    }
    const kept = run.seqs.filter((one) => one <= event.discardAfter);
    const { attempt, reason } = event;
    this.#resets.push({ runId, seq, attempt, reason, step: run.steps + 1, discarded: run.seqs.length - kept.length });
    run.seqs = kept;
    return true;
  }

  read(transcript: Transcript | undefined, runId: string): TraceLog {
    return { used: new Map(this.#used), resets: this.#resets.slice(), text: transcript?.turn(runId)?.text ?? '' };
  }
}
