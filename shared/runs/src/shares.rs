//! Links by which anyone may read a conversation (docs/decisions/0077-share-links.md). Its owner makes and revokes them; a reader's transaction
//! has the scope `Reader`, under which row-level security shows what the link shows.
//!
//! Invariants: only the SHA-256 of a token is stored; a link shows nothing once it is revoked or expired, or its owner has left the workspace.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::messages::ChatMessage;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// A link, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub id: Uuid,
    pub conversation_id: Uuid,
    /// The number of the last message's event that is shown. None: later ones are shown, too.
    pub through_seq: Option<i64>,
    pub includes_files: bool,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub revoked_at: Option<DateTime<Utc>>,
    pub last_opened_at: Option<DateTime<Utc>>,
    /// Whether it can be opened.
    pub is_valid: bool,
}

/// A link to be made.
#[derive(Debug, Clone)]
pub struct NewShare<'a> {
    pub conversation_id: Uuid,
    pub token_hash: &'a [u8],
    /// Whether messages that come later are shown.
    pub is_live: bool,
    pub includes_files: bool,
    pub lifetime_s: f64,
}

/// Returns the number of valid links of a conversation.
pub async fn count_valid(db: &mut PgConnection, owner: Owner, conversation_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.conversation_shares
           where conversation_id = $1 and project_id = $2 and owner_user_id = $3 and revoked_at is null and expires_at > now()"#,
        conversation_id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_one(db)
    .await
}

/// Makes a link to the owner's conversation. None: there is no such conversation.
pub async fn create(db: &mut PgConnection, owner: Owner, share: &NewShare<'_>) -> Result<Option<Share>, sqlx::Error> {
    sqlx::query_as!(
        Share,
        r#"insert into kb.conversation_shares (id, project_id, owner_user_id, conversation_id, token_hash, through_seq, includes_files,
                                               expires_at)
           select $1, c.project_id, c.owner_user_id, c.id, $5,
                  case when not $6 then coalesce((select max(m.seq) from kb.chat_messages m where m.conversation_id = c.id), 0) end,
                  $7, now() + make_interval(secs => $8)
           from kb.chat_conversations c
           where c.id = $2 and c.project_id = $3 and c.owner_user_id = $4
           returning id, conversation_id, through_seq, includes_files, created_at, expires_at, revoked_at, last_opened_at,
                     true as "is_valid!""#,
        ids::new(),
        share.conversation_id,
        owner.workspace_id,
        owner.user_id,
        share.token_hash,
        share.is_live,
        share.includes_files,
        share.lifetime_s
    )
    .fetch_optional(db)
    .await
}

/// Returns a page of the owner's links after `after` (a link's id), newest first: of one conversation, or of all.
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    conversation_id: Option<Uuid>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Share>, sqlx::Error> {
    sqlx::query_as!(
        Share,
        r#"select id, conversation_id, through_seq, includes_files, created_at, expires_at, revoked_at, last_opened_at,
                  revoked_at is null and expires_at > now() as "is_valid!"
           from kb.conversation_shares
           where project_id = $1 and owner_user_id = $2 and ($3::uuid is null or conversation_id = $3)
             and ($4::uuid is null or id < $4)
           order by id desc
           limit $5"#,
        owner.workspace_id,
        owner.user_id,
        conversation_id as _,
        after as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// Revokes a link, for ever. Returns its conversation, and whether it was valid until now. None: the owner has no such link.
pub async fn revoke(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<Option<(Uuid, bool)>, sqlx::Error> {
    let found = sqlx::query!(
        r#"select conversation_id, revoked_at is null as "is_open!" from kb.conversation_shares
           where id = $1 and project_id = $2 and owner_user_id = $3
           for update"#,
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(found) = found else { return Ok(None) };
    if found.is_open {
        sqlx::query!("update kb.conversation_shares set revoked_at = now() where id = $1", id)
            .execute(db)
            .await?;
    }
    Ok(Some((found.conversation_id, found.is_open)))
}

/// A shared conversation, as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    pub share_id: Uuid,
    pub workspace_id: Uuid,
    pub conversation_id: Uuid,
    pub title: String,
    pub through_seq: Option<i64>,
    pub includes_files: bool,
    pub expires_at: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
}

/// Returns the conversation of the transaction's link, and records that the link was opened. None: it is unknown, revoked or expired.
pub async fn open(db: &mut PgConnection) -> Result<Option<Shared>, sqlx::Error> {
    let shared = sqlx::query_as!(
        Shared,
        "select s.id as share_id, s.project_id as workspace_id, s.conversation_id, c.title, s.through_seq, s.includes_files, s.expires_at,
                s.created_at
         from kb.conversation_shares s join kb.chat_conversations c on c.id = s.conversation_id
         where s.token_hash = kb.current_share()"
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(shared) = &shared {
        sqlx::query!("select kb.share_opened($1)", shared.share_id)
            .execute(db)
            .await?;
    }
    Ok(shared)
}

/// Returns the workspace of the transaction's link. None: it is unknown, revoked or expired.
pub async fn workspace(db: &mut PgConnection) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select project_id from kb.conversation_shares where token_hash = kb.current_share()")
        .fetch_optional(db)
        .await
}

/// Returns a page of the messages that the transaction's link shows, in order, after `after` (a message's seq).
pub async fn messages(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<ChatMessage>, sqlx::Error> {
    sqlx::query_as!(
        ChatMessage,
        r#"select id, role, content, citations, null::jsonb as retrieval_context, metadata, seq, created_at
           from kb.chat_messages where conversation_id = $1 and seq > $2 order by seq limit $3"#,
        conversation_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}
