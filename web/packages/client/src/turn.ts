/**
 * Builds one turn from its events. Only the transcript uses it.
 *
 * Every change but text is recorded with its inverse, so that a `reset` undoes exactly the events that it names; text is cut where its
 * first void piece begins. Invariant: after a reset a turn is what it would be without the void events.
 */
import { GrowingText } from './text.js';
import type { HandoffPart, Message, Notice, Part, Question, ToolCall, Turn, TurnStatus } from './view.js';
import type { SnapshotToolCall, ToolEvent } from './wire.js';

/** What of a turn is a plain value, and replaced when it changes. */
export type Head = Omit<Turn, 'parts' | 'text' | 'reasoning' | 'toolCalls' | 'agents'>;

type Growing =
  | { type: 'text' | 'reasoning'; text: GrowingText; view?: Part | undefined }
  | { type: 'tool'; view: ToolCall }
  | { type: 'agent'; turn: TurnFold; view?: Part }
  | { type: 'message' | 'handoff'; view: Part };

const OVER: readonly TurnStatus[] = ['completed', 'failed', 'cancelled', 'paused'];
export const isOver = (status: TurnStatus): boolean => OVER.includes(status);

export class TurnFold {
  head: Head;
  /** The number of the last event in the snapshot that filled it, which can't be separated into events again. */
  snapshotThrough = -1;
  #parts: Growing[] = [];
  /** How to take back what an event has changed, oldest first. */
  #undo: [seq: number, back: () => void][] = [];
  #view: Turn | undefined;

  constructor(
    id: string,
    runId: string,
    readonly parent: TurnFold | undefined,
    /** Notifies the view that the turn has changed. */
    private readonly changed: () => void,
  ) {
    const none: never[] = [];
    this.head = {
      id,
      runId,
      status: 'queued',
      attempt: 1,
      questions: none,
      citations: none,
      limits: none,
      errors: none,
      notices: none,
      operations: none,
      ...(parent && { parentRunId: parent.head.runId }),
    };
  }

  get over(): boolean {
    return isOver(this.head.status);
  }

  /** The turn of the tree's root. */
  get root(): TurnFold {
    return this.parent?.root ?? this;
  }

