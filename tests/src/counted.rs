//! Counts the SQL statements of turns. A count is exact, unlike a duration, so it may be asserted.
//!
//! What depends on time rather than on the turn is left out: claims of jobs, wake-ups, the reader's tail, group commits, sweeps.

use crate::app::TestApp;

/// Statements whose number depends on time.
const TIMED: &[&str] = &[
    "from queue.claim(",
    "pg_notify",
    "from unnest($1::int[], $2::uuid[], $3::bigint[]) c(i, log, after)",
    "join stream.log_ends e on",
    "from stream.write(",
    "pg_stat_statements",
    // Heartbeats, sweeps and schedules.
    "pg_try_advisory_xact_lock",
    "clock_timestamp()",
    "insert into queue.workers",
    "lease_until",
    "queue.release(",
    "cancel_requested_at is not null",
    "kb.google_",
    "kb.graph_embedding_marks",
    "kb.index_message_backlog",
    "from kb.questions where status",
    "from kb.schedules where next_at",
    "from kb.task_dags",
];

/// Forgets the statements so far.
pub async fn reset(app: &TestApp) {
    sqlx::query("select pg_stat_statements_reset()")
        .execute(&app.db.pool)
        .await
        .expect("a reset");
}

/// The statements of each of these turns, since the reset: how often a turn executes it, and its text. What happens less than once a turn is not
/// the turn's.
pub async fn per_turn(app: &TestApp, turns: i64) -> Vec<(i64, String)> {
    let executed: Vec<(i64, String)> = sqlx::query_as(
        "select calls / $1, query from pg_stat_statements where calls >= $1
         and query not like '%kb.agent_runs where done_seq is null)%' order by calls desc",
    )
    .bind(turns)
    .fetch_all(&app.db.pool)
    .await
    .expect("the statements");
    executed
        .into_iter()
        .filter(|(_, query)| !TIMED.iter().any(|timed| query.contains(timed)))
        .collect()
}

pub fn total(statements: &[(i64, String)]) -> i64 {
    statements.iter().map(|(calls, _)| calls).sum()
}

/// A line for each, for the message of a failure.
pub fn listed(statements: &[(i64, String)]) -> String {
    let line = |(calls, query): &(i64, String)| {
        let words: Vec<&str> = query.split_whitespace().collect();
        format!("{calls:3} {:.150}", words.join(" "))
    };
    statements.iter().map(line).collect::<Vec<_>>().join("\n")
}
