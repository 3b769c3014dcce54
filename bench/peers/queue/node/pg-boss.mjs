// pg-boss, with LISTEN/NOTIFY and, where a batch came back full, the next fetch at once.
import { PgBoss } from "pg-boss";
import { drive, handle, inChunks, payload, setting, url } from "./protocol.mjs";

const CONNECTIONS = 20;
let boss;

await drive({
  async open(operation) {
    const works = operation === "work";
    boss = new PgBoss({
      connectionString: url,
      max: CONNECTIONS,
      migrate: operation === "setup",
      schedule: false,
      supervise: works,
      useListenNotify: works,
    });
    boss.on("error", (error) => console.error(error));
    await boss.start();
  },
  setup: () => boss.createQueue("noop", { notify: true }),
  bulk: (n) => inChunks(n, () => ({ data: payload() }), (jobs) => boss.insert("noop", jobs)),
  one: () => boss.send("noop", payload()),
  async work() {
    const options = {
      batchSize: setting("BATCH", 500),
      localConcurrency: setting("CONCURRENCY", 2),
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    };
    await boss.work("noop", options, async (jobs) => jobs.forEach((job) => handle(job.data)));
    return () => boss.stop({ graceful: true, timeout: 1000 });
  },
});
