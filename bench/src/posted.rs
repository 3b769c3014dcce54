//! Claimed and running runs, as in the middle of a worker's work.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use rejoin_commands::{OnBusy, PostMessage};
use rejoin_types::owner::Owner;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::server::Database;

/// Number of concurrent posts.
const POSTING: usize = 8;
/// Number of jobs per claim.
const CLAIM: usize = 100;
/// These leases are not renewed.
const LEASE: Duration = Duration::from_secs(3_600);

/// Returns log and run of `count` new conversations, queued.
pub async fn post(database: &Database, count: usize) -> Result<Vec<(Uuid, Uuid)>> {
    let owner = Owner {
        workspace_id: database.workspace_id,
        user_id: database.user_id,
    };
    let posts = futures::stream::iter(0..count).map(|_| async {
        let command = PostMessage {
            on_busy: OnBusy::Enqueue,
            ..PostMessage::new(owner, "hello")
        };
        let posted = rejoin_commands::execute(&database.db.pool_sqlx, &command)
            .await
            .context("posting")?;
        Ok::<_, anyhow::Error>((posted.conversation_id, posted.run_id))
    });
    posts.buffered(POSTING).try_collect().await
}

/// The same, each claimed once (attempt 1).
pub async fn begin(database: &Database, count: usize) -> Result<Vec<(Uuid, Uuid)>> {
    let runs = post(database, count).await?;
    let mut claimed = 0;
    let mut cursor = rejoin_queue::ClaimCursor::default();
    while claimed < count {
        let jobs = rejoin_queue::claim(
            &database.db.pool_pg,
            "default",
            Uuid::now_v7(),
            LEASE,
            CLAIM,
            &mut cursor,
        )
        .await?;
        ensure!(!jobs.is_empty(), "only {claimed} of {count} jobs could be claimed");
        claimed += jobs.len();
    }
    Ok(runs)
}

/// Appends `events` tokens to each log, in one statement, as history.
pub async fn add_past(database: &Database, runs: &[(Uuid, Uuid)], events: usize) -> Result<()> {
    let (logs, runs): (Vec<Uuid>, Vec<Uuid>) = runs.iter().copied().unzip();
    let sql = "select count(stream.append(t.log_id, t.run_id, array_fill('token'::text, array[$3::int]), array_fill(
                   json_build_object('type', 'token', 'runId', t.run_id, 'token', ' and so on')::text, array[$3::int])))
               from unnest($1::uuid[], $2::uuid[]) t(log_id, run_id)";
    sqlx::query(AssertSqlSafe(sql))
        .bind(logs)
        .bind(runs)
        .bind(i32::try_from(events)?)
        .execute(&database.db.pool_sqlx)
        .await
        .context("appending a past")?;
    Ok(())
}
