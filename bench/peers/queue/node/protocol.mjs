// The operations of a driver (../README.md) for a queue object: { open(operation), setup(), bulk(n), one(), work() }, where
// work() starts the worker and resolves to a function that stops it.

// How often a worker tells its count, if that moved.
const TELL_EVERY_MS = 20;
// A worker that does not stop in this time is left alone.
const STOP_MS = 5000;

export const url = process.env.DATABASE_URL;
export const setting = (name, otherwise) => Number(process.env[name] ?? otherwise);

// CLOCK_MONOTONIC [µs]: one clock for all processes of the machine.
export const nowUs = () => Number(process.hrtime.bigint() / 1000n);
export const payload = () => ({ t: nowUs() });

let handled = 0;
const latenciesUs = [];
const latenciesWanted = setting("LAT", 0) === 1;

// The handler of every queue.
export function handle(job) {
  if (latenciesWanted) latenciesUs.push(nowUs() - job.t);
  handled += 1;
}

// Calls push(array of k jobs) until n are in.
export async function inChunks(n, job, push) {
  const chunk = setting("CHUNK", 5000);
  for (let done = 0; done < n; done += chunk) {
    await push(Array.from({ length: Math.min(chunk, n - done) }, job));
  }
}

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const say = (line) => new Promise((written) => process.stdout.write(JSON.stringify(line) + "\n", written));
const secondsSince = (us) => (nowUs() - us) / 1e6;

const operations = {
  setup: (queue) => queue.setup(),

  async bulk(queue, n) {
    const began = nowUs();
    await queue.bulk(n);
    await say({ n, s: secondsSince(began) });
  },

  async single(queue, seconds, producers) {
    const began = nowUs();
    let n = 0;
    const producer = async () => {
      while (secondsSince(began) < seconds) {
        await queue.one();
        n += 1;
      }
    };
    await Promise.all(Array.from({ length: producers }, producer));
    await say({ n, s: secondsSince(began) });
  },

  // An open loop: a slow enqueue does not hold back the next one.
  async produce(queue, perSecond, seconds) {
    const began = nowUs();
    const n = Math.floor(perSecond * seconds);
    const enqueued = [];
    for (let i = 0; i < n; i += 1) {
      const left = () => (i / perSecond - secondsSince(began)) * 1000;
      while (left() > 0) await sleep(left());
      enqueued.push(queue.one());
    }
    await Promise.all(enqueued);
    await say({ n, s: secondsSince(began) });
  },

  async work(queue) {
    const told = new Promise((end) => process.stdin.once("end", end));
    process.stdin.resume();
    await say({ start: nowUs() });
    const stop = await queue.work();
    let last = 0;
    const teller = setInterval(() => {
      if (handled === last) return;
      last = handled;
      void say({ c: handled, t: nowUs() });
    }, TELL_EVERY_MS);
    await told;
    clearInterval(teller);
    await Promise.race([stop(), sleep(STOP_MS)]);
    await say({ final: handled, lat: latenciesUs });
  },
};

export async function drive(queue) {
  const [operation, ...words] = process.argv.slice(2);
  await queue.open(operation);
  await operations[operation](queue, ...words.map(Number));
  // Pools and timers of the library would keep the process.
  process.exit(0);
}
