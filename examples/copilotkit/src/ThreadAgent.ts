// HttpAgent for Rejoin: it opens threads, survives lost connections, and ends runs.
import { HttpAgent, type RunAgentInput, runHttpRequest, transformHttpEventStream } from '@ag-ui/client';
import { type RunEvent, resumingFetch } from './resuming-fetch';

const API = '/api/ag-ui';

export class ThreadAgent extends HttpAgent {
  private activeRun: string | null = null;

  constructor(threadId: string) {
    super({ url: API, threadId });
    this.fetch = async (url, init) => {
      const response = await resumingFetch(url, init, withKnownOutcome);
      this.activeRun = response.headers.get('x-run-id');
      return response;
    };
  }

  /** Streams the messages of the thread, then its active run. HttpAgent leaves this method to its user. */
  protected override connect({ threadId }: RunAgentInput) {
    const events = `${API}/threads/${encodeURIComponent(threadId)}/events`;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(events, { headers: this.headers })));
  }

  /** Ends the run, and with it the stream. HttpAgent's own method only stops reading. */
  override abortRun() {
    if (this.activeRun) void fetch(`/api/runs/${this.activeRun}/cancel`, { method: 'POST', headers: this.headers });
  }
}

/** Removes the outcomes of AG-UI 1.0 that version 0.0.59 of the client refuses: `cancelled`, and `success` with `pendingToolCallIds`. */
function withKnownOutcome(event: RunEvent) {
  if (event.type === 'RUN_FINISHED' && event.outcome?.type !== 'interrupt') delete event.outcome;
}
