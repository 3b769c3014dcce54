//! Consoles: texts that a user and agents write together. Rows of `kb.consoles`, with each change of the text as a
//! version in `kb.console_versions`.
//!
//! - `edit`      text changes and their merging
//! - `version`   versions of the text, and the changes that make them
//! - `attached`  consoles of a conversation and of a message
//! - `connection` the database connection in their metadata
//! - `tools`     the agents' tools
//!
//! Invariants: every query is scoped by workspace AND owner; a text changes under its row's lock, based on the version
//! that the edit was made on: concurrent changes are merged or refused, never overwritten; deleted consoles stay
//! deleted; a tool call repeated after a crash has no further effect.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::owner::Owner;

pub mod attached;
pub mod connection;
pub mod edit;
pub mod tools;
mod version;

use version::add_version;
pub use version::{Version, Written, acted, versions, write};

/// Maximum length of a console's text, in characters.
pub const CONTENT_MAX_CHARS: usize = 200_000;
/// Maximum length of its title, in characters.
pub const TITLE_MAX_CHARS: usize = 200;

/// The current version of a console.
#[derive(Debug, Clone, PartialEq)]
pub struct Console {
    pub id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub title: String,
    pub kind: Option<String>,
    pub data_source_id: Option<Uuid>,
    pub database: Option<String>,
    pub content: String,
    pub version: i32,
    pub metadata: Value,
    pub is_temporary: bool,
    pub modified_by: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The author of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    User,
    /// A tool call of a run.
    Agent {
        run_id: Option<Uuid>,
        call_id: Uuid,
    },
}

impl Writer {
    fn name(self) -> &'static str {
        match self {
            Writer::User => "user",
            Writer::Agent { .. } => "agent",
        }
    }

    fn run_id(self) -> Option<Uuid> {
        match self {
            Writer::User => None,
            Writer::Agent { run_id, .. } => run_id,
        }
    }

    fn call_id(self) -> Option<Uuid> {
        match self {
            Writer::User => None,
            Writer::Agent { call_id, .. } => Some(call_id),
        }
    }
}

/// The content of a new console.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewConsole {
    pub title: String,
    pub content: String,
    pub kind: Option<String>,
    pub data_source_id: Option<Uuid>,
    pub database: Option<String>,
    pub metadata: Option<Value>,
    pub is_temporary: bool,
    pub conversation_id: Option<Uuid>,
}

impl NewConsole {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        check_title(&self.title)?;
        check_content(&self.content)
    }
}

/// Err: why the title is invalid.
pub fn check_title(title: &str) -> Result<(), String> {
    if title.trim().is_empty() || title.chars().count() > TITLE_MAX_CHARS || title.contains('\0') {
        Err(format!("title must have 1 to {TITLE_MAX_CHARS} characters and no NUL"))
    } else {
        Ok(())
    }
}

/// Err: why the text is invalid.
pub fn check_content(content: &str) -> Result<(), String> {
    if content.chars().count() > CONTENT_MAX_CHARS || content.contains('\0') {
        Err(format!(
            "content must have at most {CONTENT_MAX_CHARS} characters and no NUL"
        ))
    } else {
        Ok(())
    }
}

/// Inserts a console. False: the id is taken.
pub async fn insert(
    db: &mut PgConnection,
    owner: Owner,
    id: Uuid,
    console: &NewConsole,
    by: Writer,
) -> Result<bool, sqlx::Error> {
    let made = sqlx::query!(
        "insert into kb.consoles (id, project_id, owner_user_id, conversation_id, title, kind, data_source_id, database, content, metadata,
                                  is_temporary, modified_by, modified_run_id)
         values ($1, $2, $3, $4, $5, $6,
                 -- One that is not the project's is none.
                 (select d.id from kb.data_sources d where d.id = $7 and d.project_id = $2), $8, $9, $10, $11, $12, $13)
         on conflict (id) do nothing",
        id,
        owner.workspace_id,
        owner.user_id,
        console.conversation_id as _,
        console.title,
        console.kind as _,
        console.data_source_id as _,
        console.database as _,
        console.content,
        json!(connection::said_by_client(console.metadata.clone().unwrap_or_default())),
        console.is_temporary,
        by.name(),
        by.run_id() as _,
    )
    .execute(&mut *db)
    .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    add_version(db, id, 1, &console.content, by).await?;
    Ok(true)
}

