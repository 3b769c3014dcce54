//! Conversations, as listed by a chat UI. Every query is scoped by workspace AND owner.

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_db::PgError;
use rejoin_event_log::log::{self, LogEnds};
use rejoin_types::owner::Owner;

/// Maximum length of the title taken from the first message, in characters.
pub const TITLE_MAX_CHARS: usize = 50;
/// The title of a conversation without title and messages.
pub const UNTITLED: &str = "New conversation";
/// Maximum length of a client's own name of a conversation, in bytes.
pub const CLIENT_THREAD_MAX_BYTES: usize = 255;
/// Maximum number of conversations examined by one search request. Its cursor continues after them.
pub const SEARCHED_MAX: i64 = 1_000;
/// Number of messages after which a search request examines no further batch of conversations. Its cursor continues.
pub const SEARCHED_MESSAGES_MAX: i64 = 10_000;
/// Number of conversations that a search examines with one query.
const SEARCHED_BATCH: i64 = 25;

#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub owner_user_id: Uuid,
    pub agent_definition_id: Option<Uuid>,
    pub title: String,
    pub metadata: Value,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// Returns the title of a conversation that begins with `message`: its first words or, if it consists of files, their
/// names.
pub fn title_of(message: &str) -> String {
    let names = names_of_files(message);
    let words = if names.is_empty() { message } else { &names };
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(TITLE_MAX_CHARS).collect()
}

/// Returns the names of files at the start of a message: chat pages insert them as ``File `name`:`` before a fence.
fn names_of_files(message: &str) -> String {
    if !message.starts_with("File `") {
        return String::new();
    }
    let fenced = message
        .lines()
        .zip(message.lines().skip(1))
        .filter(|(_, next)| next.starts_with("```"));
    let names = fenced.filter_map(|(line, _)| line.strip_prefix("File `")?.strip_suffix("`:"));
    names.collect::<Vec<_>>().join(", ")
}

/// Creates a conversation and its log. Returns the transaction's time.
pub async fn create(
    db: &mut PgConnection,
    id: Uuid,
    owner: Owner,
    title: &str,
    agent_definition_id: Option<Uuid>,
    metadata: &Value,
) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with log as (insert into stream.logs (log_id) values ($1))
           insert into kb.chat_conversations (id, project_id, owner_user_id, title, agent_definition_id, metadata)
           values ($1, $2, $3, $4, $5, $6)
           returning now() as "now!""#,
        id,
        owner.workspace_id,
        owner.user_id,
        title,
        agent_definition_id,
        metadata,
    )
    .fetch_one(db)
    .await
}

/// Creates a conversation and its log under the client's own name of it. Returns the transaction's time. None: the owner has a
/// conversation with this name; that of a concurrent transaction is waited for.
pub async fn create_in_thread(
    db: &mut PgConnection,
    id: Uuid,
    owner: Owner,
    title: &str,
    agent_definition_id: Option<Uuid>,
    client_thread: &str,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with made as (
               insert into kb.chat_conversations (id, project_id, owner_user_id, title, agent_definition_id, client_thread)
               values ($1, $2, $3, $4, $5, $6)
               on conflict (project_id, owner_user_id, client_thread) where client_thread is not null do nothing
               returning id
           )
           insert into stream.logs (log_id) select id from made returning now() as "now!""#,
        id,
        owner.workspace_id,
        owner.user_id,
        title,
        agent_definition_id,
        client_thread
    )
    .fetch_optional(db)
    .await
}

/// Returns the owner's conversation that their client gave this name.
pub async fn by_client_thread(
    db: &mut PgConnection,
    owner: Owner,
    client_thread: &str,
) -> Result<Option<Conversation>, sqlx::Error> {
    sqlx::query_as!(
        Conversation,
        "select id, project_id as workspace_id, owner_user_id, agent_definition_id, title, metadata, created_at, updated_at
         from kb.chat_conversations where project_id = $1 and owner_user_id = $2 and client_thread = $3",
        owner.workspace_id,
        owner.user_id,
        client_thread
    )
    .fetch_optional(db)
    .await
}

