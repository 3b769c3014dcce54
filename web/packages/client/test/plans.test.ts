import { expect, test } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { Turn } from '../src/view.js';
import type { WireEvent } from '../src/wire.js';

const step = (stepNumber: number, dependsOn: number[] = []) => ({
  stepNumber,
  type: 'action',
  description: `do ${stepNumber}`,
  executorRequired: true,
  tools: [],
  dependsOn,
  status: 'pending',
});
const plan = (id = 'p', steps = [step(1), step(2, [1])]) => ({
  id,
  runId: 'r',
  revisesPlanId: null,
  objective: 'launch',
  executionMode: 'auto_execute',
  status: 'pending',
  version: 1,
  steps,
});
const of = (type: string, more: object = {}) => ({ type, runId: 'r', source: 'planner', ...more });
const start = (number: number, attempt = 1, planId = 'p') =>
  of('step_start', { stepNumber: number, step: { ...step(number), status: 'executing', planId, attempt } });
const complete = (number: number, more: object, planId = 'p') =>
  of('step_complete', { stepNumber: number, step: { ...step(number), planId, ...more } });
const opening = [
  { type: 'message', runId: 'r', message: { id: 'm', role: 'user', content: 'q', createdAt: '2026-01-01T00:00:00Z' } },
  of('meta', { agent: 'planner', attempt: 1 }),
];

function fold(events: object[], into = new Transcript()): Transcript {
  const from = into.getSnapshot().cursor;
  for (const [nth, event] of events.entries()) expect(into.apply(from + nth + 1, event as WireEvent)).toBe(true);
  return into;
}
const only = (transcript: Transcript): Turn => transcript.getSnapshot().turns[0]!;
const states = (turn: Turn) => turn.plan?.steps.map((one) => one.status);

// Requirements: E43.
test('a plan is shown with its steps as they stand, and what does them', () => {
  const transcript = fold([
    ...opening,
    of('plan_created', { plan: plan() }),
    of('agent_state', { state: 'executing_plan' }),
    start(1),
  ]);
  expect(only(transcript).plan).toMatchObject({ objective: 'launch', status: 'executing' });
  expect(states(only(transcript))).toEqual(['executing', 'pending']);
  const part = { runId: 's', parentRunId: 'r', source: 'plan_step', stepNumber: 1, agent: 'executor' };
  fold(
    [
      of('executor_spawned', {
        stepNumber: 1,
        executorId: 's',
        task: { planId: 'p', stepNumber: 1, description: 'do 1' },
      }),
      { type: 'token', token: 'I do.', ...part },
      { type: 'sub_agent', status: 'failed', error: 'broken', code: 'x', ...part },
      complete(1, { status: 'failed', error: 'broken' }),
      start(1, 2),
    ],
    transcript,
  );
  expect(only(transcript).plan!.steps[0]).toMatchObject({ status: 'executing', attempt: 2, executorId: 's' });
  expect(only(transcript).plan!.steps[0]!.error, 'what the attempt before it left').toBeUndefined();
  expect(only(transcript).agents).toMatchObject([
    { runId: 's', planId: 'p', stepNumber: 1, source: 'plan_step', status: 'failed', text: 'I do.' },
  ]);
  fold(
    [
      complete(1, { status: 'completed', result: 'found' }),
      start(2),
      complete(2, { status: 'completed', result: 'joined' }),
      of('mcp_tool', { callId: 'c', tool: 'agent_create_plan', status: 'started' }),
      of('mcp_tool', {
        callId: 'c',
        tool: 'agent_create_plan',
        status: 'completed',
        result: { status: 'completed_with_errors' },
      }),
    ],
    transcript,
  );
  expect(states(only(transcript))).toEqual(['completed', 'completed']);
  expect(only(transcript).plan).toMatchObject({
    status: 'completed_with_errors',
    steps: [{ result: 'found', attempt: 2 }, { result: 'joined' }],
  });
});

// Requirements: E42.
test('a draft waits, and its review names the steps with which it continues', () => {
  const draft = { ...plan(), executionMode: 'draft_only', status: 'pending_review' };
  const transcript = fold([
    ...opening,
    of('plan_created', { plan: draft }),
    of('plan_ready_for_review', { plan: draft, summary: '2 steps', recommendations: ['name tools'] }),
  ]);
  expect(only(transcript).plan).toMatchObject({
    status: 'pending_review',
    summary: '2 steps',
    recommendations: ['name tools'],
  });
  const review = (verdict: string, more: object) => of('plan_review', { verdict, reviewer: 'user', ...more });
  fold([review('approved', { plan: { ...draft, version: 2, steps: [step(7)] } })], transcript);
  expect(only(transcript).plan).toMatchObject({
    status: 'executing',
    verdict: 'approved',
    reviewer: 'user',
    version: 2,
    summary: '2 steps',
    steps: [{ stepNumber: 7 }],
  });
  fold([of('plan_created', { plan: plan('q') }), review('rejected', { plan: plan('q'), notes: 'no' })], transcript);
  expect(only(transcript).plan).toMatchObject({ id: 'q', status: 'failed', verdict: 'rejected', notes: 'no' });
});

