// The database of a `rejoin dev`, as an operator reaches it.
import { execFileSync } from 'node:child_process';
import { existsSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Runs a statement; what it gives, as text. psql is the server's own, else the one on the PATH. */
export function sql(dev, statement) {
  const beside = dev.pids.postgres ? join(dirname(readlinkSync(`/proc/${dev.pids.postgres}/exe`)), 'psql') : '';
  const psql = existsSync(beside) ? beside : 'psql';
  const options = ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '-v', 'ON_ERROR_STOP=1'];
  return execFileSync(psql, [dev.databaseUrl, ...options, '-c', statement], { encoding: 'utf8' }).trim();
}

/** Puts a job of the project among the dead, in a queue that no worker serves; its number. */
export function deadJob(dev, kind, error) {
  return deadJobs(dev, kind, error, 1)[0];
}

/** Puts several jobs there; their numbers. */
export function deadJobs(dev, kind, error, count) {
  const ids = sql(
    dev,
    `insert into queue.finished_jobs (id, queue, kind, project_id, payload, priority, state, attempt, max_attempts, last_error, created_at)
     select nextval(pg_get_serial_sequence('queue.jobs', 'id')), 'reports', '${kind}', '${dev.projectId}', '{}', 0, 'failed', 5, 5, '${error}', now()
     from generate_series(1, ${count})
     returning id`,
  );
  return ids.split('\n').map(Number);
}

/** Stores this number of messages in a conversation that has none: `entry1 of the chronicle`, `entry2 of the chronicle`, … */
export function chronicle(dev, conversationId, count) {
  sql(
    dev,
    `insert into kb.chat_messages (id, conversation_id, role, content, seq)
     select gen_random_uuid(), '${conversationId}', case when n % 2 = 0 then 'assistant' else 'user' end,
            'entry' || n || ' of the chronicle', n
     from generate_series(1, ${count}) n`,
  );
}
