//! Packs installed in a workspace: SQL of `kb.template_assignments`. Called by the pack tools and routes, and by the
//! parts of the product that bring packs. Invariant: a pack whose types have live objects cannot be uninstalled.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{Connection as _, PgConnection, PgExecutor};
use uuid::Uuid;

use super::get;
use crate::Error;
use rejoin_types::ids;

/// A pack installed in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    pub id: Uuid,
    pub pack_id: Uuid,
    pub name: String,
    pub version: String,
    /// None: all types.
    pub enabled_types: Option<Vec<String>>,
    pub disabled_types: Vec<String>,
    pub active: bool,
    /// Number of live objects of the pack's types.
    pub objects: i64,
    pub created_at: DateTime<Utc>,
}

/// Returns the workspace's installed packs, oldest first.
pub async fn installed(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<Assignment>, Error> {
    sqlx::query_as!(
        Assignment,
        r#"select a.id, a.pack_id, p.name, p.version, a.enabled_types, a.disabled_types, a.active, a.created_at,
                  (select count(*) from kb.graph_objects o
                   where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
                     and o.type in (select jsonb_object_keys(p.object_types))) as "objects!"
           from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
           where a.project_id = $1 order by a.created_at, a.id"#,
        workspace_id
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list what is installed"))
}

/// Installs a pack, or changes its enabled types. Existing objects stay unchanged: their next change is validated.
pub async fn assign(
    db: &mut PgConnection,
    workspace_id: Uuid,
    pack_id: Uuid,
    enabled_types: Option<&[String]>,
    disabled_types: &[String],
) -> Result<Assignment, Error> {
    let pack = get(&mut *db, workspace_id, pack_id).await?;
    if pack.status == "deprecated" {
        return Err(Error::Conflict(format!(
            "the pack {} is deprecated; install a newer one",
            pack.name
        )));
    }
    let known = |name: &String| {
        [&pack.object_types, &pack.relationship_types]
            .iter()
            .any(|types| types.get(name).is_some())
    };
    if let Some(unknown) = enabled_types
        .unwrap_or_default()
        .iter()
        .chain(disabled_types)
        .find(|name| !known(name))
    {
        return Err(Error::Invalid(format!("the pack {} has no type {unknown}", pack.name)));
    }
    // Another version of the same pack would validate the same types against two schemas.
    let other = sqlx::query_scalar!(
        "select p.version from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
         where a.project_id = $1 and p.name = $2 and p.id <> $3 and a.active limit 1",
        workspace_id,
        pack.name,
        pack_id
    )
    .fetch_optional(&mut *db)
    .await
    .map_err(Error::database("look for other versions of a pack"))?;
    if let Some(other) = other {
        return Err(Error::Conflict(format!(
            "version {other} of the pack {} is installed; deactivate it first (active false)",
            pack.name
        )));
    }
    sqlx::query!(
        "insert into kb.template_assignments (id, project_id, pack_id, enabled_types, disabled_types)
         values ($1, $2, $3, $4, $5)
         on conflict (project_id, pack_id) do update
             set enabled_types = excluded.enabled_types, disabled_types = excluded.disabled_types, active = true, updated_at = now()",
        ids::new(),
        workspace_id,
        pack_id,
        enabled_types as Option<&[String]>,
        disabled_types
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("install a pack"))?;
    let all = installed(db, workspace_id).await?;
    all.into_iter()
        .find(|assignment| assignment.pack_id == pack_id)
        .ok_or_else(|| Error::not_found("template pack", pack_id))
}

/// Enables or disables an installed pack.
pub async fn set_active(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    active: bool,
) -> Result<Assignment, Error> {
    let changed = sqlx::query!(
        "update kb.template_assignments set active = $3, updated_at = now() where id = $2 and project_id = $1",
        workspace_id,
        id,
        active
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("switch a pack on or off"))?;
    if changed.rows_affected() == 0 {
        return Err(Error::not_found("template assignment", id));
    }
    let all = installed(db, workspace_id).await?;
    all.into_iter()
        .find(|assignment| assignment.id == id)
        .ok_or_else(|| Error::not_found("template assignment", id))
}

/// Returns the types of one pack that another lacks, and of which there are live objects.
pub async fn lost_by(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    pack_id: Uuid,
    other_id: Uuid,
) -> Result<Vec<String>, Error> {
    sqlx::query_scalar!(
        r#"select t.name as "name!" from kb.template_packs p cross join lateral jsonb_object_keys(p.object_types) as t(name)
           where p.id = $2
             and not exists (select from kb.template_packs other where other.id = $3 and other.object_types ? t.name)
             and exists (select from kb.graph_objects o
                         where o.project_id = $1 and o.type = t.name and o.superseded_at is null and o.deleted_at is null)
           order by t.name"#,
        workspace_id,
        pack_id,
        other_id
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("compare packs"))
}

/// Removes a pack that was replaced by another one from the workspace, in the caller's transaction.
pub async fn release(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        "delete from kb.template_assignments where id = $2 and project_id = $1",
        workspace_id,
        id
    )
    .execute(db)
    .await
    .map_err(Error::database("release a pack"))?;
    Ok(())
}

/// Uninstalls a pack, unless there are live objects of its types.
pub async fn uninstall(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<(), Error> {
    let mut tx = db.begin().await.map_err(Error::database("begin to uninstall a pack"))?;
    // Writes validated against it share its lock (`rules`): their objects are counted, or they come later.
    sqlx::query!(
        "select id from kb.template_assignments where id = $2 and project_id = $1 for update",
        workspace_id,
        id
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(Error::database("lock what is installed"))?;
    let all = installed(&mut *tx, workspace_id).await?;
    let assignment = all
        .into_iter()
        .find(|assignment| assignment.id == id)
        .ok_or_else(|| Error::not_found("template assignment", id))?;
    if assignment.objects > 0 {
        return Err(Error::Conflict(format!(
            "{} live objects use the types of {}; delete them first, or deactivate the pack (active false)",
            assignment.objects, assignment.name
        )));
    }
    sqlx::query!(
        "delete from kb.template_assignments where id = $2 and project_id = $1",
        workspace_id,
        id
    )
    .execute(&mut *tx)
    .await
    .map_err(Error::database("uninstall a pack"))?;
    tx.commit()
        .await
        .map_err(Error::database("commit that a pack is uninstalled"))
}
