/**
 * The types of the wire: what the API sends and accepts. Nothing here exists at run time.
 *
 * A log may hold types of events that this version does not know: they arrive as {@link UnknownEvent} and change nothing.
 */

/** The state of a run. */
export type RunState = 'queued' | 'running' | 'waiting' | 'paused' | 'completed' | 'failed' | 'cancelled';

/** A file of a message; its content is at `/api/files/{fileId}/content`. */
export interface WireFile {
  fileId: string;
  name: string;
  /** By its content. */
  mediaType: string;
  sizeBytes: number;
  sha256: string;
}

/** A message as events and snapshots carry it. */
export interface WireMessage {
  id: string;
  role: 'user' | 'assistant' | 'system';
  content: string;
  /** RFC 3339. */
  createdAt: string;
  attachedContext?: unknown;
  /** The files that came with it. */
  attachments?: WireFile[];
  citations?: unknown[] | null;
  /** In snapshots, on an assistant's message: the run that wrote it. */
  retrievalContext?: { agent_run_id?: string } | null;
  /** In snapshots, on a user's message: the run that answers it, and how that stands. */
  runId?: string | null;
  runState?: RunState | null;
  /** In snapshots: the number of its event. */
  seq?: number;
}

/** Sums over the run so far. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
  /** Of the input: read from the provider's prompt cache. */
  cachedTokens?: number;
  /** Of the input: written to the provider's prompt cache. */
  cacheWriteTokens?: number;
  /** Of the output: spent on reasoning. */
  reasoningTokens?: number;
  costUsd?: number;
  steps: number;
}

/** What every event of a run carries. */
export interface EventBase {
  runId: string;
  /** Sub-agents and steps of plans only, like the next three. */
  agent?: string;
  parentRunId?: string;
  source?: 'agent' | 'planner' | 'plan_step' | 'sub_agent';
  stepNumber?: number;
}

export interface MessageEvent {
  type: 'message';
  message: WireMessage;
  /** The run that answers it, that wrote it, or that it is told to. */
  runId?: string;
  parentRunId?: string;
}
export interface MetaEvent extends EventBase {
  type: 'meta';
  conversationId?: string;
  agentDefinitionId?: string;
  /** The model that answers. */
  model?: string;
  /** The one that the definition names, where it is another one. */
  modelRequested?: string;
  /** The day on which that one was retired by its provider. */
  modelRetiredOn?: string;
  citations?: unknown[];
  attempt?: number;
}
export interface TokenEvent extends EventBase {
  type: 'token';
  token: string;
}
export interface ReasoningEvent extends EventBase {
  type: 'reasoning';
  text: string;
}
export interface ToolEvent extends EventBase {
  type: 'mcp_tool';
  callId: string;
  tool: string;
  status: 'started' | 'completed' | 'error';
  input?: unknown;
  result?: unknown;
  error?: string;
  durationMs?: number;
}
export interface ResetEvent extends EventBase {
  type: 'reset';
  /** The run's events with a larger number, up to this one, are void. */
  discardAfter: number;
  attempt: number;
  reason: string;
}
export interface AgentStateEvent extends EventBase {
  type: 'agent_state';
  state: string;
  details?: unknown;
  /** As the turn begins, of a conversation that is about something. */
  contextType?: string;
}
export interface UsageEvent extends EventBase, Usage {
  type: 'usage';
}
export interface HandoffEvent extends EventBase {
  type: 'handoff';
  from: string;
  to: string;
  reason?: string;
}
export interface QuestionOption {
  label: string;
  value: string;
  description?: string;
}
export interface QuestionEvent extends EventBase {
  type: 'question';
  questionId: string;
  question: string;
  options: QuestionOption[];
  /** `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`. */
  interactionType: string;
  /** The step's `clarifying_questions` has it, too: the user's next message may answer it. */
  clarifying?: boolean;
  /** With `client_tool`: the call that the client executes, its tool and its arguments. The answer is its output. */
  callId?: string;
  tool?: string;
  input?: unknown;
}
export interface QuestionAnsweredEvent extends EventBase {
  type: 'question_answered';
  questionId: string;
  status: 'answered' | 'expired' | 'cancelled';
  answer?: unknown;
}
export interface SubAgentEvent extends EventBase {
  type: 'sub_agent';
  status: 'started' | 'completed' | 'failed' | 'cancelled' | 'paused';
  task?: string;
  summary?: string;
  error?: string;
  code?: string;
  usage?: Usage;
}
export interface LimitEvent extends EventBase {
  type: 'limit';
  limit: string;
  message: string;
}
/** The answer as data, where `outputSchema` asked for it; the message's text is the same as JSON. */
export interface OutputEvent extends EventBase {
  type: 'output';
  output: Record<string, unknown>;
}
export interface ErrorEvent extends EventBase {
  type: 'error';
  error: string;
  code: string;
  retryable: boolean;
}
export interface DoneEvent extends EventBase {
  type: 'done';
  status: 'completed' | 'failed' | 'cancelled' | 'paused';
  finalMessageId?: string;
  usage?: Usage;
}

