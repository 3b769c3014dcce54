/**
 * Follows one log: keeps its connection open across failures, and feeds its transcript. All followers of a conversation share it.
 *
 * Invariants: every event counts once, in order; a connection that closes before the end of the log is reopened with the cursor;
 * there is one connection at a time.
 */
import { pauseMs } from './backoff.js';
import { acquireSlot, POLL_MS } from './connectionSlots.js';
import { RejoinError } from './error.js';
import type { Http } from './http.js';
import type { Frame } from './sse.js';
import { SseParser } from './sse.js';
import { isHidden, isOffline, safely, watchSurroundings } from './surroundings.js';
import { Transcript } from './transcript.js';
import type { Run, WireEvent } from './wire.js';

/**
 * `connecting`: for the first time, or again; `live`; `paused`: the page is hidden; `offline`: the browser says so; `ended`: a
 * run is over, the API refused (see the error), or it was closed.
 */
export type FollowStatus = 'connecting' | 'live' | 'paused' | 'offline' | 'ended';
/** `snapshot`: the state so far; `beginning`: all events; `now`: only new ones; a number: those after it. */
export type Start = 'snapshot' | 'beginning' | 'now' | number;

export interface LogOptions {
  /** A stream says something at least this often [ms]: the deployment's `REJOIN_HEARTBEAT_S`, or 10 s. */
  heartbeatMs: number;
  /** A page that is hidden for longer gives its connection up [ms]. */
  hiddenMs: number;
}

export interface Listener {
  event?(event: WireEvent, seq: number | undefined): void;
  status?(status: FollowStatus, error: RejoinError | undefined): void;
}

/** Heartbeats that may be missed. */
const SILENCE_HEARTBEATS = 2.5;
/** Shorter outages are not worth a word [ms]. */
const NOTICE_MS = 1000;
/** A server may ask for more patience, up to this [ms]. */
const RETRY_AFTER_MAX_MS = 30_000;

export class Log {
  readonly transcript = new Transcript();
  readonly listeners = new Set<Listener>();
  status: FollowStatus = 'connecting';
  error: RejoinError | undefined;
  /** Events have been delivered: who comes now does not get those. */
  hasDelivered = false;
  readonly #http: Http;
  readonly #path: string;
  /** Of one run: its events have gaps between their numbers, and an end. */
  readonly #runId: string | undefined;
  readonly #options: LogOptions;
  #start: Start;
  #cursor: number | undefined;
  /** The epoch of the database in which the events up to the cursor were received, as the server names it. */
  #epoch: string | undefined;
  #over = false;
  /** No connection slot was free: this connection reads up to `caught_up`, closes, and polls again. */
  #isPolling = false;
  /** The network, or the one who looks, is back. */
  #atOnce = false;
  #attempt = 0;
  /** How often it has joined again since the last event that came after a snapshot. */
  #rejoins = 0;
  #retryMs = 0;
  #receivedAt = 0;
  #lostAt: number | undefined;
  #hiddenSince: number | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #connection: AbortController | undefined;
  /** Ends the pause that it is in. */
  #wake: () => void = () => {};
  readonly #completed = new Map<string, Promise<void>>();
  #completing: Promise<void> = Promise.resolve();
  readonly #unwatch: () => void;

  constructor(http: Http, path: string, runId: string | undefined, start: Start, options: LogOptions) {
    this.#http = http;
    this.#path = path;
    this.#runId = runId;
    this.#start = start;
    this.#options = options;
    if (typeof start === 'number') this.#cursor = start;
    this.transcript.onUnknown = (id) => void this.#ask(id);
    this.#unwatch = watchSurroundings(() => this.#lookAround());
    this.#lookAround();
    void this.#keep();
  }

  /** It is followed no more. */
  close(): void {
    this.#end(undefined);
  }

