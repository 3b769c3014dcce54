/**
 * Steps and outputs of different calls on their way to the API. While requests are on their way, further records gather, and the next request takes
 * them together: so a worker with many calls sends few requests. A record that is alone is sent as a request of its call.
 *
 * Invariant: a promise is fulfilled exactly if the API has confirmed its record.
 */
import { APIError, problemError, ResponseError } from './errors.js';
import type { RecordedAnswer, Request } from './requests.js';
import * as requests from './requests.js';
import { soon } from './surroundings.js';

/** Maximum number of requests on their way. With two, the API works on one while the next is made. */
const REQUESTS_MAX = 2;
/** Maximum size of a record that is sent with others, and of all that are sent together, in bytes of JSON. */
const RECORD_MAX_BYTES = 64 * 1024;
const TOGETHER_MAX_BYTES = 1024 * 1024;

interface Waiting {
  readonly request: Request<unknown>;
  readonly record: requests.AboutCall;
  readonly json: string;
  readonly done: (answer: unknown) => void;
  readonly fail: (error: unknown) => void;
}

export class Records {
  #waiting: Waiting[] = [];
  #onTheirWay = 0;
  #isDue = false;

  constructor(
    private readonly run: <T>(request: Request<T>) => Promise<T>,
    /** Maximum number of records that the API takes together. 0: it takes each alone. */
    private readonly max: () => number,
  ) {}

  /** Sends a request about a call once. */
  send<T>(request: Request<T>): Promise<T> {
    const { record } = request;
    const json = record && this.max() > 1 ? JSON.stringify(record.fields) : undefined;
    if (!record || json === undefined || json.length > RECORD_MAX_BYTES) return this.run(request);
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ request, record, json, done: (answer) => resolve(answer as T), fail: reject });
      this.#sendSoon();
    });
  }

  /** Not at once: functions whose steps were confirmed together record the next ones together. */
  #sendSoon(): void {
    if (this.#isDue || this.#onTheirWay >= REQUESTS_MAX || this.#waiting.length === 0) return;
    this.#isDue = true;
    soon(() => {
      this.#isDue = false;
      void this.#sendNext();
    });
  }

  async #sendNext(): Promise<void> {
    const [first, ...others] = this.#take();
    if (!first) return;
    this.#onTheirWay += 1;
    this.#sendSoon();
    try {
      await (others.length === 0 ? this.#sendAlone(first) : this.#sendTogether(first, others));
    } finally {
      this.#onTheirWay -= 1;
      this.#sendSoon();
    }
  }

  /** Takes the records of the next request: in their order, those of one registration. */
  #take(): Waiting[] {
    const workerId = this.#waiting[0]?.record.workerId;
    const [taken, left]: [Waiting[], Waiting[]] = [[], []];
    let bytes = 0;
    for (const one of this.#waiting) {
      bytes += one.json.length;
      const fits = taken.length === 0 || (taken.length < this.max() && bytes <= TOGETHER_MAX_BYTES);
      (fits && left.length === 0 && one.record.workerId === workerId ? taken : left).push(one);
    }
    this.#waiting = left;
    return taken;
  }

  async #sendAlone({ request, done, fail }: Waiting): Promise<void> {
    await this.run(request).then(done, fail);
  }

  async #sendTogether(first: Waiting, others: readonly Waiting[]): Promise<void> {
    const { queue, workerId } = first.record;
    const sent = [first, ...others];
    let answers: readonly RecordedAnswer[];
    try {
      const request = requests.records(
        queue,
        workerId,
        sent.map(({ json }) => json),
      );
      answers = (await this.run(request)).records;
      if (answers.length !== sent.length)
        throw new ResponseError(`${sent.length} records were sent, and ${answers.length} were answered`);
    } catch (error) {
      // What the API refuses as a whole, such as one of another version, it may take one by one.
      if (error instanceof APIError || error instanceof ResponseError)
        await Promise.all(sent.map((one) => this.#sendAlone(one)));
      else for (const { fail } of sent) fail(error);
      return;
    }
    for (const [index, { problem, ...answer }] of answers.entries()) {
      if (problem) sent[index]?.fail(problemError(problem));
      else sent[index]?.done(answer);
    }
  }
}
