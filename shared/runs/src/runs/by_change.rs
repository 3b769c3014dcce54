//! Top-level runs that a user may see, those whose state changed last first, with the names that their clients gave the conversations.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_types::owner::Owner;

/// Which of the runs.
#[derive(Debug, Clone, Default)]
pub struct ChangeFilter {
    pub id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
    /// Only runs in these states. None: in any state.
    pub states: Option<Vec<String>>,
    /// Whether a worker has begun the run.
    pub has_started: Option<bool>,
    /// Whether the run needs a person.
    pub is_asking: Option<bool>,
    /// Only runs whose state changed at this time or later.
    pub since: Option<DateTime<Utc>>,
}

/// A run, with the time of its last change of state.
#[derive(Debug, Clone)]
pub struct Changed {
    pub id: Uuid,
    pub conversation_id: Option<Uuid>,
    /// The client's own name of the conversation.
    pub client_thread: Option<String>,
    pub log_id: Uuid,
    pub message_id: Option<Uuid>,
    pub input: String,
    pub state: String,
    pub has_started: bool,
    /// Whether it needs a person: it waits for an answer, or was paused.
    pub is_asking: bool,
    pub done_seq: Option<i64>,
    pub summary: Option<String>,
    pub error: Option<String>,
    pub changed_at: DateTime<Utc>,
    /// The number of all runs that the filter lets through.
    pub total: i64,
}

/// Returns a page of the runs, after the cursor (changed_at, id). They are sorted for each page: a cost that grows with the number of the
/// owner's runs.
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    filter: &ChangeFilter,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Changed>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Changed,
        r#"with seen as (
               select r.id, r.conversation_id, c.client_thread, r.log_id, r.message_id, r.input, r.state,
                      r.started_at is not null as has_started,
                      r.state = 'paused' or r.state = 'waiting' and r.questions_open > 0 as is_asking,
                      r.done_seq, r.summary, r.error,
                      coalesce(r.finished_at, r.waiting_since, r.started_at, r.created_at) as changed_at
               from kb.agent_runs r left join kb.chat_conversations c on c.id = r.conversation_id
               where r.project_id = $1 and r.parent_run_id is null
                 and (r.conversation_id is null and coalesce(r.user_id = $2, true) or c.owner_user_id = $2)
                 and ($3::uuid is null or r.id = $3)
                 and ($4::uuid is null or r.conversation_id = $4)
                 and ($5::text[] is null or r.state = any($5))
           ),
           wanted as (
               select * from seen
               where ($6::boolean is null or has_started = $6) and ($7::boolean is null or is_asking = $7)
                 and ($8::timestamptz is null or changed_at >= $8)
           )
           select id as "id!", conversation_id, client_thread, log_id as "log_id!", message_id, input as "input!", state as "state!",
                  has_started as "has_started!", is_asking as "is_asking!", done_seq, summary, error, changed_at as "changed_at!",
                  (select count(*) from wanted) as "total!"
           from wanted
           where ($9::timestamptz is null or (changed_at, id) < ($9, $10))
           order by changed_at desc, id desc
           limit $11"#,
        owner.workspace_id,
        owner.user_id,
        filter.id,
        filter.conversation_id,
        filter.states.as_deref(),
        filter.has_started,
        filter.is_asking,
        filter.since,
        at,
        id,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the top-level run with this id.
pub async fn get(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Changed>, sqlx::Error> {
    let filter = ChangeFilter {
        id: Some(id),
        ..ChangeFilter::default()
    };
    Ok(list(db, owner, &filter, None, 1).await?.pop())
}
