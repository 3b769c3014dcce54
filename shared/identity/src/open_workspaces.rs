//! The workspaces that a caller's credential opens: one, or all of its user's. Called by the endpoint that lists them.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::auth::Caller;

/// A workspace as its member sees it in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWorkspace {
    pub id: Uuid,
    pub name: String,
    /// The user's role.
    pub role: String,
    /// The name by which it is ordered.
    pub sort_name: String,
}

/// Returns up to `limit` workspaces that the caller's credential opens, in the order of their names, after the one with this sort name and
/// id. A session opens those in which it can go on ([`sessions::switch`](crate::sessions::switch)); a token, all of its user's.
pub async fn page(
    db: &mut PgConnection,
    caller: &Caller,
    after: Option<(String, Uuid)>,
    limit: i64,
) -> Result<Vec<OpenWorkspace>, sqlx::Error> {
    let (after_name, after_id) = after.unzip();
    sqlx::query_as!(
        OpenWorkspace,
        r#"select p.id, p.name, m.role, lower(p.name) as "sort_name!"
           from kb.project_members m join kb.projects p on p.id = m.project_id
           left join kb.api_keys k on k.id = $2
           where m.user_id = $1
             and ($2::uuid is null
                  or k.project_id = m.project_id
                  -- a key of all projects
                  or (k.kind = 'key' and k.project_id is null)
                  -- a service account is never signed in with a browser
                  or (k.scopes_anywhere is not null and m.role <> 'service'))
             and ($3::text is null or (lower(p.name), p.id) > ($3, $4::uuid))
           order by lower(p.name), p.id limit $5"#,
        caller.user_id,
        caller.credential.key_id(),
        after_name,
        after_id,
        limit
    )
    .fetch_all(db)
    .await
}
