//! How a user arranges conversations: pins, the archive, folders, read marks; and lists of them by these. (Folders themselves: `folders`.)
//!
//! Invariant: arranging a conversation does not count as using it: its place by time stays.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::conversations::Conversation;
use rejoin_types::owner::Owner;

/// Unread messages of a conversation are counted up to this number.
pub const UNREAD_MAX: i64 = 100;

/// How a conversation is arranged, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    pub id: Uuid,
    pub is_pinned: bool,
    pub is_archived: bool,
    pub folder_id: Option<Uuid>,
    /// The number of the last message's event that its owner has read. None: it was never marked, and counts as read.
    pub last_read_seq: Option<i64>,
    /// The number of its last message's event; 0: it has none.
    pub last_message_seq: i64,
    /// Answers after `last_read_seq`, at most [`UNREAD_MAX`].
    pub unread: i64,
    /// Whether a run of it is queued, at work, or waits.
    pub is_running: bool,
    /// The version of its agent that it stays with. None: the newest.
    pub agent_version: Option<i32>,
}

/// Returns the marks of the owner's conversations with these ids.
pub async fn marks(db: impl PgExecutor<'_>, owner: Owner, ids: &[Uuid]) -> Result<HashMap<Uuid, Marks>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Marks,
        r#"select c.id, c.pinned_at is not null as "is_pinned!", c.archived_at is not null as "is_archived!", c.folder_id,
                  c.last_read_seq,
                  coalesce((select max(m.seq) from kb.chat_messages m where m.conversation_id = c.id), 0) as "last_message_seq!",
                  case when c.last_read_seq is null then 0 else (
                      select count(*)
                      from (select m.id from kb.chat_messages m
                            where m.conversation_id = c.id and m.seq > c.last_read_seq and m.role = 'assistant'
                            limit $4) unread
                  ) end as "unread!",
                  exists (select from kb.agent_runs r
                          where r.log_id = c.id and r.state in ('queued', 'running', 'waiting')) as "is_running!",
                  c.agent_version
           from kb.chat_conversations c
           where c.project_id = $1 and c.owner_user_id = $2 and c.id = any($3)"#,
        owner.workspace_id,
        owner.user_id,
        ids,
        UNREAD_MAX
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Which conversations a list has. None: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub archived: Option<bool>,
    pub pinned: Option<bool>,
    pub folder: Option<InFolder>,
    pub unread: Option<bool>,
    pub running: Option<bool>,
    /// Pinned ones first, then those that are running; each of these by the time of their last use.
    pub priority_first: bool,
}

/// Where a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFolder {
    None,
    Folder(Uuid),
}

/// The place of a conversation in a list: its priority, its last use, its id.
pub type Place = (i32, DateTime<Utc>, Uuid);

/// A conversation with its priority: 3 pinned and running, 2 pinned, 1 running, 0 neither; always 0 where the list is by time alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub conversation: Conversation,
    pub priority: i32,
}

/// Returns a page of the owner's conversations after `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    filter: &ListFilter,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<Listed>, sqlx::Error> {
    let (is_in_none, folder_id) = match filter.folder {
        None => (false, None),
        Some(InFolder::None) => (true, None),
        Some(InFolder::Folder(id)) => (false, Some(id)),
    };
    let rows = sqlx::query!(
        r#"with running as materialized (
               select distinct r.log_id from kb.agent_runs r
               where r.project_id = $1 and r.user_id = $2 and r.conversation_id is not null
                 and r.state in ('queued', 'running', 'waiting')
           ),
           listed as (
               select c.*,
                      case when $3 then (c.pinned_at is not null)::int * 2
                                        + exists (select from running where running.log_id = c.id)::int
                           else 0 end as priority
               from kb.chat_conversations c
               where c.project_id = $1 and c.owner_user_id = $2
                 and ($4::boolean is null or (c.archived_at is not null) = $4)
                 and ($5::boolean is null or (c.pinned_at is not null) = $5)
                 and (not $6 or c.folder_id is null)
                 and ($7::uuid is null or c.folder_id = $7)
                 and ($8::boolean is null or exists (
                         select from kb.chat_messages m
                         where m.conversation_id = c.id and m.seq > c.last_read_seq and m.role = 'assistant') = $8)
                 and ($9::boolean is null or exists (select from running where running.log_id = c.id) = $9)
           )
           select id as "id!", project_id as "workspace_id!", owner_user_id as "owner_user_id!", agent_definition_id, title as "title!",
                  metadata as "metadata!", created_at as "created_at!", updated_at as "updated_at!", priority as "priority!"
           from listed
           where $10::int is null or (priority, updated_at, id) < ($10, $11, $12)
           order by priority desc, updated_at desc, id desc
           limit $13"#,
        owner.workspace_id,
        owner.user_id,
        filter.priority_first,
        filter.archived as _,
        filter.pinned as _,
        is_in_none,
        folder_id as _,
        filter.unread as _,
        filter.running as _,
        after.map(|(priority, _, _)| priority) as _,
        after.map(|(_, at, _)| at) as _,
        after.map(|(_, _, id)| id) as _,
        limit
    )
    .fetch_all(db)
    .await?;
    let listed = rows.into_iter().map(|row| Listed {
        conversation: Conversation {
            id: row.id,
            workspace_id: row.workspace_id,
            owner_user_id: row.owner_user_id,
            agent_definition_id: row.agent_definition_id,
            title: row.title,
            metadata: row.metadata,
            created_at: row.created_at,
            updated_at: row.updated_at,
        },
        priority: row.priority,
    });
    Ok(listed.collect())
}

