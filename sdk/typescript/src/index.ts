/**
 * Tools and agents in TypeScript, for Rejoin: the worker protocol (docs/reference/worker-protocol.md). And its webhooks.
 *
 * Pure, without I/O:
 *
 * - `schemas`      schemas of zod and JSON Schemas: what is announced, and how values are read
 * - `tool`         `tool`
 * - `agent`        `agent`: of a function; `promptedAgent`: of a prompt; `agentTexts`: their names and descriptions
 * - `callContext`  what a function can know and do about its call
 * - `steps`        steps of durable functions, recorded once; `modelCalls`: those that ask language models
 * - `answers`      what functions publish while they work
 * - `outcomes`     how a call has ended: results and errors become JSON
 * - `requests`     the requests of the protocol, and what they return
 * - `heldCalls`    the calls that this worker has, their leases, and why they are stopped
 * - `settings`     where the API is
 * - `webhooks`     `verifyWebhook`, `signWebhook`
 * - `limits`, `errors`
 *
 * With I/O:
 *
 * - `surroundings`, `signals`, `clock`, `changes`, `logger`  the process, time, and waiting
 * - `http`         one request
 * - `connection`   the registration, and requests to the API
 * - `handler`      calls functions
 * - `execution`    one call, from its claim to its recorded result
 * - `session`      heartbeats, claims, and an orderly end
 * - `worker`       `Worker`
 */
export {
  type AgentDefinition,
  AgentFunction,
  type AgentInput,
  type AgentOptions,
  type AnyAgent,
  agent,
  type Said,
} from './agent.js';
export type { Emitted } from './answers.js';
export {
  type AnswerOf,
  CallContext,
  type CallFields,
  type EventOptions,
  type SpawnOptions,
  type StepOptions,
} from './callContext.js';
export {
  APIError,
  CallCancelledError,
  ConfigurationError,
  RejoinError,
  ResponseError,
  RetryCall,
  SignalTimeoutError,
  StepChangedError,
  StepFailedError,
  StepOutcomeUnknownError,
  ToolFailure,
  UnreachableError,
  WebhookVerificationError,
} from './errors.js';
export type { AnyTool } from './handler.js';
export type { Limits } from './limits.js';
export type { Logger } from './logger.js';
export type { ModelAnswer, ModelMessage, ModelOptions, ModelOutputOf, ModelUsage, Prompt } from './modelCalls.js';
export { PromptedAgent, type PromptedAgentDefinition, type PromptedAgentOptions } from './promptedAgent.js';
export type { JsonSchema, Schema } from './schemas.js';
export type { ApiKey } from './settings.js';
export { type AgentResult, type AskOptions, Journal, type QuestionOption, type RecordedStep } from './steps.js';
export {
  type ArgumentsOf,
  type ResultOf,
  Tool,
  type ToolDefinition,
  type ToolOptions,
  tool,
  type WhenAbsent,
} from './tool.js';
export type { Fetch } from './transport.js';
export {
  type SignedHeaders,
  signWebhook,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookSignOptions,
  type WebhookVerifyOptions,
} from './webhooks.js';
export { Worker, type WorkerOptions } from './worker.js';