test('a plan that takes the place of another one does not take over its late steps', () => {
  const transcript = fold([
    ...opening,
    of('plan_created', { plan: plan() }),
    of('plan_created', { plan: plan('q') }),
    start(1),
  ]);
  expect(states(only(transcript))).toEqual(['pending', 'pending']);
  fold([start(1, 1, 'q')], transcript);
  expect(states(only(transcript))).toEqual(['executing', 'pending']);
});

test('a reset takes plans, steps, operations and the context’s usage back', () => {
  const usage = (usagePercent: number) =>
    of('context_usage', {
      usage: { estimatedTokens: 1, tokenBudget: 2, usagePercent, tokensRemaining: 1, status: 'ok' },
    });
  const operation = (status: string) =>
    of('operation', { operation: { action: 'create', entity_type: 'task', entity_name: 'Hall', status } });
  const safe = [
    ...opening,
    of('plan_created', { plan: plan() }),
    start(1),
    operation('start'),
    usage(10),
    of('focus_active', { focus: { projectId: 'a', projectName: 'A' } }),
  ];
  const transcript = fold(safe);
  const before = JSON.stringify(transcript.getSnapshot().turns[0]);
  fold(
    [
      complete(1, { status: 'completed' }),
      of('plan_created', { plan: plan('q') }),
      operation('success'),
      usage(90),
      of('focus_changed', { focus: null }),
      of('context_shift', { context_shift: { new_context: 'calendar' } }),
    ],
    transcript,
  );
  expect(transcript.getSnapshot()).toMatchObject({
    focus: null,
    contextType: 'calendar',
    contextUsage: { usagePercent: 90 },
  });
  expect(only(transcript).operations).toMatchObject([{ status: 'success' }]);
  fold([of('reset', { discardAfter: safe.length, attempt: 1, reason: 'x' })], transcript);
  expect(transcript.getSnapshot()).toMatchObject({ focus: { projectName: 'A' }, contextUsage: { usagePercent: 10 } });
  expect(transcript.getSnapshot().contextType).toBeUndefined();
  expect(JSON.stringify({ ...only(transcript), notices: [] })).toBe(before);
});

test('operations are listed once each, by their latest state', () => {
  const operation = (status: string, entity_name = 'Hall') =>
    of('operation', { operation: { action: 'create', entity_type: 'task', entity_name, status } });
  const turn = only(
    fold([
      ...opening,
      operation('start'),
      operation('start', 'Band'),
      operation('error', 'Band'),
      operation('success'),
      operation('start'),
    ]),
  );
  expect(turn.operations.map((one) => [one.entity_name, one.status])).toEqual([
    ['Hall', 'success'],
    ['Band', 'error'],
    ['Hall', 'start'],
  ]);
});

test('a focus that is set without a message belongs to no turn, and a snapshot leaves it to be asked for', () => {
  const transcript = fold([{ type: 'focus_changed', focus: { projectId: 'a', projectName: 'A' } }]);
  expect(transcript.getSnapshot()).toMatchObject({ focus: { projectId: 'a' }, turns: [] });
  transcript.apply(2, { type: 'snapshot', through: 2, messages: [], turn: null });
  expect('focus' in transcript.getSnapshot()).toBe(false);
});

test('a snapshot has the plan, which step a run does, and what was done', () => {
  const transcript = new Transcript();
  const agents = [{ runId: 's', parentRunId: 'r', status: 'started', text: 'a', source: 'plan_step', stepNumber: 3 }];
  const plan = {
    id: 'p',
    objective: 'Launch',
    status: 'executing',
    steps: [{ stepNumber: 3, description: 'Look', status: 'executing' }],
  };
  const operations = [{ action: 'create', entity_type: 'task', entity_name: 'Hall', status: 'success' }];
  const contextUsage = { estimatedTokens: 5, tokenBudget: 2500, usagePercent: 0, tokensRemaining: 2495, status: 'ok' };
  const turn = { runId: 'r', text: '', toolCalls: [], agents, plan, operations, contextUsage } as never;
  transcript.apply(1, { type: 'snapshot', through: 1, messages: [], turn });
  transcript.apply(2, { type: 'token', token: 'b', runId: 's', parentRunId: 'r', source: 'plan_step', stepNumber: 3 });
  expect(only(transcript).agents).toMatchObject([{ text: 'ab', source: 'plan_step', stepNumber: 3, planId: 'p' }]);
  expect(only(transcript)).toMatchObject({ plan, operations });
  expect(transcript.getSnapshot().contextUsage).toMatchObject(contextUsage);
  // It goes on from there.
  transcript.apply(3, {
    type: 'step_complete',
    runId: 'r',
    step: { planId: 'p', stepNumber: 3, description: 'Look', status: 'completed' },
  } as never);
  expect(only(transcript).plan?.steps).toMatchObject([{ stepNumber: 3, status: 'completed' }]);
});
