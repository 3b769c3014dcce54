//! The versions of a console's text, and the changes that make them. Called by the consoles' routes and tools.
//!
//! Invariants: a text changes under its row's lock, based on the version that the edit was made on: concurrent changes
//! are merged or refused, never overwritten; a tool call repeated after a crash has no further effect.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::{Console, Writer, check_content, edit, get};
use rejoin_types::owner::Owner;

/// Number of versions kept: older ones can neither be merged with nor restored.
const VERSIONS_KEPT: i32 = 200;

/// A version of a console.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    pub version: i32,
    pub content: String,
    pub modified_by: String,
    pub run_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    Done {
        console: Console,
        /// Whether a concurrent change was merged.
        merged: bool,
    },
    /// Both changed the same lines, or the version is too old to merge: the current console.
    Conflict(Console),
    /// The change can't be applied, with the reason.
    Refused(String),
    NotFound,
}

pub(super) async fn add_version(
    db: &mut PgConnection,
    id: Uuid,
    version: i32,
    content: &str,
    by: Writer,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.console_versions (console_id, version, content, modified_by, run_id, call_id) values ($1, $2, $3, $4, $5, $6)",
        id,
        version,
        content,
        by.name(),
        by.run_id() as _,
        by.call_id() as _
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "delete from kb.console_versions where console_id = $1 and version <= $2",
        id,
        version - VERSIONS_KEPT
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the versions of a console below `before`, newest first.
pub async fn versions(
    db: impl PgExecutor<'_>,
    id: Uuid,
    before: Option<i32>,
    limit: i64,
) -> Result<Vec<Version>, sqlx::Error> {
    sqlx::query_as!(
        Version,
        "select version, content, modified_by, run_id, created_at from kb.console_versions
         where console_id = $1 and ($2::int is null or version < $2) order by version desc limit $3",
        id,
        before,
        limit
    )
    .fetch_all(db)
    .await
}

/// Applies `change`, based on the version `base` (None: the current one), to a console's text.
pub async fn write(
    db: &mut PgConnection,
    owner: Owner,
    id: Uuid,
    base: Option<i32>,
    by: Writer,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Written, sqlx::Error> {
    // Concurrent changes wait.
    let locked = sqlx::query_scalar!(
        "select id from kb.consoles where id = $1 and project_id = $2 and owner_user_id = $3 and deleted_at is null for update",
        id,
        owner.workspace_id,
        owner.user_id
    );
    if locked.fetch_optional(&mut *db).await?.is_none() {
        return Ok(Written::NotFound);
    }
    let Some(now) = get(&mut *db, owner, id).await? else {
        return Ok(Written::NotFound);
    };
    if acted(db, by).await?.is_some() {
        return Ok(Written::Done {
            console: now,
            merged: false,
        });
    }
    let behind = base.filter(|base| *base != now.version);
    let changed = match behind {
        None => change(&now.content),
        Some(base) => {
            let known = sqlx::query_scalar!(
                "select content from kb.console_versions where console_id = $1 and version = $2",
                id,
                base
            );
            let Some(base) = known.fetch_optional(&mut *db).await? else {
                return Ok(Written::Conflict(now));
            };
            match change(&base) {
                Err(fault) => Err(fault),
                Ok(theirs) => match edit::merge(&base, &now.content, &theirs) {
                    Some(merged) => Ok(merged),
                    None => return Ok(Written::Conflict(now)),
                },
            }
        }
    };
    let content = match changed.and_then(|content| check_content(&content).map(|()| content)) {
        Ok(content) => content,
        Err(fault) => return Ok(Written::Refused(fault)),
    };
    let merged = behind.is_some();
    if content == now.content && by == Writer::User {
        return Ok(Written::Done { console: now, merged });
    }
    let version = now.version + 1;
    add_version(db, id, version, &content, by).await?;
    let console = sqlx::query_as!(
        Console,
        "update kb.consoles set content = $2, version = $3, modified_by = $4, modified_run_id = $5, updated_at = now()
         where id = $1
         returning id, conversation_id, title, kind, data_source_id, database, content, version, metadata, is_temporary, modified_by,
                   created_at, updated_at",
        id,
        content,
        version,
        by.name(),
        by.run_id() as _
    )
    .fetch_one(db)
    .await?;
    Ok(Written::Done { console, merged })
}

/// Returns the console that a call has already created or changed, before a crash.
pub async fn acted(db: &mut PgConnection, by: Writer) -> Result<Option<(Uuid, i32)>, sqlx::Error> {
    let Some(call_id) = by.call_id() else { return Ok(None) };
    let found = sqlx::query!(
        "select console_id, version from kb.console_versions where call_id = $1",
        call_id
    );
    Ok(found.fetch_optional(db).await?.map(|row| (row.console_id, row.version)))
}
