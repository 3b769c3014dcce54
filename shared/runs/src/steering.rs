//! Pending steering messages of a running run: they wait here until its next step takes them; a run does not complete
//! before that.

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::file_ref::FileRef;

/// A steering message of a run.
#[derive(Debug, Clone)]
pub struct PendingMessage {
    pub id: i64,
    pub content: String,
    /// Its files, as read by [`PendingMessage::files`].
    pub attachments: Option<Value>,
}

impl PendingMessage {
    pub fn files(&self) -> Vec<FileRef> {
        let files = self.attachments.as_ref().map(Vec::<FileRef>::deserialize);
        files.and_then(Result::ok).unwrap_or_default()
    }
}

/// Adds a message. The caller holds the log's lock, and has checked that the run has not ended.
pub async fn add(
    db: &mut PgConnection,
    run_id: Uuid,
    content: &str,
    files: &[FileRef],
    user_id: Option<Uuid>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.run_inbox (run_id, content, attachments, user_id) values ($1, $2, $3, $4)",
        run_id,
        content,
        (!files.is_empty()).then(|| json!(files)),
        user_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the pending messages, oldest first.
pub async fn pending(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<PendingMessage>, sqlx::Error> {
    sqlx::query_as!(
        PendingMessage,
        "select id, content, attachments from kb.run_inbox where run_id = $1 order by id",
        run_id
    )
    .fetch_all(db)
    .await
}