/** A step of a plan, as events and the API tell of it. */
export interface PlanStep {
  stepNumber: number;
  /** What kind of work it is, such as `research` or `action`. */
  type: string;
  description: string;
  executorRequired: boolean;
  tools: string[];
  dependsOn: number[];
  status: 'pending' | 'executing' | 'completed' | 'failed' | 'skipped';
  result?: string;
  error?: string;
}
export interface WirePlan {
  id: string;
  runId: string;
  revisesPlanId: string | null;
  objective: string;
  executionMode: 'auto_execute' | 'draft_only' | 'agent_review';
  /** `pending_review`, `executing`, `completed`, `completed_with_errors`, `failed`, … */
  status: string;
  version: number;
  steps: PlanStep[];
}
export interface PlanEvent extends EventBase {
  type: 'plan_created' | 'plan_ready_for_review';
  plan: WirePlan;
  summary?: string;
  recommendations?: string[];
}
export interface PlanReviewEvent extends EventBase {
  type: 'plan_review';
  plan: WirePlan;
  verdict: 'approved' | 'changes_requested' | 'rejected';
  notes?: string;
  /** `user`, `rules`, or an agent's name. */
  reviewer?: string;
}
export interface StepEvent extends EventBase {
  type: 'step_start' | 'step_complete';
  step: PlanStep & { planId: string; attempt?: number };
}
export interface ExecutorSpawnedEvent extends EventBase {
  type: 'executor_spawned';
  /** The run that does the step. */
  executorId: string;
  task: { planId: string; stepNumber: number; description: string; tools?: string[] | null; agent?: string | null };
}
export interface ExecutorResultEvent extends EventBase {
  type: 'executor_result';
  executorId: string;
  result: { success: boolean; summary?: string | null; error?: string | null };
}
/** What a call does to which thing, for people. */
export interface Operation {
  action: string;
  entity_type: string;
  entity_name: string;
  status: 'start' | 'success' | 'error';
  entity_id?: string;
}
export interface OperationEvent extends EventBase {
  type: 'operation';
  operation: Operation;
}
/** The project that a conversation is about, and perhaps one thing in it. */
export interface ProjectFocus {
  projectId: string;
  projectName: string;
  focusType?: string;
  focusEntityId?: string;
}
/** Of a conversation, if it is changed without a message: then it has no run. */
export interface FocusEvent {
  type: 'focus_active' | 'focus_changed';
  runId?: string;
  /** null: the focus was removed. */
  focus: ProjectFocus | null;
}
export interface ContextUsage {
  estimatedTokens: number;
  tokenBudget: number;
  /** At most 999. */
  usagePercent: number;
  tokensRemaining: number;
  status: 'ok' | 'near_limit' | 'over_budget';
  /** What the model takes in all, where that is known. */
  modelContextTokens?: number;
}
export interface ContextUsageEvent extends EventBase {
  type: 'context_usage';
  usage: ContextUsage;
}
export interface ContextShiftEvent extends EventBase {
  type: 'context_shift';
  context_shift: { new_context: string; entity_id: string; entity_name: string; entity_type: string; message: string };
}
export interface LastTurnContextEvent extends EventBase {
  type: 'last_turn_context';
  context: Record<string, unknown>;
}
/** All that a step asks its user. Each of them also comes as a `question`. */
export interface ClarifyingQuestionsEvent extends EventBase {
  type: 'clarifying_questions';
  questions: unknown[];
}
/** Where the operator has switched them on. */
export interface TelemetryEvent extends EventBase {
  type: 'telemetry';
  name: string;
  data: unknown;
}
export interface DebugContextEvent extends EventBase {
  type: 'debug_context';
  debug: unknown;
}

