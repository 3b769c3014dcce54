//! MCP sessions in the database, each bound to its caller: a restarted API, or another one behind the same load
//! balancer, can continue them. Called by the server in `mcp`.

use rejoin_db::rls;
use rejoin_types::owner::Owner;
use rmcp::transport::streamable_http_server::session::store::{SessionState, SessionStore, SessionStoreError};
use serde_json::Value;
use sqlx::PgPool;

/// Maximum number of sessions of one user; the least recently used are removed.
const MAX_PER_USER: i64 = 200;

/// The sessions of one caller.
pub struct Sessions {
    db: PgPool,
    owner: Owner,
}

impl Sessions {
    pub fn new(db: PgPool, owner: Owner) -> Self {
        Self { db, owner }
    }

    /// Returns whether the caller has this session.
    pub async fn is_there(&self, session: &str) -> Result<bool, sqlx::Error> {
        Ok(self.find(session).await?.is_some())
    }

    async fn find(&self, session: &str) -> Result<Option<Value>, sqlx::Error> {
        let mut db = rls::begin(&self.db, rls::Scope::User(self.owner)).await?;
        let found = sqlx::query!(
            r#"select state, used_at < now() - interval '1 hour' as "is_stale!" from kb.mcp_sessions
               where id = $1 and project_id = $2 and user_id = $3"#,
            session,
            self.owner.workspace_id,
            self.owner.user_id
        )
        .fetch_optional(&mut *db)
        .await?;
        let Some(found) = found else { return Ok(None) };
        if found.is_stale {
            sqlx::query!("update kb.mcp_sessions set used_at = now() where id = $1", session)
                .execute(&mut *db)
                .await?;
            db.commit().await?;
        }
        Ok(Some(found.state))
    }
}

#[async_trait::async_trait]
impl SessionStore for Sessions {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(match self.find(session).await? {
            Some(state) => Some(serde_json::from_value(state)?),
            None => None,
        })
    }

    async fn store(&self, session: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let mut db = rls::begin(&self.db, rls::Scope::User(self.owner)).await?;
        sqlx::query!(
            "insert into kb.mcp_sessions (id, project_id, user_id, state) values ($1, $2, $3, $4)",
            session,
            self.owner.workspace_id,
            self.owner.user_id,
            serde_json::to_value(state)?
        )
        .execute(&mut *db)
        .await?;
        sqlx::query!(
            "delete from kb.mcp_sessions where id in (
                 select id from kb.mcp_sessions where project_id = $1 and user_id = $2 order by used_at desc offset $3)",
            self.owner.workspace_id,
            self.owner.user_id,
            MAX_PER_USER
        )
        .execute(&mut *db)
        .await?;
        db.commit().await?;
        Ok(())
    }

    async fn delete(&self, session: &str) -> Result<(), SessionStoreError> {
        let mut db = rls::begin(&self.db, rls::Scope::User(self.owner)).await?;
        sqlx::query!(
            "delete from kb.mcp_sessions where id = $1 and project_id = $2 and user_id = $3",
            session,
            self.owner.workspace_id,
            self.owner.user_id
        )
        .execute(&mut *db)
        .await?;
        db.commit().await?;
        Ok(())
    }
}

/// The empty store, used until a caller is known.
pub struct Nobodys;

#[async_trait::async_trait]
impl SessionStore for Nobodys {
    async fn load(&self, _: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(None)
    }

    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        Err("a session without a caller".into())
    }

    async fn delete(&self, _: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}
