//! Projects (tenants), users, and who is a member of what.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::ids;

pub async fn create(db: &mut PgConnection, name: &str) -> Result<Uuid, sqlx::Error> {
    let id = ids::new();
    sqlx::query!("insert into kb.projects (id, name) values ($1, $2)", id, name)
        .execute(db)
        .await?;
    Ok(id)
}

/// The project of this name that was made first.
pub async fn find_by_name(db: &mut PgConnection, name: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.projects where name = $1 order by created_at limit 1",
        name
    )
    .fetch_optional(db)
    .await
}

/// The user with this handle, made if there is none.
pub async fn ensure_user(db: &mut PgConnection, handle: &str) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.users (id, handle) values ($1, $2)
         on conflict (handle) do update set handle = excluded.handle
         returning id",
        ids::new(),
        handle
    )
    .fetch_one(db)
    .await
}

/// The user with this handle.
pub async fn find_user(db: &mut PgConnection, handle: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from kb.users where handle = $1", handle)
        .fetch_optional(db)
        .await
}

/// A new user with this handle. None: there is one already.
pub async fn create_user(db: &mut PgConnection, handle: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.users (id, handle) values ($1, $2) on conflict (handle) do nothing returning id",
        ids::new(),
        handle
    )
    .fetch_optional(db)
    .await
}

/// Makes the user a member, unless there is no such project. Idempotent.
pub async fn add_member_if_there(db: &mut PgConnection, project_id: Uuid, user_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_members (project_id, user_id) select id, $2 from kb.projects where id = $1 on conflict do nothing",
        project_id,
        user_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Makes the user a member. Idempotent.
pub async fn add_member(db: &mut PgConnection, project_id: Uuid, user_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_members (project_id, user_id) values ($1, $2) on conflict do nothing",
        project_id,
        user_id
    )
    .execute(db)
    .await?;
    Ok(())
}
