/**
 * The types of the wire: what the API sends and accepts. Nothing here exists at run time.
 *
 * `schema` has them as the API's document describes them; here they get their public names. A field that a response always has, though perhaps as
 * null, is required here.
 *
 * A log may hold types of events that this version does not know: they arrive as {@link UnknownEvent} and change nothing.
 */
import type { components } from './schema.js';

type Schemas = components['schemas'];

/** `T` with other types of some fields. */
type With<T, Fields> = Omit<T, keyof Fields> & Fields;

/** The state of a run. */
export type RunState = Schemas['AnsweringState'];

/** A file of a message; its content is at `/api/files/{fileId}/content`. */
export type WireFile = Schemas['FileRef'];

/** A message as events and snapshots carry it. */
export type WireMessage = Schemas['EventMessage'] &
  With<
    Partial<Omit<Schemas['SnapshotMessage'], keyof Schemas['EventMessage']>>,
    {
      /** In snapshots, on an assistant's message: the run that wrote it. */
      retrievalContext?: { agent_run_id?: string } | null;
    }
  >;

/** What every event of a run carries. `agent` and the fields after it: on events of sub-agents and steps of plans only. */
export type EventBase = Pick<Schemas['TokenEvent'], 'runId' | 'agent' | 'parentRunId' | 'source' | 'stepNumber'>;

/** Sums over the run so far. */
export type Usage = Omit<Schemas['UsageEvent'], 'type' | keyof EventBase>;

export type MessageEvent = With<Schemas['MessageEvent'], { message: WireMessage }>;
export type MetaEvent = Schemas['MetaEvent'];
export type TokenEvent = Schemas['TokenEvent'];
export type ReasoningEvent = Schemas['ReasoningEvent'];
export type ToolEvent = Schemas['McpToolEvent'];
export type ResetEvent = Schemas['ResetEvent'];
export type AgentStateEvent = Schemas['AgentStateEvent'];
export type UsageEvent = Schemas['UsageEvent'];
export type HandoffEvent = Schemas['HandoffEvent'];
export type QuestionOption = Schemas['QuestionOption'];
export type QuestionEvent = Schemas['QuestionEvent'];
export type QuestionAnsweredEvent = Schemas['QuestionAnsweredEvent'];
export type SubAgentEvent = With<Schemas['SubAgentEvent'], { usage?: Usage }>;
export type LimitEvent = Schemas['LimitEvent'];
/** The answer as data, where `outputSchema` asked for it; the message's text is the same as JSON. */
export type OutputEvent = With<Schemas['OutputEvent'], { output: Record<string, unknown> }>;
export type ErrorEvent = Schemas['ErrorEvent'];
export type DoneEvent = With<Schemas['DoneEvent'], { usage?: Usage }>;

/** A step of a plan, as events and the API describe it. */
export type PlanStep = Schemas['EventPlanStep'];
export type WirePlan = Schemas['EventPlan'];
export type PlanEvent = With<
  Schemas['PlanReadyForReviewEvent'],
  Pick<Schemas['PlanCreatedEvent'] | Schemas['PlanReadyForReviewEvent'], 'type'>
>;
export type PlanReviewEvent = Schemas['PlanReviewEvent'];
export type StepEvent = Schemas['StepStartEvent'] | Schemas['StepCompleteEvent'];
export type ExecutorSpawnedEvent = Schemas['ExecutorSpawnedEvent'];
export type ExecutorResultEvent = Schemas['ExecutorResultEvent'];
/** What a call does to which thing, for people. */
export type Operation = Schemas['Operation'];
export type OperationEvent = Schemas['OperationEvent'];
/** The project that a conversation is about, and perhaps one thing in it. */
export type ProjectFocus = With<Schemas['Focus'], { projectName: string }>;
/** Of a conversation, if it is changed without a message: then it has no run. `focus` null: it was removed. */
export type FocusEvent = With<
  Schemas['FocusActiveEvent'] | Schemas['FocusChangedEvent'],
  { type: 'focus_active' | 'focus_changed'; runId?: string; focus: ProjectFocus | null }
