/** Events of logs, and functions that fold them, for the tests of the transcript. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { Turn } from '../src/view.js';
import type { WireEvent } from '../src/wire.js';
import type { Log } from './reference.js';
import { snapshot } from './reference.js';

/** A run of a real server whose worker was killed in mid-answer. */
export const recorded = JSON.parse(readFileSync(new URL('recorded.json', import.meta.url), 'utf8')) as Log;
export const recordedRun = (recorded[0]![1] as { runId: string }).runId;

/** Folds a log. */
export function fold(log: Log, into = new Transcript()): Transcript {
  for (const [seq, event] of log) expect(into.apply(seq, event), `event ${seq}`).toBe(true);
  return into;
}

/** Joins by a snapshot after `cut` events and goes on, as a connection does. */
export function joinAt(log: Log, cut: number, into = new Transcript()): Transcript {
  let at = cut;
  into.apply(log[at - 1]?.[0] ?? 0, snapshot(log.slice(0, at)));
  while (at < log.length) {
    const [seq, event] = log[at]!;
    at++;
    if (!into.apply(seq, event)) into.apply(seq, snapshot(log.slice(0, at)));
  }
  return into;
}

/** Numbers the events of one log. */
export const numbered = (events: object[]): Log => events.map((event, index) => [index + 1, event as WireEvent]);
/** A stored message, as an event. */
export const message = (content: string, runId = 'r', role = 'user', id = `${role} ${content}`) => ({
  type: 'message',
  runId,
  message: { id, role, content, createdAt: '2026-01-01T00:00:00Z' },
});
export const token = (token: string, runId = 'r', more = {}) => ({ type: 'token', runId, token, ...more });
export const meta = (runId = 'r', attempt = 1) => ({
  type: 'meta',
  runId,
  agent: 'ada',
  model: 'm',
  citations: [],
  attempt,
});
export const done = (status = 'completed', runId = 'r') => ({ type: 'done', runId, status });
/** The fields that mark an event as one of a sub-agent. */
export const sub = { agent: 'bea', parentRunId: 'r', source: 'sub_agent' };
/** The only turn of a transcript. */
export const only = (transcript: Transcript): Turn => {
  const { turns } = transcript.getSnapshot();
  expect(turns).toHaveLength(1);
  return turns[0]!;
};
