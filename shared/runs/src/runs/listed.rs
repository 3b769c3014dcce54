//! Lists of runs. Every member sees a run's existence, agent and state; the rest of a run outside a conversation is
//! visible only to its maker, on whose behalf it acts.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Run, RunState};
use rejoin_types::owner::Owner;

/// Maximum number of runs in which one request looks for words, newest first. Its cursor continues after them.
pub const SEARCHED_MAX: i64 = 2_000;
/// Maximum number of runs that are sorted by duration or cost: the newest ones that match the filter.
pub const SORTED_MAX: i64 = 10_000;

/// The order of a list of runs. The newest first among equals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunOrder {
    #[default]
    Newest,
    /// By the time from start to end; runs that have not ended last.
    Longest,
    /// By their own cost, without sub-agents; runs of other members last.
    MostExpensive,
}

impl RunOrder {
    fn as_str(self) -> &'static str {
        match self {
            RunOrder::Newest => "newest",
            RunOrder::Longest => "longest",
            RunOrder::MostExpensive => "mostExpensive",
        }
    }
}

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
    /// Words that its id, agent, model, input, output or error contain, in lower case. Of another member's run: its id
    /// or agent.
    pub words: Vec<String>,
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

/// A position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// What it is sorted by, in microseconds or billionths of a US dollar; 0 in a list by time, -1 if unknown.
    pub rank: i64,
    pub created_at: DateTime<Utc>,
    pub id: Uuid,
}

/// A page of a list.
#[derive(Debug)]
pub struct ListedPage {
    pub runs: Vec<Listed>,
    /// The end of this page. None: there are no more runs.
    pub next: Option<Place>,
}

/// A run as the list's query returns it.
struct Found {
    head: RunHead,
    place: Place,
    matches: bool,
    /// Whether a search by time ends with it, although older runs may match.
    ends_search: bool,
}

/// Returns a page of a workspace's runs after a position. Conversations' runs only of `owner`.
///
/// A search by words looks at `SEARCHED_MAX` runs: its page may hold fewer runs than asked for, or none, and still have a
/// next one. A sorted list has the newest `SORTED_MAX` runs, which are searched all.
pub async fn list(
    db: &mut PgConnection,
    owner: Owner,
    filter: &RunFilter,
    order: RunOrder,
    after: Option<Place>,
    limit: i64,
) -> Result<ListedPage, sqlx::Error> {
    let mut found = find(&mut *db, owner, filter, order, after, limit + 1).await?;
    let is_full = found.len() as i64 > limit;
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = found
        .last()
        .filter(|last| is_full || last.ends_search)
        .map(|last| last.place);
    found.retain(|run| run.matches);
    let ids: Vec<Uuid> = found.iter().map(|run| run.head.id).collect();
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
    let listed = found
        .into_iter()
        .map(|Found { head, .. }| match whole.remove(&head.id) {
            Some(run) => Listed::Whole(Box::new(run)),
            None => Listed::Head(head),
        });
    Ok(ListedPage {
        runs: listed.collect(),
        next,
    })
}

/// Finds runs after a position; and, in a search by time, the last run that was searched.
async fn find(
    db: &mut PgConnection,
    owner: Owner,
    filter: &RunFilter,
    order: RunOrder,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<Found>, sqlx::Error> {
    let considered = match order {
        RunOrder::Newest if filter.words.is_empty() => limit,
        RunOrder::Newest => SEARCHED_MAX.max(limit),
        RunOrder::Longest | RunOrder::MostExpensive => SORTED_MAX,
    };
    // In a list by time, only what comes after the position is considered.
    let from = after.filter(|_| order == RunOrder::Newest);
    let rows = sqlx::query!(
        r#"with considered as materialized (
               select r.*
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
               limit $13
           ), ranked as (
               select c.*,
                      case when $14::text = 'newest' and cardinality($15::text[]) > 0
                          then (select count(*) from considered) = $13::bigint
                               and c.id = (select id from considered order by created_at, id limit 1)
                          else false
                      end as ends_search,
                      case $14
                          when 'longest' then coalesce((extract(epoch from c.finished_at - c.started_at) * 1000000)::bigint, -1)
                          when 'mostExpensive' then coalesce(((w.usage ->> 'costUsd')::float8 * 1e9)::bigint, -1)
                          else 0
                      end as rank,
                      not exists (
                          select from unnest($15::text[]) word
                          where strpos(lower(concat_ws(' ', c.id, c.agent_name, w.model, w.input, w.summary, w.error, w.error_code)),
                                       word) = 0
                      ) as matches
               from considered c
               -- Without another member's runs, by row-level security.
               left join kb.agent_runs w on w.id = c.id
           )
           select id as "id!", state as "state!", agent_definition_id, agent_name, parent_run_id, root_run_id as "root_run_id!",
                  depth as "depth!", created_at as "created_at!", started_at, finished_at, rank as "rank!", matches as "matches!",
                  ends_search as "ends_search!"
           from ranked
           where (matches or ends_search)
             and ($16::bigint is null or (rank, created_at, id) < ($16, $17, $18))
           order by rank desc, created_at desc, id desc
           limit $19"#,
        owner.workspace_id,
        from.map(|place| place.created_at),
        from.map(|place| place.id),
        filter.state.map(RunState::as_str),
        filter.conversation_id,
        filter.agent_definition_id,
        filter.root_run_id,
        filter.parent_run_id,
        filter.agent,
        filter.since,
        filter.until,
        filter.is_top_level,
        considered,
        order.as_str(),
        &filter.words,
        after.map(|place| place.rank),
        after.map(|place| place.created_at),
        after.map(|place| place.id),
        limit
    )
    .fetch_all(db)
    .await?;
    let found = rows.into_iter().map(|row| Found {
        place: Place {
            rank: row.rank,
            created_at: row.created_at,
            id: row.id,
        },
        matches: row.matches,
        ends_search: row.ends_search,
        head: RunHead {
            id: row.id,
            state: row.state,
            agent_definition_id: row.agent_definition_id,
            agent_name: row.agent_name,
            parent_run_id: row.parent_run_id,
            root_run_id: row.root_run_id,
            depth: row.depth,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
        },
    });
    Ok(found.collect())
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
