//! Full-text search over the messages of a user's conversations (docs/decisions/0076-message-search.md). The database keeps the words of each
//! message in the transaction that stores it; `kb.search_messages` has the query and its conditions.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use crate::messages::Role;

/// Maximum length of a query, in characters.
pub const QUERY_MAX_CHARS: usize = 500;
/// Maximum number of messages on one page: each has its snippet made.
pub const PAGE_MAX: i64 = 50;
/// The language of a workspace that has set none.
pub const DEFAULT_LANGUAGE: &str = "english";
/// Number of messages of the backlog that are indexed in one transaction.
const BACKLOG_BATCH: i32 = 200;
/// Marks of a found word in a snippet of the database.
const BEGINS: char = '\u{2}';
const ENDS: char = '\u{3}';

/// What to search, and where. None: everywhere.
#[derive(Debug, Clone, Default)]
pub struct Search<'a> {
    /// Words, "phrases", or, -excluded.
    pub text: &'a str,
    pub conversation_id: Option<Uuid>,
    pub folder_id: Option<Uuid>,
    pub archived: Option<bool>,
    pub role: Option<Role>,
}

/// The place of a message in the results: its rank and its id.
pub type Place = (f64, Uuid);

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundMessage {
    pub message_id: Uuid,
    pub conversation_id: Uuid,
    /// Of the conversation.
    pub title: String,
    pub role: String,
    pub seq: i64,
    pub created_at: DateTime<Utc>,
    pub rank: f64,
    /// As the database marks it: [`Snippet::of`].
    pub snippet: String,
}

/// Returns a page of the caller's messages that match, best first, by the transaction's row-level-security scope. The newest `ranked`
/// messages that match are ranked.
pub async fn search(
    db: &mut PgConnection,
    search: &Search<'_>,
    ranked: i32,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<FoundMessage>, sqlx::Error> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    sqlx::query_as!(
        FoundMessage,
        r#"select message_id as "message_id!", conversation_id as "conversation_id!", title as "title!", role as "role!", seq as "seq!",
                  created_at as "created_at!", rank as "rank!", snippet as "snippet!"
           from kb.search_messages($1, $2, $3, $4, $5, $6, $7, $8, $9)"#,
        search.text,
        ranked,
        search.conversation_id as _,
        search.folder_id as _,
        search.archived as _,
        search.role.map(|role| role.as_str()) as _,
        after.map(|(rank, _)| rank) as _,
        after.map(|(_, id)| id) as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// Pieces of a message around the words that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    pub text: String,
    pub marks: Vec<Mark>,
}

/// A found word in a snippet's text, by positions in UTF-16 code units, as strings of JavaScript have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub start: u32,
    /// Exclusive.
    pub end: u32,
}

impl Snippet {
    /// Reads a snippet of the database.
    pub fn of(marked: &str) -> Self {
        let (mut text, mut marks) = (String::with_capacity(marked.len()), Vec::new());
        let (mut at, mut begun) = (0_u32, None);
        for char in marked.chars() {
            match char {
                BEGINS => begun = Some(at),
                ENDS => marks.extend(begun.take().map(|start| Mark { start, end: at })),
                _ => {
                    text.push(char);
                    at += if char.len_utf16() == 2 { 2 } else { 1 };
                }
            }
        }
        Self { text, marks }
    }
}

/// Indexes messages that have no words yet, or those of another language. Returns whether there may be more.
pub async fn index_backlog(db: &PgPool) -> Result<bool, sqlx::Error> {
    let done = sqlx::query_scalar!("select kb.index_message_backlog($1)", BACKLOG_BATCH)
        .fetch_one(db)
        .await?;
    Ok(done.is_some())
}

/// Returns the language of a workspace's messages.
pub async fn language(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<String, sqlx::Error> {
    let set = sqlx::query_scalar!(
        "select language from kb.search_settings where project_id = $1",
        workspace_id
    )
    .fetch_optional(db)
    .await?;
    Ok(set.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned()))
}

/// Returns the languages that the database server has, by name.
pub async fn languages(db: impl PgExecutor<'_>) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select cfgname::text as "name!" from pg_ts_config where cfgnamespace = 'pg_catalog'::regnamespace order by 1"#
    )
    .fetch_all(db)
    .await
}

/// Sets the language of a workspace's messages. Those that exist are indexed again, by the workers' maintenance.
pub async fn set_language(db: &mut PgConnection, workspace_id: Uuid, language: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.search_settings (project_id, language) values ($1, $2)
         on conflict (project_id) do update set language = excluded.language, updated_at = now()
         where kb.search_settings.language <> excluded.language",
        workspace_id,
        language
    )
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_positions_in_utf_16() {
        let snippet = Snippet::of("a 😀 \u{2}word\u{3} and \u{2}wörter\u{3}");
        assert_eq!(snippet.text, "a 😀 word and wörter");
        let mark = |start, end| Mark { start, end };
        assert_eq!(snippet.marks, [mark(5, 9), mark(14, 20)]);
        // What is not closed marks nothing.
        assert!(Snippet::of("\u{3}a\u{2}b").marks.is_empty());
    }
}
