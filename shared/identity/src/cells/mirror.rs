//! What a cell has of a workspace's identity: the project, its members, and the names of users to whom its rows refer. Workers and
//! policies ask for it there. It is written by moves, and by processes of the API, whenever the directory's version is newer.
//!
//! Invariant: keys, sessions and tickets are in the directory only.

use rejoin_db::rls;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The identity of a workspace, as JSON of the tables' rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    pub project: Value,
    pub users: Value,
    pub members: Value,
}

/// Reads the identity of a workspace in the directory, with these users besides its members. None: there is no such workspace.
pub async fn read(db: &mut PgConnection, workspace_id: Uuid, users: &[Uuid]) -> Result<Option<Identity>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select to_jsonb(p) as "project!",
                  (select coalesce(jsonb_agg(to_jsonb(u) order by u.id), '[]') from kb.users u
                   where u.id = any($2) or u.id in (select m.user_id from kb.project_members m where m.project_id = $1)) as "users!",
                  (select coalesce(jsonb_agg(to_jsonb(m)), '[]') from kb.project_members m where m.project_id = $1) as "members!"
           from kb.projects p where p.id = $1"#,
        workspace_id,
        users
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Identity {
        project: row.project,
        users: row.users,
        members: row.members,
    }))
}

/// Writes it to a cell, as this version. False: the cell has it, or a newer one.
pub async fn write(db: &mut PgConnection, version: i64, identity: &Identity) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select cells.mirror($1, $2, $3, $4) as "written!""#,
        version,
        identity.project,
        identity.users,
        identity.members
    )
    .fetch_one(db)
    .await
}

/// Returns the versions that a cell has.
pub async fn versions(cell: &PgPool) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let mut db = rls::begin(cell, rls::Scope::Login).await?;
    let rows = sqlx::query!("select project_id, version from cells.mirrored")
        .fetch_all(&mut *db)
        .await?;
    Ok(rows.into_iter().map(|row| (row.project_id, row.version)).collect())
}

/// Copies the identity of a workspace from the directory to its cell, as a process of the API.
pub async fn refresh(directory: &PgPool, cell: &PgPool, workspace_id: Uuid, version: i64) -> Result<(), sqlx::Error> {
    let mut from = rls::begin(directory, rls::Scope::Login).await?;
    let Some(identity) = read(&mut from, workspace_id, &[]).await? else {
        return Ok(());
    };
    drop(from);
    let mut to = rls::begin(cell, rls::Scope::Login).await?;
    write(&mut to, version, &identity).await?;
    to.commit().await
}
