/** The types of a transcript's view. All of it is immutable: an unchanged part is the same object as before. */
import type {
  ContextUsage,
  Operation,
  PlanStep,
  ProjectFocus,
  QuestionOption,
  Usage,
  WireFile,
  WirePlan,
} from './wire.js';

/** `queued`, until its `meta`; `waiting`: for a person or for sub-agents. The last four are over. */
export type TurnStatus = 'queued' | 'running' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'paused';

export interface Message {
  readonly id: string;
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** The run that answers it, that wrote it, or that received it while at work, as far as that is known. */
  readonly runId?: string;
  readonly attachedContext?: unknown;
  /** The files that came with it. */
  readonly attachments?: readonly WireFile[];
  readonly citations?: readonly unknown[];
}

export interface TextPart {
  readonly type: 'text' | 'reasoning';
  readonly text: string;
}
export interface ToolCall {
  readonly type: 'tool';
  readonly callId: string;
  readonly tool: string;
  readonly status: 'running' | 'completed' | 'error';
  readonly input?: unknown;
  readonly output?: unknown;
  readonly error?: string;
  /** When it was seen to start, by this machine's clock [ms since 1970]; not of calls that a snapshot contained. */
  readonly startedAt?: number;
  readonly durationMs?: number;
}
export interface AgentPart {
  readonly type: 'agent';
  readonly turn: Turn;
}
/** A message that the user sent to the run while it was at work. */
export interface ToldPart {
  readonly type: 'message';
  readonly message: Message;
}
/** From here on another agent answers. */
export interface HandoffPart {
  readonly type: 'handoff';
  readonly from: string;
  readonly to: string;
  readonly reason?: string;
}
export type Part = TextPart | ToolCall | AgentPart | ToldPart | HandoffPart;

export interface Question {
  readonly questionId: string;
  readonly runId: string;
  readonly question: string;
  readonly options: readonly QuestionOption[];
  readonly interactionType: string;
  readonly status: 'pending' | 'answered' | 'expired' | 'cancelled';
  readonly answer?: unknown;
}

/** A plan with its steps as they stand. */
export interface Plan extends Omit<WirePlan, 'steps'> {
  readonly steps: readonly StepView[];
  /** The summary that was shown to the reviewer. */
  readonly summary?: string;
  readonly recommendations?: readonly string[];
  /** What came out of its review. */
  readonly verdict?: string;
  readonly notes?: string;
  readonly reviewer?: string;
}
export interface StepView extends PlanStep {
  /** From 1. */
  readonly attempt?: number;
  /** The run that does it, or did so last. */
  readonly executorId?: string;
}

export interface Notice {
  /**
   * `resumed`: a worker was lost, or handed over, and another one goes on; `reconnected`: the connection was lost for a while;
   * `rejoined`: what came before is no longer kept, and a snapshot stands for it; `rewound`: the server has lost the last events,
   * and the transcript begins again with what it has.
   */
  readonly kind: 'resumed' | 'reconnected' | 'rejoined' | 'rewound';
  /** For people. */
  readonly text: string;
  readonly runId?: string;
  readonly attempt?: number;
  readonly step?: number;
  readonly reason?: string;
  readonly outageMs?: number;
}

/** An event that a user's program has emitted while it worked. */
export interface Emitted {
  readonly name: string;
  readonly data: unknown;
  /** The call of the tool that it comes from. None: the program executes the turn itself. */
  readonly callId?: string;
}

/** An event for developers, as it came. */
export interface Detail {
  readonly type: 'telemetry' | 'debug_context';
  readonly value: unknown;
}

export interface Turn {
  /** Unique in its transcript: the run's id, and its number from a run's second turn on. */
  readonly id: string;
  readonly runId: string;
  readonly parentRunId?: string;
  readonly source?: string;
  readonly stepNumber?: number;
  /** Of a plan's step: which plan's, as far as that is known. */
  readonly planId?: string;
  readonly status: TurnStatus;
  readonly agent?: string;
  readonly agentDefinitionId?: string;
  readonly model?: string;
  readonly attempt: number;
  /** The user's message that it answers, as far as that is known. */
  readonly messageId?: string;
  /** The assistant's message that it ended with. */
  readonly message?: Message;
  /** It ended before we came, and only the text of its message is here. `Follower.complete` fetches the rest. */
  readonly partial?: boolean;
  /** In the order in which they happened. */
  readonly parts: readonly Part[];
  /** All of its text parts, one behind the other: what `message.content` will be. */
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Its sub-agents. */
  readonly agents: readonly Turn[];
  readonly questions: readonly Question[];
  readonly citations: readonly unknown[];
  readonly usage?: Usage;
  /** The answer as data, where `outputSchema` asked for it. */
  readonly output?: Record<string, unknown>;
  /** Its newest plan. */
  readonly plan?: Plan;
  /** What its calls did to which things: the latest state of each, in the order in which they began. */
  readonly operations: readonly Operation[];
  readonly limits: readonly { readonly limit: string; readonly message: string }[];
  readonly errors: readonly { readonly error: string; readonly code: string; readonly retryable: boolean }[];
  readonly notices: readonly Notice[];
  /** Events that users' programs have emitted: the newest 200. Those before a snapshot are missing: it has none. */
  readonly events?: readonly Emitted[];
  /** Events for developers about how the turn came about. Only a development server sends them. */
  readonly details?: readonly Detail[];
  /** Of a sub-agent: what it was given, and what came out of it. */
  readonly task?: string;
  readonly summary?: string;
}

export type Item =
  | { readonly type: 'message'; readonly message: Message }
  | { readonly type: 'turn'; readonly turn: Turn };

export interface TranscriptView {
  /** What a chat shows, in order: users' messages, and the turns that answer them. */
  readonly items: readonly Item[];
  /** All stored messages that are known, in the order of the log. */
  readonly messages: readonly Message[];
  /** All turns that are known, without sub-agents. */
  readonly turns: readonly Turn[];
  /** The turn that is under way; else the first that waits for its worker. */
  readonly active?: Turn;
  /** What people are asked and have not answered, sub-agents' questions among them. */
  readonly questions: readonly Question[];
  /** About the connection; those about a run are the turn's. The newest 50. */
  readonly notices: readonly Notice[];
  /** The project in focus, once an event has named one; null: no project is in focus. */
  readonly focus?: ProjectFocus | null;
  /** The kind of conversation, once an event has named it. */
  readonly contextType?: string;
  /** How full the model's context is, once an event has reported it. */
  readonly contextUsage?: ContextUsage;
  /** The number of the last event that is in it. */
  readonly cursor: number;
}
