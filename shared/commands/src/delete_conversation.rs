//! Deletes a conversation with all its data. An active run loses its job and thereby its lease: its worker stops and
//! writes nothing more.

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Command;
use rejoin_event_log::log;
use rejoin_identity::audit::{self, Action, Actor, NewEntry};
use rejoin_types::owner::Owner;

#[derive(Debug)]
pub struct DeleteConversation {
    pub owner: Owner,
    /// The user who requested the deletion.
    pub by: Actor,
    pub id: Uuid,
}

impl Command for DeleteConversation {
    type Output = bool;
    type Error = sqlx::Error;

    /// False: it does not exist or has another owner.
    async fn apply(&self, db: &mut PgConnection) -> Result<bool, sqlx::Error> {
        if rejoin_runs::conversations::get(db, self.owner, self.id)
            .await?
            .is_none()
        {
            return Ok(false);
        }
        log::lock(db, self.id).await?;
        sqlx::query!(
            "delete from queue.jobs where run_id in (select id from kb.agent_runs where conversation_id = $1)",
            self.id
        )
        .execute(&mut *db)
        .await?;
        sqlx::query!("delete from kb.idempotency_keys where conversation_id = $1", self.id)
            .execute(&mut *db)
            .await?;
        sqlx::query!("delete from kb.chat_conversations where id = $1", self.id)
            .execute(&mut *db)
            .await?;
        sqlx::query!("delete from stream.events where log_id = $1", self.id)
            .execute(&mut *db)
            .await?;
        sqlx::query!("delete from stream.logs where log_id = $1", self.id)
            .execute(&mut *db)
            .await?;
        // Last: other audited changes wait from here on.
        let entry = NewEntry {
            by: &self.by,
            workspace_id: Some(self.owner.workspace_id),
            action: Action::ConversationDeleted,
            target: format!("conversation:{}", self.id),
            detail: json!({}),
        };
        audit::append(db, &entry).await?;
        Ok(true)
    }

    async fn happened(&self, db: &mut PgConnection, deleted: &bool) -> Result<bool, sqlx::Error> {
        let left = sqlx::query_scalar!(
            r#"select exists (select from kb.chat_conversations where id = $1) as "left!""#,
            self.id
        );
        Ok(*deleted && !left.fetch_one(db).await?)
    }
}
