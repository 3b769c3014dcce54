//! Query patterns: successful queries learned from runs (`kb.query_patterns`), with their question and the run's last
//! successful query. The data source tools record them; the worker shows matching ones to an agent for the next
//! question.
//!
//! - `pattern`  a query without its values and comments
//!
//! Invariants: a question and its query are shown to their user's agents only; agents of other members get the pattern,
//! which holds no value and no comment. Patterns of a conversation are deleted with it.

mod pattern;

use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use crate::data_sources::DataSource;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

pub use pattern::pattern_of;

/// Maximum length of a recorded query, in characters.
pub const QUERY_MAX_CHARS: usize = 2_000;
/// Maximum length of a recorded question, in characters.
const ASKED_MAX_CHARS: i32 = 500;
/// Maximum length of a new question that is compared, in characters.
const COMPARED_CHARS: i32 = 2_000;
/// Maximum number of queries shown to an agent: the user's own, and patterns of others in the workspace.
const TOLD_OWN: i64 = 3;
const TOLD_SHARED: i64 = 3;

/// A query that has just succeeded in a run.
#[derive(Debug, Clone, Copy)]
pub struct Succeeded<'a> {
    pub run_id: Uuid,
    pub user_id: Uuid,
    pub source: &'a DataSource,
    pub database: Option<&'a str>,
    pub query: &'a str,
}

/// Records a query. It replaces earlier ones of the same run and source: an agent tries queries until one answers the
/// question. At most `kept` are stored per user and workspace; the oldest are removed.
pub async fn learn(db: &PgPool, succeeded: Succeeded<'_>, kept: i64) -> Result<(), sqlx::Error> {
    let Succeeded {
        run_id,
        user_id,
        source,
        database,
        query,
    } = succeeded;
    let query = query.trim();
    if kept <= 0 || query.is_empty() || query.chars().count() > QUERY_MAX_CHARS {
        return Ok(());
    }
    let pattern = pattern_of(query, source.content.kind);
    let mut tx = rejoin_db::begin(db).await?;
    sqlx::query!(
        "delete from kb.query_patterns p using kb.agent_runs r
         where r.id = $1 and p.run_id = r.root_run_id and p.user_id = $2 and p.data_source_id = $3 and p.times = 1 and p.pattern <> $4",
        run_id,
        user_id,
        source.id,
        pattern
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "insert into kb.query_patterns (id, project_id, user_id, data_source_id, database, conversation_id, run_id, asked, query, pattern)
         select $1, root.project_id, $2, $3, $4, root.conversation_id, root.id, left(root.input, $5), $6, $7
         from kb.agent_runs r join kb.agent_runs root on root.id = r.root_run_id
         where r.id = $8 and r.project_id = $9
         on conflict (user_id, data_source_id, database, md5(pattern)) do update
         set asked = excluded.asked, query = excluded.query, conversation_id = excluded.conversation_id,
             times = kb.query_patterns.times + (kb.query_patterns.run_id <> excluded.run_id)::int,
             run_id = excluded.run_id, learned_at = now()",
        ids::new(),
        user_id,
        source.id,
        database.unwrap_or_default(),
        ASKED_MAX_CHARS,
        query,
        pattern,
        run_id,
        source.workspace_id
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "delete from kb.query_patterns where id in (
           select id from kb.query_patterns where project_id = $1 and user_id = $2 order by learned_at desc, id desc offset $3)",
        source.workspace_id,
        user_id,
        kept
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}

/// A query that answered a similar question.
#[derive(Debug, Clone, PartialEq)]
pub struct Similar {
    /// The data source's name and kind.
    pub source: String,
    pub kind: String,
    /// Empty: the source's default.
    pub database: String,
    /// Some: the user's own question. None: another user's, which is not shown.
    pub asked: Option<String>,
    /// The query; another user's without its values.
    pub query: String,
}

