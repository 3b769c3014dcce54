/** Outcomes, calls that are held, errors, pauses and the clock. */
import { describe, expect, test } from 'vitest';
import { clock } from '../src/clock.js';
import { errorOf, RetryCall, ToolFailure } from '../src/errors.js';
import { HeldCalls, renewed } from '../src/heldCalls.js';
import { Pauses } from '../src/limits.js';
import { failed, OUTPUT_MAX_BYTES, ofError, ofResult, TEXT_MAX, text } from '../src/outcomes.js';
import type { ClaimedCall } from '../src/requests.js';

describe('outcomes', () => {
  test('results become JSON', () => {
    const completed = (output: unknown) => ({ kind: 'completed', output });
    expect(ofResult({ at: new Date(0), none: undefined, nan: Number.NaN })).toEqual(
      completed({ at: '1970-01-01T00:00:00.000Z', nan: null }),
    );
    expect(ofResult(undefined)).toEqual(completed(null));
    expect(ofResult('half \ud83d, whole 😀, escaped \\ud83d')).toEqual(
      completed('half \uFFFD, whole 😀, escaped \\ud83d'),
    );
    const large = 'The tool has completed, but its output has 1000002 bytes, and the limit is 1000000.';
    expect(ofResult('x'.repeat(OUTPUT_MAX_BYTES))).toEqual(failed(large));
  });

  test.each([
    [() => undefined, 'it is a function'],
    [{ seen: new Map() }, 'a Map; use Object.fromEntries(map)'],
    [[new Set()], 'a Set; use [...set]'],
    [{ later: Promise.resolve(1) }, 'a Promise; await it'],
    [1n, 'BigInt'],
  ])('a result that is not JSON is explained: %o', (result, why) => {
    expect(ofResult(result)).toMatchObject({
      kind: 'failed',
      error: expect.stringContaining(`its output is not JSON: `),
    });
    expect(ofResult(result)).toMatchObject({ error: expect.stringContaining(why) });
  });

  test('errors become texts for the model', () => {
    class OwnError extends Error {}
    expect(ofError(new ToolFailure('There is no order.'))).toEqual(failed('There is no order.'));
    expect(ofError(new RetryCall('busy'))).toEqual(failed('busy', true));
    expect(ofError(new RangeError('7'))).toEqual(failed('RangeError: 7'));
    expect(ofError(new OwnError('7'))).toEqual(failed('OwnError: 7'));
    expect(ofError(new Error())).toEqual(failed('Error'));
    expect(ofError('text')).toEqual(failed('text'));
    expect(ofError(Object.create(null))).toEqual(failed(''));
    expect(text('a\0\ud800')).toBe('a\uFFFD\uFFFD');
    expect(text('x'.repeat(TEXT_MAX * 2))).toHaveLength(TEXT_MAX);
  });
});

