/** The error of a failed request, with the fields of the API's `application/problem+json`. */
export class RejoinError extends Error {
  override readonly name = 'RejoinError';

  constructor(
    /** The HTTP status; 0: there was no answer. */
    readonly status: number,
    /** A stable word for programs, e.g. `run_not_found`. Without an answer: `unreachable`, `timeout` or `closed`. */
    readonly code: string,
    /** What went wrong this time, in words. */
    readonly detail: string,
    /** How long the server wants to be left alone [s]. */
    readonly retryAfter?: number,
    /** Further fields of the problem. */
    readonly problem: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(status ? `${detail} (${status} ${code})` : detail, options);
  }

  /** Of an answer that is no success. */
  static async of(response: Response): Promise<RejoinError> {
    let problem: Record<string, unknown> = {};
    try {
      problem = Object((await response.json()) as unknown);
    } catch {
      // Something between us and the API has answered.
    }
    const text = (field: string) => (typeof problem[field] === 'string' ? (problem[field] as string) : '');
    const detail = text('detail') || text('title') || response.statusText || 'the request failed';
    return new RejoinError(response.status, text('code') || 'http_error', detail, retryAfterS(response), problem);
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return this.status === 0 ? this.code !== 'closed' : [429, 502, 503, 504].includes(this.status);
  }
}

/** `Retry-After`, as seconds or as a date. */
function retryAfterS(response: Response): number | undefined {
  const header = response.headers.get('retry-after');
  if (!header) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