/// Returns queries that share words with a question, most similar first: the user's own, then patterns of others in the
/// workspace. Queries with negative feedback are excluded.
pub async fn similar(db: impl PgExecutor<'_>, owner: Owner, question: &str) -> Result<Vec<Similar>, sqlx::Error> {
    sqlx::query_as!(
        Similar,
        r#"with question as (
             -- Any of its words is enough; the rank puts those first that have more of them.
             select replace(plainto_tsquery('english', left($3, $4))::text, ' & ', ' | ')::tsquery as words
           ), known as (
             select p.*, s.name as source, s.kind
             from kb.query_patterns p join kb.data_sources s on s.id = p.data_source_id
             where p.project_id = $1
               and not exists (
                 select from kb.agent_runs r join kb.message_feedback f on f.message_id = r.final_message_id
                 where r.id = p.run_id and f.rating = -1)
           ), own as (
             select source, kind, database, asked, query, pattern, ts_rank(to_tsvector('english', asked || ' ' || query), words) as rank
             from known, question
             where user_id = $2 and to_tsvector('english', asked || ' ' || query) @@ words
             order by rank desc, learned_at desc limit $5
           ), shared as (
             select source, kind, database, pattern, max(ts_rank(to_tsvector('english', pattern), words)) as rank, sum(times) as times
             from known, question
             where user_id <> $2 and to_tsvector('english', pattern) @@ words
               and not exists (select from own o where o.source = known.source and o.pattern = known.pattern)
             group by source, kind, database, pattern
             order by rank desc, times desc, pattern limit $6
           )
           select source as "source!", kind as "kind!", database as "database!", asked, query as "query!"
           from (select source, kind, database, asked, query, 1 as part, rank from own
                 union all
                 select source, kind, database, null, pattern, 2, rank from shared) told
           order by part, rank desc"#,
        owner.workspace_id,
        owner.user_id,
        question,
        COMPARED_CHARS,
        TOLD_OWN,
        TOLD_SHARED
    )
    .fetch_all(db)
    .await
}

/// Formats them for an agent's prompt. Empty: there are none.
pub fn to_prompt(similar: &[Similar]) -> String {
    if similar.is_empty() {
        return String::new();
    }
    let mut prompt = "\n\nQueries that answered earlier questions here. They are examples, not instructions: tables \
        may have changed, and the current question may be different."
        .to_owned();
    for one in similar {
        let place = match one.database.as_str() {
            "" => one.source.clone(),
            database => format!("{}/{database}", one.source),
        };
        let asked = match &one.asked {
            Some(asked) => format!("asked \"{}\"", asked.split_whitespace().collect::<Vec<_>>().join(" ")),
            None => "from other users; ? stands for values".to_owned(),
        };
        prompt.push_str(&format!(
            "\n- {place} ({}), {asked}:\n```\n{}\n```",
            one.kind, one.query
        ));
    }
    prompt
}

/// A recorded query, for its user.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    pub id: Uuid,
    pub data_source_id: Uuid,
    pub database: String,
    pub conversation_id: Option<Uuid>,
    pub asked: String,
    pub query: String,
    pub pattern: String,
    pub times: i32,
    pub learned_at: DateTime<Utc>,
}

/// Returns a page of the owner's queries, newest first, after the cursor (learned_at, id).
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Learned>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Learned,
        "select id, data_source_id, database, conversation_id, asked, query, pattern, times, learned_at
         from kb.query_patterns
         where project_id = $1 and user_id = $2 and ($3::timestamptz is null or (learned_at, id) < ($3, $4))
         order by learned_at desc, id desc limit $5",
        owner.workspace_id,
        owner.user_id,
        at,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// Deletes a query of the owner. False: it does not exist.
pub async fn forget(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from kb.query_patterns where id = $1 and project_id = $2 and user_id = $3",
        id,
        owner.workspace_id,
        owner.user_id
    );
    Ok(gone.execute(db).await?.rows_affected() == 1)
}
