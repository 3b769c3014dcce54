//! Branches of conversations: a fork of a conversation's run is another version of the message that the run answers, in a conversation with copies
//! of the messages before it. Written by `rejoin_commands::ForkRun`, read by the chat UI's switcher.
//!
//! All versions of a message have one *point*: the id of the first version, in the conversation where it was posted.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum number of versions listed for one conversation, over all of its messages.
pub const LISTED_MAX: i64 = 1_000;
/// Length of the beginning of a version that a list shows, in characters.
pub const PREVIEW_CHARS: i32 = 200;

/// A version of one of a conversation's messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The conversation's own message.
    pub at_message_id: Uuid,
    /// The number of its event.
    pub at_seq: i64,
    /// The version, and the conversation with which it goes on.
    pub message_id: Uuid,
    pub conversation_id: Uuid,
    /// Its first characters.
    pub preview: String,
    pub created_at: DateTime<Utc>,
    /// Whether the conversation's own message is this version.
    pub is_current: bool,
}

/// Records that `message_id`, in the new conversation `id`, is a version of `forked`, a message of the conversation `of`.
pub async fn record(
    db: &mut PgConnection,
    id: Uuid,
    message_id: Uuid,
    of: Uuid,
    forked: Uuid,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with tree as (
             select coalesce((select b.root_id from kb.chat_branches b where b.conversation_id = $3), $3::uuid) as root_id
         ),
         original as (
             select coalesce((m.metadata ->> 'copyOf')::uuid, m.id) as id from kb.chat_messages m where m.id = $4
         )
         insert into kb.chat_branches (conversation_id, root_id, point_id, message_id)
         select $1, tree.root_id,
                coalesce((select b.point_id from kb.chat_branches b where b.root_id = tree.root_id and b.message_id = original.id),
                         original.id),
                $2
         from tree, original",
        id,
        message_id,
        of,
        forked
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the versions of a conversation's messages that have several: in the order of the messages, then of their time.
pub async fn versions(db: impl PgExecutor<'_>, conversation_id: Uuid) -> Result<Vec<Version>, sqlx::Error> {
    sqlx::query_as!(
        Version,
        r#"with tree as (
               select b.point_id, b.message_id
               from kb.chat_branches b
               where b.root_id = coalesce((select own.root_id from kb.chat_branches own where own.conversation_id = $1), $1)
           ),
           -- The conversation's messages of its user, with the first version of each.
           own as (
               select m.id, m.seq, o.id as original_id, coalesce(tree.point_id, o.id) as point_id
               from kb.chat_messages m
               cross join lateral (select coalesce((m.metadata ->> 'copyOf')::uuid, m.id) as id) o
               left join tree on tree.message_id = o.id
               where m.conversation_id = $1 and m.role = 'user'
           ),
           versions as (
               select point_id, message_id from tree
               union
               select point_id, point_id from tree
           )
           select own.id as "at_message_id!", own.seq as "at_seq!", m.id as "message_id!", m.conversation_id as "conversation_id!",
                  left(m.content, $2) as "preview!", m.created_at as "created_at!", m.id = own.original_id as "is_current!"
           from own
           join versions v on v.point_id = own.point_id
           join kb.chat_messages m on m.id = v.message_id
           order by own.seq, m.created_at, m.id
           limit $3"#,
        conversation_id,
        PREVIEW_CHARS,
        LISTED_MAX
    )
    .fetch_all(db)
    .await
}
