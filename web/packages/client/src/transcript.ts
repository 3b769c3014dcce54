/**
 * Folds a log into the view that a chat shows. The log's connection feeds it; user interfaces subscribe.
 *
 * Invariants: every event counts once, in the order of its number; a view never changes, and the next one shares with it what
 * has not changed; the work for an event does not grow with the length of the text before it.
 */
import { About } from './about.js';
import { operated, planned } from './plan.js';
import { nextFrame, safely } from './surroundings.js';
import { defined, isOver, TurnFold } from './turn.js';
import type { Item, Message, Notice, Question, TranscriptView, Turn, TurnStatus } from './view.js';
import type {
  DoneEvent,
  MessageEvent,
  Run,
  RunEvent,
  SnapshotAgent,
  SnapshotEvent,
  SnapshotToolCall,
  SnapshotTurn,
  WireEvent,
  WireMessage,
} from './wire.js';

const NOTICES_MAX = 50;
/** What changes in these moments is told at once, the rest with the next frame. */
const URGENT = new Set([
  'message',
  'meta',
  'reset',
  'agent_state',
  'question',
  'question_answered',
  'sub_agent',
  'error',
  'done',
  'snapshot',
  'plan_created',
  'plan_review',
  'step_start',
  'step_complete',
  'focus_changed',
]);

type Entry = { type: 'message'; message: Message } | TurnFold;

export class Transcript {
  /** Asked of runs of which a snapshot does not tell all. */
  onUnknown: (runId: string) => void = () => {};
  #entries: Entry[] = [];
  #messages = new Map<string, Message>();
  #messageList: Message[] | undefined;
  /** The newest turn of each run. */
  #runs = new Map<string, TurnFold>();
  #turnCounts = new Map<string, number>();
  #notices: Notice[] = [];
  #cursor = 0;
  #about = new About();
  #items = new WeakMap<object, Item>();
  #view: TranscriptView | undefined;
  #listeners = new Set<() => void>();
  #cancelFrame: (() => void) | undefined;