>;
export type ContextUsage = Schemas['ContextUsage'];
export type ContextUsageEvent = Schemas['ContextUsageEvent'];
export type ContextShiftEvent = Schemas['ContextShiftEvent'];
export type LastTurnContextEvent = With<Schemas['LastTurnContextEvent'], { context: Record<string, unknown> }>;
/** All that a step asks its user. Each of them also comes as a `question`. */
export type ClarifyingQuestionsEvent = With<Schemas['ClarifyingQuestionsEvent'], { questions: unknown[] }>;
/** An event of a user's program, which it has emitted while it worked. */
export type EmittedEvent = With<Schemas['CustomEvent'], { data: unknown }>;
/** Where the operator has switched them on. */
export type TelemetryEvent = Schemas['TelemetryEvent'];
export type DebugContextEvent = With<Schemas['DebugContextEvent'], { debug: unknown }>;

/** The state of a log up to an event: what stands for all events through that one. */
export type SnapshotEvent = With<Schemas['SnapshotFrame'], { messages: WireMessage[]; turn: SnapshotTurn | null }>;
export type SnapshotTurn = Schemas['SnapshotTurn'];
export type SnapshotToolCall = With<
  Schemas['SnapshotToolCall'],
  {
    /** How much of the text was there before it began, as `String.length` counts. */
    afterText?: number;
  }
>;
export type SnapshotAgent = With<
  Schemas['SnapshotAgent'],
  {
    /** How much of its parent's text was there before it began. */
    afterText?: number;
  }
>;

/** A word about the connection: no part of the log, without a number. */
export interface ConnectionEvent {
  type: (
    | Schemas['OpenFrame']
    | Schemas['CaughtUpFrame']
    | Schemas['GoawayFrame']
    | Schemas['GapFrame']
    | Schemas['RewoundFrame']
  )['type'];
  [field: string]: unknown;
}
/** Of a type that this version does not know. */
export interface UnknownEvent {
  type: '';
  runId?: string;
  [field: string]: unknown;
}

export type RunEvent =
  | MetaEvent
  | TokenEvent
  | ReasoningEvent
  | ToolEvent
  | ResetEvent
  | AgentStateEvent
  | UsageEvent
  | HandoffEvent
  | QuestionEvent
  | QuestionAnsweredEvent
  | SubAgentEvent
  | LimitEvent
  | OutputEvent
  | PlanEvent
  | PlanReviewEvent
  | StepEvent
  | ExecutorSpawnedEvent
  | ExecutorResultEvent
  | OperationEvent
  | ContextUsageEvent
  | ContextShiftEvent
  | LastTurnContextEvent
  | ClarifyingQuestionsEvent
  | EmittedEvent
  | TelemetryEvent
  | DebugContextEvent
  | ErrorEvent
  | DoneEvent;
/** Whatever a stream may carry. */
export type WireEvent = RunEvent | FocusEvent | MessageEvent | SnapshotEvent | ConnectionEvent | UnknownEvent;

/** The answer to a message that was stored. A reader that starts after `cursor` sees the whole turn. */
export type Accepted = Schemas['Accepted'];

export interface Page<T> {
  items: T[];
  /** None: this was the last page. */
  nextCursor: string | null;
}

export type Conversation = With<Required<Schemas['ConversationBody']>, { metadata: Record<string, unknown> }>;

/** What `prewarm` answers. What was read is used for `keptS` seconds, unless the project changes. */
export type Prewarmed = With<Schemas['Prewarmed'], { session: Conversation }>;

/** A message as `conversations.messages` lists it. */
export type StoredMessage = WireMessage & {
  conversationId: string;
  /** Of a result of a tool, which `include=tools` gives: its call, and the tool. */
  toolCallId?: string;
  toolName?: string;
  metadata: Record<string, unknown>;
  seq: number;
};

/** A run. `doneSeq` is the number of its `done`. */
export type Run = With<Required<Schemas['RunDetail']>, { state: RunState; usage: Partial<Usage> }> & {
  [field: string]: unknown;
};

/** A question as the questions' own endpoints show it. */
export type StoredQuestion = With<
  Required<Omit<Schemas['QuestionBody'], 'toolCallId'>>,
  {
    kind: 'ask' | 'confirm' | 'plan' | 'client_tool';
    options: QuestionOption[];
    status: 'pending' | 'answered' | 'expired' | 'cancelled';
  }
>;

/** An agent that is meant for programs outside. */
export type Agent = Schemas['AgentItem'];
