/** The context of a conversation, from its newest events. Invariant: after a reset it is what it would be without the void events. */
import type { TranscriptView } from './view.js';
import type { WireEvent } from './wire.js';

export type AboutView = Pick<TranscriptView, 'focus' | 'contextType' | 'contextUsage'>;

/** Changes that are kept one by one. Older ones are merged into one, which no reset reaches. */
const KEPT_MAX = 100;

export class About {
  /** Oldest first. */
  #changes: { seq: number; runId?: string | undefined; change: AboutView }[] = [];
  #view: AboutView = {};

  get view(): AboutView {
    return this.#view;
  }

  /** Applies an event. True: it concerns the context. */
  apply(seq: number, event: WireEvent): boolean {
    if (event.type === 'reset') {
      const { runId, discardAfter } = event as { runId: string; discardAfter: number };
      this.#changes = this.#changes.filter((one) => one.runId !== runId || one.seq <= discardAfter);
    } else {
      const change = changeOf(event);
      if (!change) return false;
      this.#changes.push({ seq, runId: (event as { runId?: string }).runId, change });
      if (this.#changes.length > KEPT_MAX) {
        const [first, second, ...rest] = this.#changes;
        if (first && second) this.#changes = [{ ...second, change: { ...first.change, ...second.change } }, ...rest];
      }
    }
    this.#view = Object.assign({}, ...this.#changes.map((one) => one.change)) as AboutView;
    return true;
  }

  clear(): void {
    this.#changes = [];
    this.#view = {};
  }
}

/** What an event changes in the context; undefined: nothing. */
function changeOf(event: WireEvent): AboutView | undefined {
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