pub async fn get(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Console>, sqlx::Error> {
    sqlx::query_as!(
        Console,
        "select id, conversation_id, title, kind, data_source_id, database, content, version, metadata, is_temporary, modified_by,
                created_at, updated_at
         from kb.consoles where id = $1 and project_id = $2 and owner_user_id = $3 and deleted_at is null",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// Filters of a list of consoles.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub conversation_id: Option<Uuid>,
    /// Occurring in title or text, case-insensitive.
    pub words: Option<&'a str>,
}

/// Returns a page of the owner's consoles, last changed first, after the cursor (updated_at, id).
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    filter: Filter<'_>,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Console>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Console,
        "select id, conversation_id, title, kind, data_source_id, database, content, version, metadata, is_temporary, modified_by,
                created_at, updated_at
         from kb.consoles
         where project_id = $1 and owner_user_id = $2 and deleted_at is null
           and ($3::uuid is null or conversation_id = $3)
           and ($4::text is null or strpos(lower(title), lower($4)) > 0 or strpos(lower(content), lower($4)) > 0)
           and ($5::timestamptz is null or (updated_at, id) < ($5, $6))
         order by updated_at desc, id desc
         limit $7",
        owner.workspace_id,
        owner.user_id,
        filter.conversation_id as _,
        filter.words,
        at,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// A patch of a console's attributes besides its text. None: unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    pub title: Option<String>,
    pub kind: Option<Option<String>>,
    pub data_source_id: Option<Option<Uuid>>,
    pub database: Option<Option<String>>,
    pub metadata: Option<Value>,
    pub is_temporary: Option<bool>,
}

/// None: it does not exist.
pub async fn change(
    db: &mut PgConnection,
    owner: Owner,
    id: Uuid,
    change: &Change,
) -> Result<Option<Console>, sqlx::Error> {
    sqlx::query_as!(
        Console,
        "update kb.consoles
         set title = coalesce($4, title),
             kind = case when $5 then $6 else kind end,
             data_source_id = case when $7 then (select d.id from kb.data_sources d where d.id = $8 and d.project_id = $2)
                                   else data_source_id end,
             database = case when $9 then $10 else database end,
             -- What was run last stays, unless the change says another thing of it.
             metadata = coalesce(jsonb_strip_nulls(jsonb_build_object('lastQuery', metadata -> 'lastQuery')) || $11, metadata),
             is_temporary = coalesce($12, is_temporary), updated_at = now()
         where id = $1 and project_id = $2 and owner_user_id = $3 and deleted_at is null
         returning id, conversation_id, title, kind, data_source_id, database, content, version, metadata, is_temporary, modified_by,
                   created_at, updated_at",
        id,
        owner.workspace_id,
        owner.user_id,
        change.title as _,
        change.kind.is_some(),
        change.kind.clone().flatten() as _,
        change.data_source_id.is_some(),
        change.data_source_id.flatten() as _,
        change.database.is_some(),
        change.database.clone().flatten() as _,
        change.metadata.clone().map(|metadata| json!(connection::said_by_client(metadata))) as _,
        change.is_temporary as _,
    )
    .fetch_optional(db)
    .await
}

/// Records the query last run from a console.
pub async fn ran(db: impl PgExecutor<'_>, id: Uuid, query: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.consoles set metadata = metadata || jsonb_build_object('lastQuery', $2::text) where id = $1",
        id,
        query
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Deletes a console for good: no later save restores it. False: it does not exist.
pub async fn delete(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    let gone = sqlx::query!(
        "update kb.consoles set deleted_at = now(), content = '', updated_at = now()
         where id = $1 and project_id = $2 and owner_user_id = $3 and deleted_at is null",
        id,
        owner.workspace_id,
        owner.user_id
    );
    if gone.execute(&mut *db).await?.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!("delete from kb.console_versions where console_id = $1", id)
        .execute(&mut *db)
        .await?;
    sqlx::query!(
        "update kb.chat_conversations set pinned_console_id = null where pinned_console_id = $1",
        id
    )
    .execute(db)
    .await?;
    Ok(true)
}

/// Removes temporary consoles untouched for this many days, and remains of deleted ones. At most `limit`.
pub async fn sweep(db: impl PgExecutor<'_>, days: f64, limit: i64) -> Result<u64, sqlx::Error> {
    let swept = sqlx::query!(
        "delete from kb.consoles where id in (
           select id from kb.consoles
           where (is_temporary or deleted_at is not null) and updated_at < now() - $1 * interval '1 day'
           order by updated_at limit $2 for update skip locked)",
        days,
        limit
    );
    Ok(swept.execute(db).await?.rows_affected())
}
