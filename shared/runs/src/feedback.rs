//! Feedback of a conversation's owner on an answer.

use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_types::owner::Owner;

/// Maximum length of a comment, in characters.
pub const COMMENT_MAX_CHARS: usize = 2_000;

/// Sets or replaces the feedback. False: the owner's conversations contain no such answer.
pub async fn set(
    db: impl PgExecutor<'_>,
    owner: Owner,
    message_id: Uuid,
    helped: bool,
    comment: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let stored = sqlx::query!(
        "insert into kb.message_feedback (message_id, project_id, user_id, rating, comment)
         select m.id, c.project_id, c.owner_user_id, case when $4 then 1 else -1 end, $5
         from kb.chat_messages m join kb.chat_conversations c on c.id = m.conversation_id
         where m.id = $1 and m.role = 'assistant' and c.project_id = $2 and c.owner_user_id = $3
         on conflict (message_id) do update set rating = excluded.rating, comment = excluded.comment, updated_at = now()",
        message_id,
        owner.workspace_id,
        owner.user_id,
        helped,
        comment as _
    );
    Ok(stored.execute(db).await?.rows_affected() == 1)
}
