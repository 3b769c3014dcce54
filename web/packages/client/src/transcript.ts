/**
 * Folds a log into the view that a chat shows. The log's connection feeds it; user interfaces subscribe.
 *
 * Invariants: every event counts once, in the order of its number; a view never changes, and the next one shares with it what
 * has not changed; the work for an event does not grow with the length of the text before it.
 */
import { About } from './about.js';
import { foldEvent, pending } from './fold.js';
import { Frames } from './frames.js';
import { agentsByParent, type Piece, pieces, showSnapshot, showSnapshotAgent, showStored } from './snapshot.js';
import { safely } from './surroundings.js';
import { defined, isOver, TurnFold } from './turn.js';
import type { Item, Message, Notice, Question, TranscriptView, Turn, TurnStatus } from './view.js';
import type {
  MessageEvent,
  Run,
  RunEvent,
  SnapshotAgent,
  SnapshotEvent,
  SnapshotTurn,
  WireEvent,
  WireMessage,
} from './wire.js';

const NOTICES_MAX = 50;
/** Events of these types notify the listeners at once, all others with the next frame. */
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
  /** Asks for a run of which a snapshot does not contain everything. */
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
  #frames = new Frames();
  #cancelFrame: (() => void) | undefined;

  /** Calls after changes: at once after those of a status, else once a frame, or less often where rendering is slow. Returns how to stop that. */
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
    if (URGENT.has(event.type)) this.#notify();
    return true;
  }

  /** Adds a notice about the connection. */
  note(notice: Notice): void {
    this.#notices = [...this.#notices, notice].slice(-NOTICES_MAX);
    this.#changed();
    this.#notify();
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
    this.#notify();
  }

  /** Turns of which only the message is known, and that another transcript has seen whole. A branch has copies of messages. */
  complete(runId: string, seen: Transcript): void {
    for (const entry of this.#entries) {
      if (!(entry instanceof TurnFold) || entry.head.runId !== runId || !entry.head.partial) continue;
      const seenTurns = seen.#entries.filter((other) => other instanceof TurnFold);
      const { message } = entry.head;
      const whole =
        seenTurns.find(({ head }) => head.message?.id === message?.id) ??
        seenTurns.find(({ head }) => head.message?.content === message?.content);
      if (!whole) continue;
      entry.adopt(whole);
      // The messages that the run received while it was at work are part of its turn.
      const received = new Set(entry.receivedMessages.map((message) => message.id));
      this.#entries = this.#entries.filter((other) => other instanceof TurnFold || !received.has(other.message.id));
    }
    this.#notify();
  }

  /** Folds an event into its turn. False: a new snapshot is needed. */
  #run(seq: number, event: RunEvent): boolean {
    const turn = this.#turnOf(event);
    return !turn || foldEvent(turn, seq, event);
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
      turn.received(message);
    } else {
      if (wire.role !== 'assistant') this.#entries.push({ type: 'message', message });
      if (!runId) return;
      const next = this.#begin(runId);
      this.#entries.push(next);
      if (wire.role === 'user') next.set(0, { messageId: wire.id });
      else showStored(next, message);
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
    // A snapshot contains little of it, and what was known may be out of date.
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
        // Known from the message that it answers.
      } else if (!ended || ended.over) {
        ended = this.#begin(runId);
        this.#entries.push(ended);
      } else {
        // Seen by us until some point; how it ended is asked for.
        ended.clear(through);
        this.onUnknown(runId);
      }
      showStored(ended, message);
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

  /** Replaces the turn that is under way by its state in a snapshot. */
  #snapshotTurn(through: number, snapshot: SnapshotTurn): void {
    let turn = this.#runs.get(snapshot.runId);
    if (!turn || turn.over) {
      turn = this.#begin(snapshot.runId);
      this.#entries.push(turn);
    }
    showSnapshot(turn, through, snapshot);
    const agents = agentsByParent(snapshot);
    this.#addPieces(turn, through, pieces(snapshot.text, snapshot.toolCalls, agents.get(snapshot.runId)), agents);
    for (const event of snapshot.questions ?? [])
      (this.#runs.get(event.runId) ?? turn).question(through, event.questionId, {}, pending(event));
    if (!turn.head.messageId) this.onUnknown(snapshot.runId);
  }

  /** Adds text, calls and sub-agents to a turn, in their order. */
  #addPieces(turn: TurnFold, through: number, added: Piece[], agents: Map<string, SnapshotAgent[]>): void {
    for (const piece of added) {
      if ('text' in piece) turn.append(through, 'text', piece.text);
      else if ('call' in piece) turn.tool(through, piece.call);
      else this.#snapshotAgent(turn, through, piece.agent, agents);
    }
  }

  /** Adds a sub-agent's turn, with all that it started in turn. */
  #snapshotAgent(
    parent: TurnFold,
    through: number,
    snapshot: SnapshotAgent,
    agents: Map<string, SnapshotAgent[]>,
  ): void {
    this.#turnCounts.delete(snapshot.runId);
    const turn = this.#begin(snapshot.runId, parent);
    parent.agent(turn);
    showSnapshotAgent(turn, through, parent, snapshot);
    this.#addPieces(turn, through, pieces(snapshot.text, snapshot.toolCalls, agents.get(snapshot.runId)), agents);
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
    if (this.#listeners.size > 0) this.#cancelFrame ??= this.#frames.next(() => this.#notify());
  };

  #notify(): void {
    this.#cancelFrame?.();
    this.#cancelFrame = undefined;
    this.#frames.run(() => {
      for (const listener of [...this.#listeners]) safely(listener);
    });
  }
}

/** Adds the open questions of a turn and of its sub-agents to a list. */
function openQuestions(turn: Turn, into: Question[]): void {
  into.push(...turn.questions.filter((question) => question.status === 'pending'));
  for (const agent of turn.agents) openQuestions(agent, into);
}
