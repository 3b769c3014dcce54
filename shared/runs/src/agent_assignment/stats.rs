//! Statistics of routing: how conversations were assigned, and which were misrouted.

use chrono::{DateTime, Utc};
use rejoin_types::owner::Owner;
use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

/// Statistics of one agent chosen for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignmentStats {
    pub agent: Option<String>,
    pub reason: Option<String>,
    pub confidence: Option<String>,
    pub conversations: i64,
    /// Conversations whose agent handed over within the first turn.
    pub handed_over: i64,
    pub took_us_p50: Option<f64>,
    /// Median time from the message to the run's start.
    pub start_ms_p50: Option<f64>,
    pub helped: i64,
    pub did_not_help: i64,
}

/// Returns statistics over this many days. The transaction's scope applies.
pub async fn stats(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    days: i32,
) -> Result<Vec<AssignmentStats>, sqlx::Error> {
    sqlx::query_as!(
        AssignmentStats,
        r#"select agent, reason, confidence, conversations as "conversations!", handed_over as "handed_over!", took_us_p50,
                  start_ms_p50, helped as "helped!", did_not_help as "did_not_help!"
           from kb.routing_stats($1, $2) order by 4 desc, 1, 2"#,
        workspace_id,
        days
    )
    .fetch_all(db)
    .await
}

/// Statistics of one group: `routed`, or `control`.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    pub arm: String,
    pub conversations: i64,
    /// Conversations whose agent handed over within the first turn.
    pub handed_over: i64,
    /// Conversations whose first turn failed.
    pub failed: i64,
    /// Median times from the message to the run's start and end.
    pub start_ms_p50: Option<f64>,
    pub answer_ms_p50: Option<f64>,
    pub helped: i64,
    pub did_not_help: i64,
}

/// Returns both groups, over this many days. The transaction's scope applies.
pub async fn arms(db: impl PgExecutor<'_>, workspace_id: Uuid, days: i32) -> Result<Vec<Arm>, sqlx::Error> {
    sqlx::query_as!(
        Arm,
        r#"select arm as "arm!", conversations as "conversations!", handed_over as "handed_over!", failed as "failed!", start_ms_p50,
                  answer_ms_p50, helped as "helped!", did_not_help as "did_not_help!"
           from kb.routing_arms($1, $2) order by arm desc"#,
        workspace_id,
        days
    )
    .fetch_all(db)
    .await
}

/// A misrouted first message: its specialist handed over in the first turn, or its answer did not help.
#[derive(Debug, Clone, PartialEq)]
pub struct Misrouted {
    pub run_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub message: String,
    /// The stored choice: agent, reason, confidence, score, because.
    pub routing: Value,
    /// The final agent of the run, if it was handed over.
    pub handed_to: Option<String>,
    pub helped: Option<bool>,
    pub created_at: DateTime<Utc>,
}

/// Returns the owner's, over this many days, newest first, after the cursor (created_at, id). Handoffs by triage are
/// its task, and no mistake.
pub async fn misrouted(
    db: impl PgExecutor<'_>,
    owner: Owner,
    days: i32,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Misrouted>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Misrouted,
        r#"select r.id as run_id, r.conversation_id, r.input as message, r.routing as "routing!", handoff.to as handed_to,
                  f.rating = 1 as helped, r.created_at
           from kb.agent_runs r
           left join kb.message_feedback f on f.message_id = r.final_message_id
           left join lateral (
             select c.output ->> 'transferred_to' as to
             from kb.agent_run_tool_calls c
             where c.run_id = r.id and c.status = 'completed' and starts_with(c.tool_name, 'transfer_to_')
             order by c.step_number desc, c.position desc limit 1) handoff on true
           where r.project_id = $1 and r.user_id = $2 and r.routing is not null and r.routing ->> 'reason' <> 'triage'
             and r.created_at > now() - make_interval(days => $3)
             and (handoff.to is not null or f.rating = -1)
             and ($4::timestamptz is null or (r.created_at, r.id) < ($4, $5))
           order by r.created_at desc, r.id desc limit $6"#,
        owner.workspace_id,
        owner.user_id,
        days,
        at,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}
