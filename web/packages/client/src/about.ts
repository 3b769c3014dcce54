/** The context of a conversation, from its newest events. Invariant: after a reset it is what it would be without the void events. */
import type { TranscriptView } from './view.js';
import type { WireEvent } from './wire.js';

export type AboutView = Pick<TranscriptView, 'focus' | 'contextType' | 'contextUsage'>;

/** Words that are kept; those before them are one, which no reset reaches. */
const KEPT_MAX = 100;

export class About {
  /** Oldest first; each holds what was so after it. */
  #told: { seq: number; runId?: string | undefined; change: AboutView }[] = [];
  #view: AboutView = {};

  get view(): AboutView {
    return this.#view;
  }

  /** Whether it says something of this. */
  apply(seq: number, event: WireEvent): boolean {
    if (event.type === 'reset') {
      const { runId, discardAfter } = event as { runId: string; discardAfter: number };
      this.#told = this.#told.filter((one) => one.runId !== runId || one.seq <= discardAfter);
    } else {
      const change = said(event);
      if (!change) return false;
      this.#told.push({ seq, runId: (event as { runId?: string }).runId, change });
      if (this.#told.length > KEPT_MAX) {
        const [first, second, ...rest] = this.#told;
        if (first && second) this.#told = [{ ...second, change: { ...first.change, ...second.change } }, ...rest];
      }
    }
    this.#view = Object.assign({}, ...this.#told.map((one) => one.change)) as AboutView;
    return true;
  }

  clear(): void {
    this.#told = [];
    this.#view = {};
  }
}

function said(event: WireEvent): AboutView | undefined {
  switch (event.type) {
    case 'focus_active':
    case 'focus_changed':
      return { focus: event.focus ?? null };
    case 'context_usage':
      return { contextUsage: event.usage };
    case 'context_shift':
      return { contextType: event.context_shift.new_context };
    case 'agent_state':
      return event.contextType ? { contextType: event.contextType } : undefined;
    default:
      return undefined;
  }
}