/** The state of a log up to an event: what stands for all events through that one. */
export interface SnapshotEvent {
  type: 'snapshot';
  through: number;
  /** The newest 200. */
  messages: WireMessage[];
  /** The turn that has not ended. */
  turn: SnapshotTurn | null;
}
export interface SnapshotTurn {
  runId: string;
  meta?: MetaEvent;
  text: string;
  reasoning?: string;
  toolCalls: SnapshotToolCall[];
  agents?: SnapshotAgent[];
  questions?: QuestionEvent[];
  /** Its newest plan, with its steps as they stand. */
  plan?: WirePlan;
  operations?: Operation[];
  contextUsage?: ContextUsage;
}
export interface SnapshotToolCall {
  callId: string;
  tool: string;
  status: ToolEvent['status'];
  input?: unknown;
  result?: unknown;
  error?: string;
  /** How much of the text was there before it began, as `String.length` counts. */
  afterText?: number;
}
export interface SnapshotAgent {
  runId: string;
  parentRunId?: string;
  agent?: string;
  /** `plan_step`, where it does a step of the plan. */
  source?: string;
  stepNumber?: number;
  status: SubAgentEvent['status'];
  task?: string;
  text: string;
  toolCalls?: SnapshotToolCall[];
  /** How much of its parent's text was there before it began. */
  afterText?: number;
}

/** A word about the connection: no part of the log, without a number. */
export interface ConnectionEvent {
  type: 'open' | 'caught_up' | 'goaway' | 'gap';
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
  | TelemetryEvent
  | DebugContextEvent
  | ErrorEvent
  | DoneEvent;
/** Whatever a stream may carry. */
export type WireEvent = RunEvent | FocusEvent | MessageEvent | SnapshotEvent | ConnectionEvent | UnknownEvent;

/** The answer to a message that was stored. */
export interface Accepted {
  conversationId: string;
  messageId: string;
  runId: string;
  /** A reader that starts after this number sees the whole turn. */
  cursor: number;
}

export interface Page<T> {
  items: T[];
  /** None: this was the last page. */
  nextCursor: string | null;
}

export interface Conversation {
  id: string;
  title: string;
  agentDefinitionId: string | null;
  metadata: Record<string, unknown>;
  createdAt: string;
  updatedAt: string;
}

/** What `prewarm` answers. */
export interface Prewarmed {
  /** Whether there was a project to read, and it was read. */
  warmed: boolean;
  session: Conversation;
  /** Whether the conversation was made by this request. */
  created: boolean;
  /** What was read is used for so long, unless the project changes [s]. */
  keptS: number;
}

/** A message as `conversations.messages` lists it. */
export interface StoredMessage extends WireMessage {
  conversationId: string;
  /** Of a result of a tool, which `include=tools` gives: its call, and the tool. */
  toolCallId?: string;
  toolName?: string;
  metadata: Record<string, unknown>;
  seq: number;
}

export interface Run {
  id: string;
  state: RunState;
  conversationId: string | null;
  agentDefinitionId: string | null;
  agent: string | null;
  parentRunId: string | null;
  rootRunId: string;
  depth: number;
  model: string | null;
  stepCount: number;
  totalSteps: number;
  attempt: number;
  durationMs: number | null;
  error: string | null;
  errorCode: string | null;
  usage: Partial<Usage>;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  input: string;
  summary: string | null;
  /** The user's message that it answers. */
  messageId: string | null;
  finalMessageId: string | null;
  cursor: number;
  /** The number of its `done`. */
  doneSeq: number | null;
  [field: string]: unknown;
}

/** A question as the questions' own endpoints show it. */
export interface StoredQuestion {
  id: string;
  runId: string;
  kind: 'ask' | 'confirm' | 'plan' | 'client_tool';
  question: string;
  options: QuestionOption[];
  interactionType: string;
  placeholder: string | null;
  maxLength: number | null;
  status: 'pending' | 'answered' | 'expired' | 'cancelled';
  answer: unknown;
  createdAt: string;
  answeredAt: string | null;
}

/** An agent that is meant for programs outside. */
export interface Agent {
  id: string;
  name: string;
  description: string;
  flowType: string;
  isDefault: boolean;
}