  /** Calls after changes: at once after those of a status, else once a frame. Returns how to stop that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    // Each subscription counts separately, even of the same function.
    const own = () => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  };

  /** The transcript as it is now; the same object until something changes. */
  readonly getSnapshot = (): TranscriptView => (this.#view ??= this.#render());

  /** The newest turn of a run. */
  turn(runId: string): Turn | undefined {
    return this.#runs.get(runId)?.view();
  }

  /** Takes an event in. False: it can't be, and a new snapshot is needed. */
  apply(seq: number, event: WireEvent): boolean {
    if (event.type === 'snapshot') this.#snapshot(event as SnapshotEvent);
    else if (event.type === 'message') this.#live((event as MessageEvent).message, (event as MessageEvent).runId);
    else if (event.type === 'focus_changed') {
      // Of the conversation: no turn begins with it.
    } else if (typeof event.runId === 'string' && !this.#run(seq, event as RunEvent)) return false;
    this.#about.apply(seq, event);
    this.#cursor = seq;
    this.#changed();
    if (URGENT.has(event.type)) this.#tell();
    return true;
  }

  /** Something to say about the connection. */
  note(notice: Notice): void {
    this.#notices = [...this.#notices, notice].slice(-NOTICES_MAX);
    this.#changed();
    this.#tell();
  }

  /** Forgets everything: the log is another one than before. */
  clear(): void {
    this.#entries = [];
    this.#messageList = undefined;
    this.#cursor = 0;
    this.#about.clear();
    for (const known of [this.#messages, this.#runs, this.#turnCounts]) known.clear();
    this.#changed();
  }

  /** What was asked for by `onUnknown`. `through`: the last event that was known then. */
  learn(run: Run, through: number): void {
    const turn = this.#runs.get(run.id);
    if (!turn) return;
    const { agent, agentDefinitionId, model, messageId } = run;
    turn.set(0, defined({ agent, agentDefinitionId, model }) as object);
    if (messageId && !turn.head.messageId) this.#place(turn, messageId);
    // What ends it later is yet to come as an event.
    if (run.doneSeq !== null && run.doneSeq <= through && isOver(run.state as TurnStatus)) {
      const errors = run.error ? [{ error: run.error, code: run.errorCode ?? '', retryable: false }] : undefined;
      turn.set(0, { status: run.state as TurnStatus, errors });
      turn.settle();
    }
    this.#tell();
  }

  /** Turns of which only the message is known, and that another transcript has seen whole. */
  complete(runId: string, seen: Transcript): void {
    for (const entry of this.#entries) {
      if (!(entry instanceof TurnFold) || entry.head.runId !== runId || !entry.head.partial) continue;
      const whole = seen.#entries.find(
        (other) => other instanceof TurnFold && other.head.message?.id === entry.head.message?.id,
      );
      if (!(whole instanceof TurnFold)) continue;
      entry.adopt(whole);
      // What the run was told stands within its turn.
      const heard = new Set(entry.heard.map((message) => message.id));
      this.#entries = this.#entries.filter((other) => other instanceof TurnFold || !heard.has(other.message.id));
    }
    this.#tell();
  }

  #run(seq: number, event: RunEvent): boolean {
    const turn = this.#turnOf(event);
    if (!turn) return true;
    switch (event.type) {
      case 'meta': {
        const { agent, agentDefinitionId, model, citations, attempt } = event;
        turn.set(seq, { status: 'running', agent, agentDefinitionId, model, citations, attempt });
        break;
      }
      case 'token':
        begin(seq, turn);
        turn.say(seq, 'text', event.token);
        break;
      case 'reasoning':
        begin(seq, turn);
        turn.say(seq, 'reasoning', event.text);
        break;
      case 'mcp_tool':
        begin(seq, turn);
        turn.tool(seq, event, event.status === 'started' ? Date.now() : undefined);
        turn.set(seq, { plan: planned(turn.head.plan, event) });
        break;
      case 'plan_created':
      case 'plan_ready_for_review':
      case 'plan_review':
      case 'step_start':
      case 'step_complete':
      case 'executor_spawned':
        turn.set(seq, { plan: planned(turn.head.plan, event) });
        break;
      case 'operation':
        turn.set(seq, { operations: operated(turn.head.operations, event.operation) });
        break;
      case 'reset': {
        const taken = turn.reset(event.discardAfter);
        const { attempt, reason, runId } = event;
        const step = (turn.head.usage?.steps ?? 0) + 1;
        turn.notice({ kind: 'resumed', text: `worker lost, resumed at step ${step}`, runId, attempt, reason, step });
        if (!taken) return false;
        turn.set(seq, { status: 'running', attempt });
        break;
      }
      case 'agent_state':
        turn.set(seq, { status: event.state.startsWith('waiting') ? 'waiting' : 'running' });
        break;
      case 'usage': {
        const {
          inputTokens,
          outputTokens,
          totalTokens,
          cachedTokens,
          cacheWriteTokens,
          reasoningTokens,
          costUsd,
          steps,
        } = event;
        const usage = {
          inputTokens,
          outputTokens,
          totalTokens,
          cachedTokens,
          cacheWriteTokens,
          reasoningTokens,
          costUsd,
          steps,
        };
        turn.set(seq, { usage: defined(usage) as Turn['usage'] });
        break;
      }
      case 'handoff':
        turn.handoff(seq, {
          type: 'handoff',
          from: event.from,
          to: event.to,
          ...(event.reason !== undefined && { reason: event.reason }),
        });
        break;
      case 'telemetry':
        turn.set(seq, {
          details: [...(turn.head.details ?? []), { type: event.type, value: { name: event.name, data: event.data } }],
        });
        break;
      case 'debug_context':
        turn.set(seq, { details: [...(turn.head.details ?? []), { type: event.type, value: event.debug }] });
        break;
      case 'question':
        turn.question(seq, event.questionId, {}, question(event));
        break;
      case 'question_answered':
        turn.question(seq, event.questionId, { status: event.status, answer: event.answer });
        break;
      case 'limit':
        turn.set(seq, { limits: [...turn.head.limits, { limit: event.limit, message: event.message }] });
        break;
      case 'output':
        turn.set(seq, { output: event.output });
        break;
      case 'error': {
        const { error, code, retryable } = event;
        turn.set(seq, { errors: [...turn.head.errors, { error, code, retryable }] });
        break;
      }
      case 'sub_agent': {
        const { task, summary, usage, error, code = '' } = event;
        const status = event.status === 'started' ? 'running' : event.status;
        const errors = error ? [...turn.head.errors, { error, code, retryable: false }] : undefined;
        turn.set(seq, { status, task, summary, usage, errors });
        if (turn.over) turn.settle();
        break;
      }
      case 'done':
        this.#done(seq, turn, event);
        break;
      default:
      // Of a type that is not invented yet.
    }
    return true;
  }

  #done(seq: number, turn: TurnFold, { status, usage }: DoneEvent): void {
    turn.set(seq, { status, usage });
    turn.settle();
  }

  /** The turn that an event belongs to, which may begin with it. */
  #turnOf(event: RunEvent): TurnFold | undefined {
    const { runId, parentRunId, agent, source, stepNumber } = event;
    let turn = this.#runs.get(runId);
    const parent = parentRunId && parentRunId !== runId ? this.#runs.get(parentRunId) : undefined;
    const begins = event.type === 'sub_agent' && event.status === 'started';
    if (!turn || (turn.over && (parent ? begins && turn.root.over : event.type !== 'question_answered'))) {
      // Closes what we have never seen open.
      if (!turn && event.type === 'question_answered') return undefined;
      turn = this.#begin(runId, parent);
      if (parent) parent.agent(turn);
      else this.#entries.push(turn);
      if (this.#turnCounts.get(runId) === 1 && !parentRunId) this.onUnknown(runId);
    }
    if (parentRunId && turn.head.source === undefined) {
      turn.set(0, {
        parentRunId,
        agent,
        source,
        stepNumber,
        planId: source === 'plan_step' ? parent?.head.plan?.id : undefined,
      });
    }
    return turn;
  }

  #begin(runId: string, parent?: TurnFold): TurnFold {
    const count = (this.#turnCounts.get(runId) ?? 0) + 1;
    this.#turnCounts.set(runId, count);
    const turn = new TurnFold(count > 1 ? `${runId}#${count}` : runId, runId, parent, this.#changed);
    this.#runs.set(runId, turn);
    return turn;
  }

  /** A message, as it is stored. */
  #live(wire: WireMessage, runId?: string): void {
    if (this.#messages.has(wire.id)) return;
    const message = this.#store(wire, runId);
    const turn = runId ? this.#runs.get(runId) : undefined;
    if (wire.role === 'assistant' && turn) {
      turn.set(0, { message });
    } else if (wire.role === 'user' && turn && !turn.over) {
      turn.told(message);
    } else {
      if (wire.role !== 'assistant') this.#entries.push({ type: 'message', message });
      if (!runId) return;
      const next = this.#begin(runId);
      this.#entries.push(next);
      if (wire.role === 'user') next.set(0, { messageId: wire.id });
      else told(next, message);
    }
  }

  #store(
    { id, role, content, createdAt, attachedContext, attachments, citations }: WireMessage,
    runId?: string,
  ): Message {
    const message = defined({
      id,
      role,
      content,
      createdAt,
      runId,
      attachedContext,
      attachments,
      citations,
    }) as Message;
    this.#messages.set(id, message);
    this.#messageList = undefined;
    return message;
  }

  /** The state up to a number, laid over what is known already. */
  #snapshot({ through, messages, turn }: SnapshotEvent): void {
    // It tells little of it, and what was known may be long over.
    this.#about.clear();
    if (turn?.contextUsage)
      this.#about.apply(through, { type: 'context_usage', runId: turn.runId, usage: turn.contextUsage });
    for (const wire of messages) {
      if (this.#messages.has(wire.id)) continue;
      const runId = wire.retrievalContext?.agent_run_id ?? wire.runId ?? undefined;
      if (wire.role !== 'assistant' || !runId) {
        this.#entries.push({ type: 'message', message: this.#store(wire, runId) });
        // A run that is over may have left no message: it failed, or was cancelled.
        if (runId && wire.runState) this.#answering(runId, wire.id, wire.runState);
        continue;
      }
      const message = this.#store(wire, runId);
      let ended = this.#runs.get(runId);
      if (ended?.head.partial && !ended.head.message) {
        // As told by the message that it answers.
      } else if (!ended || ended.over) {
        ended = this.#begin(runId);
        this.#entries.push(ended);
      } else {
        // Seen by us until some point; how it ended is asked for.
        ended.clear(through);
        this.onUnknown(runId);
      }
      told(ended, message);
    }
    for (const known of this.#runs.values()) {
      if (!known.parent && !known.over && known.head.runId !== turn?.runId) this.onUnknown(known.head.runId);
    }
    if (turn) this.#snapshotTurn(through, turn);
  }

  /** The turn that answers a message, as far as that is known by its state alone. */
  #answering(runId: string, messageId: string, status: TurnStatus): void {
    if (this.#runs.has(runId)) return;
    const turn = this.#begin(runId);
    this.#entries.push(turn);
    turn.set(0, { messageId, status, ...(isOver(status) && { partial: true }) });
  }

  #snapshotTurn(through: number, told: SnapshotTurn): void {
    let turn = this.#runs.get(told.runId);
    if (!turn || turn.over) {
      turn = this.#begin(told.runId);
      this.#entries.push(turn);
    }
    turn.clear(through);
    const open = told.questions ?? [];
    const { agent, agentDefinitionId, model, citations, attempt } = told.meta ?? {};
    const waits = open.length > 0 || told.agents?.some((agent) => agent.status === 'started');
    const status = told.meta ? (waits ? 'waiting' : 'running') : turn.head.status;
    turn.set(through, {
      status,
      agent,
      agentDefinitionId,
      model,
      citations,
      attempt,
      plan: told.plan,
      operations: told.operations ?? [],
    });
    turn.say(through, 'reasoning', told.reasoning ?? '');
    const begun = new Map<string, SnapshotAgent[]>();
    for (const sub of told.agents ?? []) {
      const known =
        sub.parentRunId && told.agents?.some(({ runId }) => runId === sub.parentRunId) ? sub.parentRunId : told.runId;
      begun.set(known, [...(begun.get(known) ?? []), sub]);
    }
    this.#lay(through, turn, told.text, told.toolCalls, begun);
    for (const event of open)
      (this.#runs.get(event.runId) ?? turn).question(through, event.questionId, {}, question(event));
    if (!turn.head.messageId) this.onUnknown(told.runId);
  }

  /** Lays a turn's text, its calls and its sub-agents out in their order. Where a server tells no order, the text comes last. */
  #lay(
    through: number,
    turn: TurnFold,
    text: string,
    calls: readonly SnapshotToolCall[],
    begun: Map<string, SnapshotAgent[]>,
  ): void {
    const own = begun.get(turn.head.runId) ?? [];
    let said = 0;
    const sayUntil = (end: number): void => {
      turn.say(through, 'text', text.slice(said, end));
      said = Math.max(said, end);
    };
    // Calls and sub-agents are each in order; in the same place of the text the calls come first, as one that starts sub-agents does.
    const pieces = [
      ...calls.map((call) => ({ at: call.afterText ?? 0, call })),
      ...own.map((sub) => ({ at: sub.afterText ?? 0, sub })),
    ];
    for (const piece of pieces.sort((a, b) => a.at - b.at)) {
      sayUntil(piece.at);
      if ('call' in piece) turn.tool(through, piece.call);
      else this.#snapshotAgent(through, turn, piece.sub, begun);
    }
    sayUntil(text.length);
  }

