// graphile-worker. LOCAL > 0: jobs are fetched that many at a time and completed in batches, as its page on performance says;
// 0: fetched one by one at each notification, which starts a single job soonest.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { drive, handle, inChunks, payload, setting, url } from "./protocol.mjs";

const CONNECTIONS = 20;
const logger = new Logger(() => () => {});
let utils;

await drive({
  async open(operation) {
    if (operation !== "work") {
      utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: CONNECTIONS, logger });
    }
  },
  setup: () => utils.migrate(),
  bulk: (n) => inChunks(n, () => ({ identifier: "noop", payload: payload() }), (jobs) => utils.addJobs(jobs)),
  one: () => utils.addJob("noop", payload()),
  async work() {
    const size = setting("LOCAL", 500);
    const concurrentJobs = setting("CONCURRENCY", 24);
    const batches = { localQueue: { size }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    const worker = {
      connectionString: url,
      concurrentJobs,
      maxPoolSize: concurrentJobs + 2,
      ...(size > 0 ? batches : {}),
    };
    const taskList = { noop: async (job) => handle(job) };
    const runner = await run({ logger, noHandleSignals: true, taskList, preset: { worker } });
    return () => runner.stop();
  },
});
