//! Lists of runs. Every member sees a run's existence, agent and state; the rest of a run outside a conversation is
//! visible only to its maker, on whose behalf it acts.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Run, RunState};
use rejoin_types::owner::Owner;

/// Filters of a list of runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub conversation_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    /// The agent's name at that time.
    pub agent: Option<String>,
    /// Created at or after, and before.
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    /// Runs of this tree.
    pub root_run_id: Option<Uuid>,
    pub parent_run_id: Option<Uuid>,
    /// Excludes sub-agents.
    pub is_top_level: bool,
}

/// The part of a run visible to every member of the workspace.
#[derive(Debug, Clone)]
pub struct RunHead {
    pub id: Uuid,
    pub state: String,
    pub agent_definition_id: Option<Uuid>,
    pub agent_name: Option<String>,
    pub parent_run_id: Option<Uuid>,
    pub root_run_id: Uuid,
    pub depth: i32,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

/// A listed run.
#[derive(Debug, Clone)]
pub enum Listed {
    /// Visible in full to its owner.
    Whole(Box<Run>),
    /// Another member's run.
    Head(RunHead),
}

impl Listed {
    /// Its position in a list: (created_at, id).
    pub fn position(&self) -> (DateTime<Utc>, Uuid) {
        match self {
            Listed::Whole(run) => (run.created_at, run.id),
            Listed::Head(head) => (head.created_at, head.id),
        }
    }
}

/// Returns a page of a workspace's runs, newest first, after the cursor (created_at, id). Conversations' runs only of
/// `owner`.
pub async fn list(
    db: &mut PgConnection,
    owner: Owner,
    filter: &RunFilter,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Listed>, sqlx::Error> {
    let (at, id) = after.unzip();
    let heads = sqlx::query_as!(
        RunHead,
        r#"select r.id as "id!", r.state as "state!", r.agent_definition_id, r.agent_name, r.parent_run_id,
                  r.root_run_id as "root_run_id!", r.depth as "depth!", r.created_at as "created_at!", r.started_at, r.finished_at
           from kb.listed_runs r
           where r.project_id = $1
             and ($2::timestamptz is null or (r.created_at, r.id) < ($2, $3))
             and ($4::text is null or r.state = $4)
             and ($5::uuid is null or r.conversation_id = $5)
             and ($6::uuid is null or r.agent_definition_id = $6)
             and ($7::uuid is null or r.root_run_id = $7)
             and ($8::uuid is null or r.parent_run_id = $8)
             and ($9::text is null or r.agent_name = $9)
             and ($10::timestamptz is null or r.created_at >= $10)
             and ($11::timestamptz is null or r.created_at < $11)
             and (not $12 or r.parent_run_id is null)
           order by r.created_at desc, r.id desc
           limit $13"#,
        owner.workspace_id,
        at,
        id,
        filter.state.map(RunState::as_str),
        filter.conversation_id,
        filter.agent_definition_id,
        filter.root_run_id,
        filter.parent_run_id,
        filter.agent,
        filter.since,
        filter.until,
        filter.is_top_level,
        limit
    )
    .fetch_all(&mut *db)
    .await?;
    let ids: Vec<Uuid> = heads.iter().map(|head| head.id).collect();
    let whole = run_query!("select", "from kb.agent_runs r where r.id = any($1) and r.project_id = $2
           and (r.conversation_id is null and coalesce(r.user_id = $3, true)
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))",
        &ids,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_all(db)
    .await?;
    let mut whole: HashMap<Uuid, Run> = whole.into_iter().map(|run| (run.id, run)).collect();
    let listed = heads.into_iter().map(|head| match whole.remove(&head.id) {
        Some(run) => Listed::Whole(Box::new(run)),
        None => Listed::Head(head),
    });
    Ok(listed.collect())
}

/// Returns the maker of a run of the workspace outside a conversation. None: it does not exist, or has no maker.
pub async fn maker_of(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    let maker = sqlx::query_scalar!(
        "select user_id from kb.listed_runs where id = $1 and project_id = $2 and conversation_id is null",
        id,
        workspace_id
    );
    Ok(maker.fetch_optional(db).await?.flatten())
}