describe('calls that are held', () => {
  const call = (id: string, attempt = 1): ClaimedCall => ({
    ...{
      id,
      attempt,
      tool: 'refund',
      version: '1',
      input: {},
      idempotencyKey: id,
      timeoutS: 60,
      checkpoint: null,
      steps: 0,
    },
  });
  const done = { kind: 'completed', output: 1 } as const;

  test('a call occupies a slot until it is removed', () => {
    const held = new HeldCalls(2);
    const first = held.add(call('a'), 'w', 10)!;
    expect(held.add(call('a'), 'w', 10)).toBeUndefined();
    const second = held.add(call('a', 2), 'w', 10)!;
    expect([held.free, held.earlier(second)]).toEqual([0, [first]]);
    first.askToStop('lost');
    expect([held.free, held.toRenew()]).toEqual([0, [second]]);
    held.remove(first);
    expect(held.free).toBe(1);
  });

  test('a heartbeat renews leases, and stops what is cancelled or lost', () => {
    const held = new HeldCalls(9);
    const [a, b, c] = ['a', 'b', 'c'].map((id) => held.add(call(id), 'w', 10)!);
    expect(renewed([a!, b!, c!], { cancelled: ['b'], lost: ['c'] }, 99)).toEqual([
      [b, 'cancelled'],
      [c, 'lost'],
    ]);
    expect([a, b, c].map((one) => one!.leaseUntilMs)).toEqual([99, 10, 10]);
  });

  test('of a call that is void nothing is recorded, and it remains void', () => {
    const interrupted = { kind: 'interrupted' } as const;
    const recorded = (...stops: ('cancelled' | 'timed out' | 'leaving' | 'lost')[]) => {
      const held = new HeldCalls(1).add(call('a'), 'w', 10)!;
      for (const why of stops) held.askToStop(why);
      return [held.toRecord(done), held.toRecord(interrupted)];
    };
    const late = failed('The tool did not end within 60 s and was stopped. It may have had an effect.');
    expect(recorded()).toEqual([done, undefined]);
    expect(recorded('cancelled')).toEqual([undefined, undefined]);
    expect(recorded('lost', 'timed out')).toEqual([undefined, undefined]);
    expect(recorded('timed out', 'lost')).toEqual([undefined, undefined]);
    expect(recorded('timed out')).toEqual([done, late]);
    expect(recorded('timed out', 'leaving')).toEqual([done, late]);
    expect(recorded('leaving')).toEqual([done, undefined]);
  });

  test('a function that waits hands its call back also if it should stop', () => {
    const waits = { kind: 'suspended', steps: [{ number: 1, name: 'sleep', wait: {} }] } as const;
    const recorded = (why: 'cancelled' | 'timed out' | 'leaving' | 'lost') => {
      const held = new HeldCalls(1).add(call('a'), 'w', 10)!;
      held.askToStop(why);
      return held.toRecord(waits);
    };
    expect([recorded('timed out'), recorded('leaving')]).toEqual([waits, waits]);
    expect([recorded('cancelled'), recorded('lost')]).toEqual([undefined, undefined]);
  });
});

describe('errors', () => {
  test('a problem of the API has its code, and advice', () => {
    const error = errorOf(403, '{"code": "missing_scope", "detail": "no"}', null);
    expect(error.message).toBe(
      'no (403 missing_scope); the key lacks the required scope; `rejoin keys create --scopes worker` creates one for workers',
    );
    expect([error.final, error.temporary]).toEqual([true, false]);
  });

  test('a refusal of a proxy is not one of the API', () => {
    const error = errorOf(404, '<html>', '7');
    expect([error.code, error.final, error.temporary, error.retryAfterS]).toEqual(['http_error', false, false, 7]);
    expect(errorOf(503, '', new Date(9_000).toUTCString(), 2_000).retryAfterS).toBe(7);
    expect([429, 500, 501, 503].map((status) => errorOf(status, '', null).temporary)).toEqual([
      true,
      true,
      false,
      true,
    ]);
  });
});

test('pauses are random parts of windows that double up to a limit', () => {
  const limits = { pauseMinMs: 250, pauseMaxMs: 2000 };
  const widest = new Pauses(limits, () => 1);
  expect(Array.from({ length: 5 }, () => widest.nextMs())).toEqual([250, 500, 1000, 2000, 2000]);
  widest.reset();
  expect([widest.nextMs(), new Pauses(limits, () => 0).nextMs(), new Pauses(limits, () => 0).nextMs(700)]).toEqual([
    250, 0, 700,
  ]);
});

test('the clock counts the time in which the machine was suspended', () => {
  let [monotonicMs, wallMs] = [100, 5_000];
  const now = clock(
    () => monotonicMs,
    () => wallMs,
  );
  expect(now()).toBe(100);
  [monotonicMs, wallMs] = [200, 5_090];
  expect(now()).toBe(200);
  // 300 ms of work, and a minute of sleep.
  [monotonicMs, wallMs] = [500, 65_390];
  expect(now()).toBe(60_500);
  // The wall clock is set back: time goes on.
  [monotonicMs, wallMs] = [600, 1_000];
  expect(now()).toBe(60_600);
});