  async #keep(): Promise<void> {
    while (!this.#over) {
      const held = this.#held();
      let wait: number | undefined;
      if (held) {
        // Who did not look has missed nothing.
        if (held === 'paused') this.#lostAt = undefined;
        this.#become(held);
      } else {
        this.#atOnce = false;
        if (!this.#isPolling) this.#become('connecting');
        wait = await this.#connect();
        if (this.#over) return;
        if (this.#held() || this.#atOnce) continue;
        if (!this.#isPolling) this.#become('connecting');
        wait ??= pauseMs(this.#attempt++, this.#retryMs);
      }
      await new Promise<void>((resolve) => {
        const timer = wait === undefined ? undefined : setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Why there should be no connection now. */
  #held(): 'offline' | 'paused' | undefined {
    if (isOffline()) return 'offline';
    const hidden = this.#hiddenSince;
    return hidden !== undefined && Date.now() - hidden >= this.#options.hiddenMs ? 'paused' : undefined;
  }

  readonly #lookAround = (): void => {
    if (isHidden()) {
      if (this.#hiddenSince === undefined) {
        this.#hiddenSince = Date.now();
        if (Number.isFinite(this.#options.hiddenMs)) {
          // A timer may be early by a moment.
          this.#hiddenTimer = setTimeout(this.#lookAround, this.#options.hiddenMs + 10);
        }
      }
    } else {
      this.#hiddenSince = undefined;
      clearTimeout(this.#hiddenTimer);
    }
    if (this.#held()) {
      this.#connection?.abort();
    } else if (!isHidden()) {
      // A machine that has slept, or has changed its network, finds its connections dead.
      if (this.status === 'live' && Date.now() - this.#receivedAt <= this.#options.heartbeatMs) return;
      this.#connection?.abort();
      this.#atOnce = true;
      this.#attempt = 0;
    } else return;
    this.#wake();
  };

  /** One connection, until its end. How long to wait before the next one [ms]; none: as usual. */
  async #connect(): Promise<number | undefined> {
    const connection = new AbortController();
    this.#connection = connection;
    const silence = this.#options.heartbeatMs * SILENCE_HEARTBEATS;
    const release = await acquireSlot();
    this.#isPolling = release === undefined;
    this.#receivedAt = Date.now();
    let watchdog: ReturnType<typeof setTimeout> | undefined;
    const watch = (): void => {
      const left = this.#receivedAt + silence - Date.now();
      if (left <= 0) connection.abort();
      else watchdog = setTimeout(watch, left);
    };
    watch();
    try {
      connection.signal.throwIfAborted();
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      if (this.#cursor !== undefined) headers['last-event-id'] = String(this.#cursor);
      const query =
        this.#cursor !== undefined
          ? this.#epoch && `?epoch=${encodeURIComponent(this.#epoch)}`
          : { snapshot: '?from=snapshot', now: '?after=now', beginning: '' }[this.#start as string];
      const response = await this.#http.open('GET', `${this.#path}/events${query ?? ''}`, {
        headers,
        signal: connection.signal,
      });
      this.#receivedAt = Date.now();
      if (response.status === 204) return void this.#end(undefined);
      if (!response.ok) return this.#refused(await RejoinError.of(response));
      const type = response.headers.get('content-type') ?? '';
      // Something between us and the API may answer for it.
      if (!type.startsWith('text/event-stream') || !response.body) return undefined;
      this.#epoch = response.headers.get('x-log-epoch') ?? this.#epoch;
      this.#opened();
      return await this.#read(response.body, connection.signal);
    } catch {
      // Lost, aborted, or not to be understood: all mean that we connect again.
      this.#isPolling = false;
      return undefined;
    } finally {
      clearTimeout(watchdog);
      release?.();
      if (this.status === 'live' && !this.#isPolling) this.#lostAt = Date.now();
      connection.abort();
      this.#connection = undefined;
    }
  }

  #opened(): void {
    const outageMs = this.#lostAt === undefined ? 0 : Date.now() - this.#lostAt;
    this.#lostAt = undefined;
    if (outageMs >= NOTICE_MS) {
      this.transcript.note({
        kind: 'reconnected',
        text: `reconnected after ${Math.round(outageMs / 1000)} s`,
        outageMs,
      });
    }
    this.#become('live');
  }

  async #read(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<number | undefined> {
    const parser = new SseParser();
    const reader = body.getReader();
    let wait: number | undefined;
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return wait;
      this.#receivedAt = Date.now();
      for (const frame of parser.push(value)) {
        const next = this.#take(frame);
        if (next === 'all' && this.#isPolling) return POLL_MS;
        if (next === 'stop') return this.#rejoinPause();
        if (this.#over || signal.aborted) return undefined;
        // The run may be over: the next answer says so.
        wait = next === 'last' ? 0 : undefined;
      }
      this.#retryMs = parser.retryMs ?? this.#retryMs;
    }
  }

  /** Takes a frame in. `stop`: connect again at once; `last`: no event need come after it; `all`: these were all that there are now. */
  #take(frame: Frame): 'stop' | 'last' | 'all' | undefined {
    const event = JSON.parse(frame.data) as WireEvent;
    const seq = /^\d+$/.test(frame.id ?? '') ? Number(frame.id) : undefined;
    // Whatever we understand is a sign of health.
    this.#attempt = 0;
    if (seq !== undefined) {
      const cursor = this.#cursor;
      if (event.type !== 'snapshot' && cursor !== undefined) {
        if (seq <= cursor) return undefined;
        // A conversation's numbers have no gaps.
        if (!this.#runId && seq > cursor + 1) return this.#rejoin();
      }
      // The step that it takes back is part of a snapshot: the next snapshot is without it.
      if (!this.transcript.apply(seq, event)) return this.#rejoin();
      this.#cursor = seq;
      if (event.type !== 'snapshot') this.#rejoins = 0;
    }
    this.hasDelivered = true;
    for (const listener of [...this.listeners]) safely(() => listener.event?.(event, seq));
    if (event.type === 'caught_up') {
      // One that began with what is new has no other cursor yet: reconnecting with "now" would skip what happens meanwhile.
      if (typeof event.through === 'number') this.#cursor ??= event.through;
      return 'all';
    }
    const ends = event.type === 'done' || (event.type === 'sub_agent' && event.status !== 'started');
    return ends && event.runId === this.#runId ? 'last' : undefined;
  }

  #rejoin(): 'stop' {
    this.#rejoins++;
    this.#cursor = undefined;
    this.#start = 'snapshot';
    return 'stop';
  }

  /** At once, unless it did not help the last time. */
  #rejoinPause(): 0 | undefined {
    return this.#rejoins > 1 ? undefined : 0;
  }

  #refused(error: RejoinError): number | undefined {
    if (error.status === 410) {
      // Retention has overtaken the cursor.
      this.#rejoin();
      if (this.#rejoins === 1) {
        this.transcript.note({
          kind: 'rejoined',
          text: 'earlier events are no longer stored',
        });
      }
      return this.#rejoinPause();
    }
    // The database was restored to an earlier state, or a failover lost its last commits: what came after it has never been.
    if ((error.code === 'cursor_ahead' || error.code === 'cursor_rewound') && this.#cursor !== undefined) {
      this.transcript.clear();
      this.#rejoin();
      if (this.#rejoins === 1) {
        this.transcript.note({
          kind: 'rewound',
          text: 'the server has lost the last events',
        });
      }
      return this.#rejoinPause();
    }
    if (error.temporary || error.status >= 500 || error.status === 408) {
      const asked = Math.min((error.retryAfter ?? 0) * 1000, RETRY_AFTER_MAX_MS);
      return Math.max(asked, pauseMs(this.#attempt++, this.#retryMs));
    }
    this.#end(error);
    return undefined;
  }

  /**
   * Reads the events of a run that ended before we came, and puts its turns in the place of those that only have the text of
   * their messages. Where the events are no longer stored, the text remains. One run at a time: a page has few connections.
   */
  complete(runId: string): Promise<void> {
    const known = this.#completed.get(runId);
    if (known) return known;
    const reading = this.#completing.then(() => this.#complete(runId));
    this.#completing = reading;
    this.#completed.set(runId, reading);
    return reading;
  }

  async #complete(runId: string): Promise<void> {
    const reading = new AbortController();
    try {
      if (this.#over) return;
      const headers = { accept: 'text/event-stream' };
      const response = await this.#http.open('GET', `/api/runs/${encodeURIComponent(runId)}/events`, {
        headers,
        signal: reading.signal,
      });
      if (!response.ok || !response.body) return;
      const seen = new Transcript();
      const parser = new SseParser();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || this.#over) break;
        for (const { id, data } of parser.push(value))
          if (id !== undefined) seen.apply(Number(id), JSON.parse(data) as WireEvent);
      }
      this.transcript.complete(runId, seen);
    } catch {
      // It only adds to what is shown, and may be asked for again.
      this.#completed.delete(runId);
    } finally {
      reading.abort();
    }
  }

  /** Asks for what a snapshot leaves out of a run. */
  async #ask(runId: string): Promise<void> {
    try {
      // After the event that made us ask is taken in.
      await undefined;
      const through = this.#cursor ?? 0;
      this.transcript.learn(await this.#http.request<Run>('GET', `/api/runs/${encodeURIComponent(runId)}`), through);
    } catch {
      // It only adds to what is shown.
    }
  }

  #become(status: FollowStatus): void {
    if (this.status === status) return;
    this.status = status;
    for (const listener of [...this.listeners]) safely(() => listener.status?.(status, this.error));
  }

  #end(error: RejoinError | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.error = error;
    this.#unwatch();
    clearTimeout(this.#hiddenTimer);
    this.#connection?.abort();
    this.#wake();
    this.#become('ended');
  }
}