/// A change of how conversations are arranged. None: unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrangement {
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    pub folder: Option<InFolder>,
    pub read: Option<ReadMark>,
}

/// Up to where a conversation is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMark {
    /// Up to this number; at most to the end.
    Through(i64),
    End,
    /// Up to the newest answer, without it.
    BeforeNewestAnswer,
}

impl Arrangement {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Arranges the owner's conversations with these ids. Returns those that exist. The folder exists ([`folders::lock`](crate::folders::lock)).
pub async fn arrange(
    db: &mut PgConnection,
    owner: Owner,
    ids: &[Uuid],
    change: &Arrangement,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let folder_id = match change.folder {
        Some(InFolder::Folder(id)) => Some(id),
        Some(InFolder::None) | None => None,
    };
    let (through, is_before_answer) = match change.read {
        None => (None, false),
        Some(ReadMark::Through(seq)) => (Some(seq), false),
        Some(ReadMark::End) => (Some(i64::MAX), false),
        Some(ReadMark::BeforeNewestAnswer) => (None, true),
    };
    sqlx::query_scalar!(
        "update kb.chat_conversations c
         set pinned_at = case when $4::boolean is null then c.pinned_at when $4 then coalesce(c.pinned_at, now()) end,
             archived_at = case when $5::boolean is null then c.archived_at when $5 then coalesce(c.archived_at, now()) end,
             folder_id = case when $6 then $7::uuid else c.folder_id end,
             last_read_seq = case
                 when $8::bigint is not null then
                     least($8, coalesce((select max(m.seq) from kb.chat_messages m where m.conversation_id = c.id), 0))
                 when $9 then
                     coalesce((select max(m.seq) - 1 from kb.chat_messages m where m.conversation_id = c.id and m.role = 'assistant'),
                              c.last_read_seq)
                 else c.last_read_seq end
         where c.project_id = $1 and c.owner_user_id = $2 and c.id = any($3)
         returning c.id",
        owner.workspace_id,
        owner.user_id,
        ids,
        change.pinned as _,
        change.archived as _,
        change.folder.is_some(),
        folder_id as _,
        through as _,
        is_before_answer
    )
    .fetch_all(db)
    .await
}

/// The outcome of [`stay_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    Done,
    /// The conversation's agent has no such version, or it has no agent.
    NoVersion,
    NoConversation,
}

/// Lets a conversation stay with a version of its agent; none: it follows the newest one.
pub async fn stay_with(
    db: &mut PgConnection,
    owner: Owner,
    id: Uuid,
    version: Option<i32>,
) -> Result<Pinned, sqlx::Error> {
    let exists = sqlx::query_scalar!(
        r#"select $4::int is null or exists (
               select from kb.agent_versions v where v.definition_id = c.agent_definition_id and v.version = $4) as "exists!"
           from kb.chat_conversations c
           where c.id = $1 and c.project_id = $2 and c.owner_user_id = $3
           for update of c"#,
        id,
        owner.workspace_id,
        owner.user_id,
        version as _
    )
    .fetch_optional(&mut *db)
    .await?;
    match exists {
        None => return Ok(Pinned::NoConversation),
        Some(exists) if !exists => return Ok(Pinned::NoVersion),
        Some(_) => {}
    }
    sqlx::query!(
        "update kb.chat_conversations set agent_version = $2 where id = $1",
        id,
        version as _
    )
    .execute(db)
    .await?;
    Ok(Pinned::Done)
}
