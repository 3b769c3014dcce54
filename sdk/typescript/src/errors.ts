/**
 * All errors of this package. Each is a `RejoinError`.
 *
 * - `ConfigurationError`   there is no API key
 * - `UnreachableError`     no response
 * - `APIError`             a response that is not a success
 * - `ResponseError`        a response that this version can't read
 * - `ToolFailure`          thrown by a tool: an error for the model
 * - `RetryCall`            thrown by a tool: nothing has happened, call it again
 * - `CallCancelledError`   the reason of `call.signal`: the result of the call is not wanted
 * - `WebhookVerificationError`  the request is not a genuine webhook
 *
 * In a durable function:
 *
 * - `StepFailedError`          the step has failed
 * - `StepOutcomeUnknownError`  a worker was lost during the step
 * - `StepChangedError`         its steps differ from those of an earlier execution
 * - `SignalTimeoutError`       the signal did not come in time
 */

const HINTS: Readonly<Record<number, string>> = {
  401: 'set REJOIN_API_KEY, or pass apiKey, to a key of this server; `rejoin keys create --scopes worker` creates one',
  403: 'the key lacks the required scope; `rejoin keys create --scopes worker` creates one for workers',
};
/** Statuses below 500 after which the same request may succeed later. */
const TEMPORARY = [408, 429];
/** Statuses from 500 on after which it will not. */
const PERMANENT = [501, 505, 507];

export class RejoinError extends Error {
  override readonly name: string = 'RejoinError';

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return false;
  }
}

/** The worker lacks a setting. The message explains how to provide it. */
export class ConfigurationError extends RejoinError {
  override readonly name = 'ConfigurationError';
}

/** The API did not respond: no connection, no response in time, or a response that was cut off. */
export class UnreachableError extends RejoinError {
  override readonly name = 'UnreachableError';

  override get temporary(): boolean {
    return true;
  }
}

/** The response is not as this version expects it: the URL may be that of another program. */
export class ResponseError extends RejoinError {
  override readonly name = 'ResponseError';
}

/** The response is not a success. */
export class APIError extends RejoinError {
  override readonly name = 'APIError';

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** A stable identifier for programs, such as `tool_conflict`. `http_error`: the response does not come from the API. */
    readonly code: string,
    /** What went wrong. */
    readonly detail: string,
    /** How long the server asks to wait before the next request, in seconds. */
    readonly retryAfterS?: number,
    /** The whole response. */
    readonly problem: Readonly<Record<string, unknown>> = {},
  ) {
    const hint = HINTS[status];
    super(`${detail} (${status} ${code})${hint ? `; ${hint}` : ''}`);
  }

  override get temporary(): boolean {
    return TEMPORARY.includes(this.status) || (this.status >= 500 && !PERMANENT.includes(this.status));
  }

  /**
   * Whether the API itself has refused, so that the same request will not succeed later. Refusals of a proxy in between pass with its
   * restart.
   */
  get final(): boolean {
    return !this.temporary && this.code !== 'http_error';
  }
}

/**
 * Thrown by a tool: the call ends as an error, and the model reads this text. It is not repeated.
 *
 * Example: `throw new ToolFailure('There is no order A-7. Ask for the number on the invoice.')`.
 */
export class ToolFailure extends RejoinError {
  override readonly name = 'ToolFailure';
}

/**
 * Thrown by a tool: nothing has happened, and the call is handed out again, after 1 s that doubles, at most 5 times. The text is the reason,
 * for the model if no attempt succeeds.
 */
export class RetryCall extends RejoinError {
  override readonly name = 'RetryCall';
}

/** The reason of `call.signal`: the result of the call is not wanted, or another attempt has the call. Clean up and leave. */
export class CallCancelledError extends RejoinError {
  override readonly name = 'CallCancelledError';
}

/** In a durable function: the step has failed, in this execution or in an earlier one. The text is the recorded error. */
export class StepFailedError extends RejoinError {
  override readonly name = 'StepFailedError';
}

/**
 * In a durable function: a worker was lost during the step, which may have taken effect, and is not repeated. Catch it to find out, or mark a
 * step that may be repeated as `idempotent`.
 */
export class StepOutcomeUnknownError extends RejoinError {
  override readonly name = 'StepOutcomeUnknownError';
}

/** In a durable function: it asks for other steps than in an earlier execution of the same call. The text names both. */
export class StepChangedError extends RejoinError {
  override readonly name = 'StepChangedError';
}

/** In a durable function: the signal that it waits for did not come in time. */
export class SignalTimeoutError extends RejoinError {
  override readonly name = 'SignalTimeoutError';
}

/** The request is not a genuine webhook, or it is too old. */
export class WebhookVerificationError extends RejoinError {
  override readonly name = 'WebhookVerificationError';
}

/** Returns the error for a response that is not a success. */
export function errorOf(status: number, body: string, retryAfter: string | null, nowMs = Date.now()): APIError {
  let problem: Record<string, unknown> = {};
  try {
    problem = Object(JSON.parse(body)) as Record<string, unknown>;
  } catch {
    // A proxy has responded.
  }
  return problemError(problem, status, retryAfterS(retryAfter, nowMs));
}

/** Returns the error for a problem of the API. `status`: that of its response. */
export function problemError(
  problem: Readonly<Record<string, unknown>>,
  status = Number(problem.status),
  retryAfterS?: number,
): APIError {
  const text = (field: string) => (typeof problem[field] === 'string' ? (problem[field] as string) : '');
  const detail = text('detail') || text('title') || `the response has status ${status}`;
  return new APIError(status, text('code') || 'http_error', detail, retryAfterS, problem);
}

/** Returns the seconds that a `Retry-After` header names, as a number or as a date. */
function retryAfterS(header: string | null, nowMs: number): number | undefined {
  if (!header) return undefined;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : (Date.parse(header) - nowMs) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