  /** Changes values of the head; `undefined` ones stay as they were. */
  set(seq: number, changes: { [K in keyof Head]?: Head[K] | undefined }): void {
    const before = this.head;
    const given = Object.entries(changes).filter(([, value]) => value !== undefined);
    const keys = given.map(([key]) => key as keyof Head);
    this.head = { ...before, ...(Object.fromEntries(given) as Partial<Head>) };
    this.#journal(seq, () => {
      const back = { ...this.head } as Record<string, unknown>;
      for (const key of keys) {
        if (key in before) back[key] = before[key];
        else delete back[key];
      }
      this.head = back as unknown as Head;
    });
    this.#touch();
  }

  /** What stays, whatever is reset. */
  notice(notice: Notice): void {
    this.head = { ...this.head, notices: [...this.head.notices, notice] };
    this.#touch();
  }

  /** Appends to the text or to the reasoning. */
  append(seq: number, type: 'text' | 'reasoning', piece: string): void {
    if (!piece) return;
    let last = this.#parts.at(-1);
    if (last?.type !== type) {
      last = { type, text: new GrowingText(), view: undefined };
      this.#add(seq, last);
    }
    const part = last as Growing & { text: GrowingText };
    part.text.push(seq, piece);
    part.view = undefined;
    this.#touch();
  }

  tool(seq: number, call: ToolEvent | SnapshotToolCall, startedAt?: number): void {
    const { callId, tool, input, result, error } = call;
    const status = call.status === 'started' ? 'running' : call.status;
    const known = this.#parts.findLast((part) => part.type === 'tool' && part.view.callId === callId) as
      | (Growing & { type: 'tool' })
      | undefined;
    const durationMs = 'durationMs' in call ? call.durationMs : undefined;
    const outcome = defined({ status, output: result, error, durationMs });
    if (!known || (status === 'running' && known.view.status !== 'running')) {
      const view = { type: 'tool', callId, tool, ...defined({ input, startedAt }), ...outcome } as ToolCall;
      this.#add(seq, { type: 'tool', view });
    } else {
      const before = known.view;
      known.view = { ...before, ...outcome } as ToolCall;
      this.#journal(seq, () => (known.view = before));
    }
    this.#touch();
  }

  question(seq: number, id: string, change: Partial<Question>, whole?: Question): void {
    const others = this.head.questions.filter((question) => question.questionId !== id);
    const known = this.head.questions.find((question) => question.questionId === id) ?? whole;
    if (known) this.set(seq, { questions: [...others, { ...known, ...change }] });
  }

  agent(turn: TurnFold): void {
    this.#parts.push({ type: 'agent', turn });
    this.#touch();
  }

  handoff(seq: number, part: HandoffPart): void {
    this.#add(seq, { type: 'handoff', view: part });
    this.set(seq, { agent: part.to });
  }

  /** Adds a message that the run received while it was at work. */
  received(message: Message): void {
    this.#parts.push({ type: 'message', view: { type: 'message', message } });
    this.#touch();
  }

  /** Forgets what its events after `afterSeq` have done. False: they are part of a snapshot, and can't be separated. */
  reset(afterSeq: number): boolean {
    if (afterSeq < this.snapshotThrough) return false;
    for (const part of this.#parts) {
      if ('text' in part) {
        part.text.cut(afterSeq);
        part.view = undefined;
      }
    }
    while ((this.#undo.at(-1)?.[0] ?? afterSeq) > afterSeq) this.#undo.pop()?.[1]();
    this.#touch();
    return true;
  }

  /** The turn is over: its changes can no longer be undone. */
  settle(): void {
    this.#undo = [];
    for (const part of this.#parts) if ('text' in part) part.text.settle();
  }

  /** Takes what another fold of the same turn knows of it. */
  adopt(whole: TurnFold): void {
    const { id, messageId = whole.head.messageId, message } = this.head;
    this.head = { ...whole.head, id, ...defined({ messageId, message }) } as Head;
    this.#parts = whole.#parts;
    this.settle();
    this.#touch();
  }

  /** The messages that the run received while it was at work. */
  get receivedMessages(): Message[] {
    return this.#parts.flatMap((part) =>
      part.type === 'message' && part.view.type === 'message' ? [part.view.message] : [],
    );
  }

  /** Removes its parts, before a snapshot fills it again. */
  clear(through: number): void {
    this.snapshotThrough = through;
    this.#parts = [];
    this.#undo = [];
    const { events } = this.head;
    this.head = {
      ...this.head,
      questions: [],
      limits: [],
      errors: [],
      operations: [],
      ...(events && { events: [] }),
    };
    this.#touch();
  }

  view(): Turn {
    if (this.#view) return this.#view;
    let text = '';
    let reasoning = '';
    const toolCalls: ToolCall[] = [];
    const agents: Turn[] = [];
    const parts = this.#parts.map((part): Part => {
      if ('text' in part) {
        part.view ??= { type: part.type, text: part.text.toString() };
        if (part.type === 'text') text += (part.view as { text: string }).text;
        else reasoning += (part.view as { text: string }).text;
        return part.view;
      }
      if (part.type === 'agent') {
        const turn = part.turn.view();
        agents.push(turn);
        if (part.view?.type !== 'agent' || part.view.turn !== turn) part.view = { type: 'agent', turn };
        return part.view;
      }
      if (part.type === 'tool') toolCalls.push(part.view);
      return part.view;
    });
    this.#view = { ...this.head, parts, text, reasoning, toolCalls, agents };
    return this.#view;
  }

  #add(seq: number, part: Growing): void {
    this.#parts.push(part);
    this.#journal(seq, () => {
      this.#parts = this.#parts.filter((other) => other !== part);
    });
  }

  /** Number 0 is of no event, and is never taken back. */
  #journal(seq: number, back: () => void): void {
    if (seq > 0) this.#undo.push([seq, back]);
  }

  #touch(): void {
    this.#view = undefined;
    if (this.parent) this.parent.#touch();
    else this.changed();
  }
}

/** Without the fields that have no value. */
export function defined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)) as T;
}