/// The same; failing that, the conversation with this id.
pub async fn by_thread_or_id(
    db: &mut PgConnection,
    owner: Owner,
    name: &str,
) -> Result<Option<Conversation>, sqlx::Error> {
    match (by_client_thread(&mut *db, owner, name).await?, name.parse()) {
        (None, Ok(id)) => get(db, owner, id).await,
        (found, _) => Ok(found),
    }
}

pub async fn get(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<Option<Conversation>, sqlx::Error> {
    sqlx::query_as!(
        Conversation,
        "select id, project_id as workspace_id, owner_user_id, agent_definition_id, title, metadata, created_at, updated_at
         from kb.chat_conversations where id = $1 and project_id = $2 and owner_user_id = $3",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// Returns the first and last event numbers of the owner's conversation. One query that also checks its existence:
/// after a restart, all readers ask at once.
pub async fn log_ends(pool: &Pool, owner: Owner, id: Uuid) -> Result<Option<LogEnds>, PgError> {
    let sql = "select l.last_seq, l.oldest_seq, l.archived_seq
               from kb.chat_conversations c join stream.log_ends l on l.log_id = c.id
               where c.id = $1 and c.project_id = $2 and c.owner_user_id = $3";
    let found = log::query_one_with_ends(pool, owner, sql, &[&id, &owner.workspace_id, &owner.user_id]).await?;
    Ok(found.map(|(ends, _)| ends))
}

/// Returns a page of the owner's conversations, most recently used first, after the cursor (updated_at, id).
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Conversation>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Conversation,
        "select id, project_id as workspace_id, owner_user_id, agent_definition_id, title, metadata, created_at, updated_at
         from kb.chat_conversations
         where project_id = $1 and owner_user_id = $2
           and ($3::timestamptz is null or (updated_at, id) < ($3, $4))
         order by updated_at desc, id desc
         limit $5",
        owner.workspace_id,
        owner.user_id,
        at,
        id,
        limit
    )
    .fetch_all(db)
    .await
}

/// The position of a conversation in the list: (updated_at, id).
pub type Position = (DateTime<Utc>, Uuid);

/// A page of a search.
#[derive(Debug)]
pub struct SearchPage {
    /// At most the requested number, most recently used first.
    pub conversations: Vec<Conversation>,
    /// The start of the next page. None: all of the owner's conversations were searched.
    pub next: Option<Position>,
}

/// Searches the titles and messages of the owner's conversations for a text, ignoring case.
///
/// It scans the list's index from the cursor on, in batches, and reads each conversation's messages by their index. The
/// index of words cannot find a part of a word or a punctuation mark, and no text index is used under row-level
/// security. A search ends with a full page, or at `SEARCHED_MAX` or `SEARCHED_MESSAGES_MAX`; a page may therefore hold
/// fewer conversations than asked for, or none, and still have a next one.
pub async fn search(
    db: &mut PgConnection,
    owner: Owner,
    text: &str,
    after: Option<Position>,
    limit: i64,
) -> Result<SearchPage, sqlx::Error> {
    let mut page = SearchPage {
        conversations: Vec::new(),
        next: after,
    };
    let (mut examined, mut messages) = (0, 0);
    while examined < SEARCHED_MAX && messages < SEARCHED_MESSAGES_MAX {
        let batch = examine(&mut *db, owner, text, page.next).await?;
        let is_last = batch.len() as i64 != SEARCHED_BATCH;
        for Examined {
            conversation,
            messages: read,
            matches,
        } in batch
        {
            examined += 1;
            messages += read;
            page.next = Some((conversation.updated_at, conversation.id));
            if matches {
                page.conversations.push(conversation);
            }
            if page.conversations.len() as i64 == limit {
                return Ok(page);
            }
        }
        if is_last {
            page.next = None;
            break;
        }
    }
    Ok(page)
}

/// A conversation that a search has examined.
struct Examined {
    conversation: Conversation,
    /// Number of its messages that were read.
    messages: i64,
    matches: bool,
}

/// Examines the next batch of the owner's conversations, most recently used first.
async fn examine(
    db: &mut PgConnection,
    owner: Owner,
    text: &str,
    after: Option<Position>,
) -> Result<Vec<Examined>, sqlx::Error> {
    let (at, id) = after.unzip();
    let rows = sqlx::query!(
        r#"select c.id, c.project_id as workspace_id, c.owner_user_id, c.agent_definition_id, c.title, c.metadata,
                  c.created_at, c.updated_at, m.messages as "messages!", c.in_title or m.in_messages as "matches!"
           from (
               select id, project_id, owner_user_id, agent_definition_id, title, metadata, created_at, updated_at,
                      strpos(lower(title), lower($5)) > 0 as in_title
               from kb.chat_conversations
               where project_id = $1 and owner_user_id = $2
                 and ($3::timestamptz is null or (updated_at, id) < ($3, $4))
               order by updated_at desc, id desc
               limit $6
           ) c
           cross join lateral (
               select count(*) as messages,
                      -- For a text in ASCII, only ASCII letters have to be compared ignoring case: that takes half the time.
                      coalesce(bool_or(strpos(case when $7 then lower(content collate "C") else lower(content) end,
                                              lower($5)) > 0), false) as in_messages
               from kb.chat_messages
               where conversation_id = c.id and not c.in_title
           ) m
           order by c.updated_at desc, c.id desc"#,
        owner.workspace_id,
        owner.user_id,
        at,
        id,
        text,
        SEARCHED_BATCH,
        text.is_ascii()
    )
    .fetch_all(db)
    .await?;
    let examined = rows.into_iter().map(|row| Examined {
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
        messages: row.messages,
        matches: row.matches,
    });
    Ok(examined.collect())
}

/// Changes title or metadata (null: unchanged). None: it does not exist, or has another owner.
pub async fn update(
    db: impl PgExecutor<'_>,
    owner: Owner,
    id: Uuid,
    title: Option<&str>,
    metadata: Option<&Value>,
) -> Result<Option<Conversation>, sqlx::Error> {
    sqlx::query_as!(
        Conversation,
        "update kb.chat_conversations
         set title = coalesce($4, title), metadata = coalesce($5, metadata), updated_at = now()
         where id = $1 and project_id = $2 and owner_user_id = $3
         returning id, project_id as workspace_id, owner_user_id, agent_definition_id, title, metadata, created_at, updated_at",
        id,
        owner.workspace_id,
        owner.user_id,
        title,
        metadata
    )
    .fetch_optional(db)
    .await
}

/// Gives a conversation without an agent one. One that has an agent keeps it.
pub async fn give_agent(
    db: impl PgExecutor<'_>,
    owner: Owner,
    id: Uuid,
    agent_definition_id: Uuid,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.chat_conversations set agent_definition_id = $4
         where id = $1 and project_id = $2 and owner_user_id = $3 and agent_definition_id is null",
        id,
        owner.workspace_id,
        owner.user_id,
        agent_definition_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Gives a conversation another agent, for the turns that begin from now on. With its own agent nothing changes.
pub async fn set_agent(db: impl PgExecutor<'_>, id: Uuid, agent_definition_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.chat_conversations set agent_definition_id = $2, agent_version = null
         where id = $1 and agent_definition_id is distinct from $2",
        id,
        agent_definition_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records that the conversation was used, for the order of lists. Returns the transaction's time.
pub async fn touch(db: &mut PgConnection, id: Uuid) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"update kb.chat_conversations set updated_at = now() where id = $1 returning now() as "now!""#,
        id
    )
    .fetch_one(db)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_words_or_the_names_of_files_without_any() {
        let file = |name: &str| format!("File `{name}`:\n```\n# Notes\n\nmore\n```");
        for (message, title) in [
            ("  What is\nlibssl3?", "What is libssl3?"),
            (
                &*"long ".repeat(20),
                "long long long long long long long long long long ",
            ),
            (
                &*format!("Read this.\n\n{}", file("a.md")),
                "Read this. File `a.md`: ``` # Notes more ```",
            ),
            (&*format!("{}\n\n{}", file("a.md"), file("b.csv")), "a.md, b.csv"),
            ("File `x` is gone", "File `x` is gone"),
        ] {
            assert_eq!(title_of(message), title);
        }
    }
}