  #snapshotAgent(through: number, parent: TurnFold, sub: SnapshotAgent, begun: Map<string, SnapshotAgent[]>): void {
    this.#turnCounts.delete(sub.runId);
    const nested = this.#begin(sub.runId, parent);
    nested.clear(through);
    parent.agent(nested);
    const status = sub.status === 'started' ? 'running' : sub.status;
    const { agent, task, source = 'sub_agent', stepNumber } = sub;
    nested.set(through, {
      status,
      agent,
      task,
      source,
      stepNumber,
      planId: source === 'plan_step' ? parent.head.plan?.id : undefined,
    });
    this.#lay(through, nested, sub.text, sub.toolCalls ?? [], begun);
  }

  /** Puts a turn behind the message that it answers. */
  #place(turn: TurnFold, messageId: string): void {
    const found = this.#entries.findIndex((entry) => !(entry instanceof TurnFold) && entry.message.id === messageId);
    turn.set(0, { messageId });
    if (found < 0) return;
    const others = this.#entries.filter((entry) => entry !== turn);
    others.splice(found + (this.#entries.indexOf(turn) < found ? 0 : 1), 0, turn);
    this.#entries = others;
  }

  #render(): TranscriptView {
    const turns: Turn[] = [];
    const questions: Question[] = [];
    const items = this.#entries.map((entry): Item => {
      if (!(entry instanceof TurnFold)) return entry;
      const turn = entry.view();
      turns.push(turn);
      if (!entry.over) openQuestions(turn, questions);
      let item = this.#items.get(turn);
      if (!item) {
        item = { type: 'turn', turn };
        this.#items.set(turn, item);
      }
      return item;
    });
    const active =
      turns.find((turn) => turn.status === 'running' || turn.status === 'waiting') ??
      turns.find((turn) => turn.status === 'queued');
    this.#messageList ??= [...this.#messages.values()];
    return {
      items,
      turns,
      questions,
      messages: this.#messageList,
      notices: this.#notices,
      ...this.#about.view,
      cursor: this.#cursor,
      ...(active && { active }),
    };
  }

  readonly #changed = (): void => {
    this.#view = undefined;
    if (this.#listeners.size > 0) this.#cancelFrame ??= nextFrame(() => this.#tell());
  };

  #tell(): void {
    this.#cancelFrame?.();
    this.#cancelFrame = undefined;
    for (const listener of [...this.#listeners]) safely(listener);
  }
}

/** Something was said: it runs. */
function begin(seq: number, turn: TurnFold): void {
  if (turn.head.status === 'queued') turn.set(seq, { status: 'running' });
}

/** A turn of which only the message is known. */
function told(turn: TurnFold, message: Message): void {
  turn.say(0, 'text', message.content);
  turn.set(0, {
    status: turn.over ? turn.head.status : 'completed',
    partial: true,
    message,
    citations: message.citations,
  });
  turn.settle();
}

function question({ questionId, runId, question, options, interactionType }: Omit<Question, 'status'>): Question {
  return { questionId, runId, question, options, interactionType, status: 'pending' };
}

function openQuestions(turn: Turn, into: Question[]): void {
  into.push(...turn.questions.filter((question) => question.status === 'pending'));
  for (const agent of turn.agents) openQuestions(agent, into);
}
