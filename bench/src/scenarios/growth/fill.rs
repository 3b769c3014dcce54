//! Fills a table with ended runs, each with a log: a row per event, as a slow model's tokens are written.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use super::{EVENTS_PER_LOG, MILLION, wal_bytes};
use crate::posted;
use crate::server::Database;

/// The words of tokens: a text that compresses about as prose does.
const WORDS: [&str; 48] = [
    "the ", "of ", "and ", "to ", "a ", "in ", "is ", "that ", "it ", "was ", "for ", "on ", "are ", "as ", "with ",
    "they ", "at ", "be ", "this ", "have ", "from ", "or ", "one ", "had ", "by ", "word ", "but ", "not ", "what ",
    "all ", "were ", "we ", "when ", "your ", "can ", "said ", "there ", "use ", "each ", "which ", "she ", "how ",
    "their ", "if ", "will ", "package ", "depends ", "library ",
];

/// The SQL that partitions the table.
const PARTITIONS: &str = include_str!("../../../../docs/operations/partitions.md");

/// Partitions the table of events, by the SQL that operators are given.
pub(super) async fn partition(db: &PgPool) -> Result<()> {
    for block in PARTITIONS.split("```sql\n").skip(1) {
        let sql = block.split("```").next().unwrap_or_default();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(db).await?;
    }
    Ok(())
}

/// What was filled.
pub(super) struct Filled {
    pub(super) logs: Vec<Uuid>,
    /// Of the events alone.
    pub(super) wal_bytes: f64,
    pub(super) took: Duration,
}

pub(super) async fn fill(database: &Database, events: i64) -> Result<Filled> {
    let db = &database.db.pool_sqlx;
    let posted = posted::post(database, 1).await?;
    let (_, template) = posted.first().context("a run was posted")?;
    // Nothing else is to claim it: it is never executed.
    sqlx::query("delete from queue.jobs").execute(db).await?;
    let mut filled = Filled {
        logs: (0..events / EVENTS_PER_LOG).map(|_| Uuid::now_v7()).collect(),
        wal_bytes: 0.0,
        took: Duration::ZERO,
    };
    let words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    let per_statement = usize::try_from(MILLION / EVENTS_PER_LOG)?;
    for logs in filled.logs.chunks(per_statement) {
        sqlx::query("insert into stream.logs (log_id) select unnest($1::uuid[])")
            .bind(logs)
            .execute(db)
            .await?;
        sqlx::query(
            "insert into kb.agent_runs
             select run.* from unnest($1::uuid[]) l
             cross join kb.agent_runs t
             cross join lateral jsonb_populate_record(null::kb.agent_runs, to_jsonb(t) || jsonb_build_object(
                 'id', l, 'root_run_id', l, 'log_id', l, 'conversation_id', null, 'message_id', null, 'first_seq', 0, 'done_seq', $2::bigint,
                 'state', 'completed', 'finished_at', now() - interval '1 day')) run
             where t.id = $3",
        )
        .bind(logs)
        .bind(EVENTS_PER_LOG)
        .bind(template)
        .execute(db)
        .await?;
        let (before, began) = (wal_bytes(db).await?, Instant::now());
        sqlx::query(
            "insert into stream.events (log_id, seq, run_id, type, data)
             select l, n, l, 'token', json_build_object('type', 'token', 'runId', l, 'token',
                 ($3::text[])[1 + abs(hashint8(n # hashtext(l::text)::bigint)::bigint) % cardinality($3::text[])])
             from unnest($1::uuid[]) l, generate_series(1::bigint, $2::bigint) n",
        )
        .bind(logs)
        .bind(EVENTS_PER_LOG)
        .bind(&words)
        .execute(db)
        .await?;
        filled.took += began.elapsed();
        filled.wal_bytes += wal_bytes(db).await? - before;
    }
    sqlx::query("vacuum analyze stream.events").execute(db).await?;
    Ok(filled)
}
