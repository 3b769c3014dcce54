//! Prompts of a workspace and of each of its users, added to every agent's own prompt.

use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_types::owner::Owner;

/// Maximum length of one prompt, in characters.
pub const MAX_CHARS: usize = 10_000;

/// The prompts of workspace and user, if set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompts {
    pub of_project: Option<String>,
    pub of_user: Option<String>,
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, user_id: Option<Uuid>) -> Result<Prompts, sqlx::Error> {
    sqlx::query_as!(
        Prompts,
        "select (select prompt from kb.project_prompts where project_id = $1) as of_project,
                (select prompt from kb.user_prompts where project_id = $1 and user_id = $2) as of_user",
        workspace_id,
        user_id as _
    )
    .fetch_one(db)
    .await
}

/// Sets the workspace's prompt; empty: none.
pub async fn set_of_workspace(db: impl PgExecutor<'_>, workspace_id: Uuid, prompt: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_prompts (project_id, prompt) values ($1, $2)
         on conflict (project_id) do update set prompt = excluded.prompt, updated_at = now()",
        workspace_id,
        prompt
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Sets the user's prompt; empty: none.
pub async fn set_of_user(db: impl PgExecutor<'_>, owner: Owner, prompt: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.user_prompts (project_id, user_id, prompt) values ($1, $2, $3)
         on conflict (project_id, user_id) do update set prompt = excluded.prompt, updated_at = now()",
        owner.workspace_id,
        owner.user_id,
        prompt
    )
    .execute(db)
    .await?;
    Ok(())
}
