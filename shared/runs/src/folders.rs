//! Folders of a user's conversations in one workspace.
//!
//! Invariant: a conversation is in no folder that does not exist: moves lock the folder, and who deletes it takes its conversations out.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// Maximum length of a name, in characters.
pub const NAME_MAX_CHARS: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Folder {
    pub id: Uuid,
    pub name: String,
    pub created_at: DateTime<Utc>,
    /// The number of its conversations, without archived ones.
    pub conversations: i64,
}

/// The outcome of [`create`] and [`rename`].
#[derive(Debug, Clone, PartialEq)]
pub enum Saved {
    Done(Folder),
    NameTaken,
    /// The user has the maximum number of folders.
    Full,
    NotFound,
}

/// Returns all folders of the owner, by name. Their number is bounded.
pub async fn list(db: impl PgExecutor<'_>, owner: Owner) -> Result<Vec<Folder>, sqlx::Error> {
    sqlx::query_as!(
        Folder,
        r#"select f.id, f.name, f.created_at, coalesce(c.conversations, 0) as "conversations!"
           from kb.chat_folders f
           left join (select folder_id, count(*) as conversations from kb.chat_conversations
                      where project_id = $1 and owner_user_id = $2 and folder_id is not null and archived_at is null
                      group by folder_id) c on c.folder_id = f.id
           where f.project_id = $1 and f.owner_user_id = $2
           order by lower(f.name), f.id"#,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_all(db)
    .await
}

/// Creates a folder, unless the owner has `max` of them.
pub async fn create(db: &mut PgConnection, owner: Owner, name: &str, max: i64) -> Result<Saved, sqlx::Error> {
    let existing = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.chat_folders where project_id = $1 and owner_user_id = $2"#,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_one(&mut *db)
    .await?;
    if existing >= max {
        return Ok(Saved::Full);
    }
    let made = sqlx::query!(
        "insert into kb.chat_folders (id, project_id, owner_user_id, name) values ($1, $2, $3, $4)
         on conflict (project_id, owner_user_id, name) do nothing
         returning id, name, created_at",
        ids::new(),
        owner.workspace_id,
        owner.user_id,
        name
    )
    .fetch_optional(db)
    .await?;
    Ok(made.map_or(Saved::NameTaken, |row| {
        Saved::Done(Folder {
            id: row.id,
            name: row.name,
            created_at: row.created_at,
            conversations: 0,
        })
    }))
}

/// Renames a folder.
pub async fn rename(db: &mut PgConnection, owner: Owner, id: Uuid, name: &str) -> Result<Saved, sqlx::Error> {
    let is_taken = sqlx::query_scalar!(
        r#"select exists (select from kb.chat_folders
                          where project_id = $1 and owner_user_id = $2 and name = $3 and id <> $4) as "taken!""#,
        owner.workspace_id,
        owner.user_id,
        name,
        id
    )
    .fetch_one(&mut *db)
    .await?;
    if is_taken {
        return Ok(Saved::NameTaken);
    }
    let renamed = sqlx::query_as!(
        Folder,
        r#"update kb.chat_folders f set name = $4
           where f.id = $1 and f.project_id = $2 and f.owner_user_id = $3
           returning f.id, f.name, f.created_at,
                     (select count(*) from kb.chat_conversations c
                      where c.project_id = $2 and c.owner_user_id = $3 and c.folder_id = $1 and c.archived_at is null) as "conversations!""#,
        id,
        owner.workspace_id,
        owner.user_id,
        name
    )
    .fetch_optional(db)
    .await?;
    Ok(renamed.map_or(Saved::NotFound, Saved::Done))
}

/// Locks a folder until the caller's transaction ends, so that it is not deleted meanwhile. False: the owner has no such folder.
pub async fn lock(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    let found = sqlx::query_scalar!(
        "select id from kb.chat_folders where id = $1 and project_id = $2 and owner_user_id = $3 for share",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(found.is_some())
}

/// Deletes a folder; its conversations are then in none. False: the owner has no such folder.
pub async fn delete(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<bool, sqlx::Error> {
    // First, so that moves into it wait.
    let deleted = sqlx::query!(
        "delete from kb.chat_folders where id = $1 and project_id = $2 and owner_user_id = $3",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "update kb.chat_conversations set folder_id = null where project_id = $1 and owner_user_id = $2 and folder_id = $3",
        owner.workspace_id,
        owner.user_id,
        id
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected() > 0)
}
