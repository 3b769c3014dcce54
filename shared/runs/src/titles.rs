//! Titles of conversations that a model writes, in place of the beginning of the first message: the request for one, what
//! it is written from, and how it is stored. The worker's title job asks the model.
//!
//! Invariant: only an automatic title is replaced, never a user's own.

use serde_json::json;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::conversations::{UNTITLED, title_of};
use rejoin_queue::NewJob;
use rejoin_types::text::is_hidden;

/// The `queue.jobs.kind` of the title job.
pub const KIND: &str = "title";
/// Maximum length of a model's title, in characters.
pub const TITLE_MAX_CHARS: usize = 100;
/// Maximum number of attempts of the job.
const MAX_ATTEMPTS: i32 = 3;
/// Below interactive work, above sweeps.
const PRIORITY: i16 = 500;
/// Maximum length of the answer's beginning, in characters.
const ANSWER_CHARS: i32 = 1_000;

/// Marks around a whole title, which are removed. The longer one of two with the same beginning comes first.
const MARKS: [(&str, &str); 14] = [
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("`", "`"),
    ("\"", "\""),
    ("'", "'"),
    ("“", "”"),
    ("„", "“"),
    ("„", "”"),
    ("‘", "’"),
    ("«", "»"),
    ("»", "«"),
    ("「", "」"),
    ("『", "』"),
];
/// What ends a sentence, but not a title.
const PERIODS: [char; 4] = ['.', '。', '।', '۔'];
const LINE_BREAKS: [char; 7] = ['\n', '\u{B}', '\u{C}', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The beginning of a conversation whose title is automatic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    pub title: String,
    /// The first message.
    pub message: String,
    /// The beginning of the first answer.
    pub answer: String,
}

/// Requests a title. No effect while a request for the conversation is open.
pub async fn request(db: &mut PgConnection, workspace_id: Uuid, conversation_id: Uuid) -> Result<(), sqlx::Error> {
    let job = NewJob {
        workspace_id,
        unique_key: Some(format!("{KIND}:{conversation_id}")),
        max_attempts: MAX_ATTEMPTS,
        priority: PRIORITY,
        ..NewJob::new(KIND, json!({ "conversationId": conversation_id }))
    };
    rejoin_queue::enqueue(db, &job).await?;
    Ok(())
}

/// Returns what a title is written from. None: the conversation has no answer, or a title of its user's.
pub async fn beginning(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    conversation_id: Uuid,
) -> Result<Option<Beginning>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select c.title,
                  (select content from kb.chat_messages
                   where conversation_id = c.id and role = 'user' order by seq limit 1) as "message?",
                  (select left(content, $3) from kb.chat_messages
                   where conversation_id = c.id and role = 'assistant' order by seq limit 1) as "answer?"
           from kb.chat_conversations c
           where c.id = $2 and c.project_id = $1"#,
        workspace_id,
        conversation_id,
        ANSWER_CHARS
    )
    .fetch_optional(db)
    .await?;
    Ok(row.and_then(|row| {
        let (message, answer) = (row.message?, row.answer?);
        let is_automatic = row.title == title_of(&message) || row.title == UNTITLED;
        is_automatic.then_some(Beginning {
            title: row.title,
            message,
            answer,
        })
    }))
}

/// Stores a title, if the conversation still has the automatic one. It does not count as a use of the conversation.
/// False: its user has named it meanwhile.
pub async fn replace(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    conversation_id: Uuid,
    automatic: &str,
    title: &str,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.chat_conversations set title = $4 where id = $2 and project_id = $1 and title = $3",
        workspace_id,
        conversation_id,
        automatic,
        title
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns the title in a model's answer: its first line with words, without quotation marks, Markdown, a period at the
/// end, and characters that are invisible or change how others are displayed. None: there is none.
pub fn clean(answer: &str) -> Option<String> {
    answer
        .split(LINE_BREAKS)
        .map(clean_line)
        .find(|line| line.contains(char::is_alphanumeric))
}

fn clean_line(line: &str) -> String {
    let visible = line.replace(is_hidden, "");
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    // A heading in Markdown.
    let mut title = line.trim_start_matches('#').strip_prefix(' ').unwrap_or(&line);
    loop {
        let inner = without_marks(title.trim_end_matches(PERIODS)).trim();
        if inner == title {
            return shortened(title);
        }
        title = inner;
    }
}

/// Removes marks around the whole title, not those around its first and its last word.
fn without_marks(title: &str) -> &str {
    let inner = MARKS.iter().find_map(|&(begin, end)| {
        let inner = title.strip_prefix(begin)?.strip_suffix(end)?;
        (!inner.contains(begin) && !inner.contains(end)).then_some(inner)
    });
    inner.unwrap_or(title)
}

/// Shortens a title that is too long, at the end of a word if it has any.
fn shortened(title: &str) -> String {
    let Some((end, _)) = title.char_indices().nth(TITLE_MAX_CHARS) else {
        return title.to_owned();
    };
    let cut = &title[..end];
    let is_whole = title[end..].starts_with(' ');
    match cut.rsplit_once(' ') {
        Some((words, _)) if !is_whole => words.to_owned(),
        Some(_) | None => cut.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_title_is_one_plain_line() {
        for (answer, title) in [
            ("Upgrading libssl3", "Upgrading libssl3"),
            ("\n  Upgrading\tlibssl3.  \nHere is why: …", "Upgrading libssl3"),
            ("**\"Upgrading libssl3.\"**", "Upgrading libssl3"),
            ("# „Umzug nach Köln“", "Umzug nach Köln"),
            ("«Un déménagement».", "Un déménagement"),
            ("「東京への引っ越し」。", "東京への引っ越し"),
            ("\"Foo\" and \"bar\"", "\"Foo\" and \"bar\""),
            ("Meaning of \"serendipity\"", "Meaning of \"serendipity\""),
            ("---\n\n***\nPlans", "Plans"),
            ("#1 of my plans", "#1 of my plans"),
            ("Will it rain?", "Will it rain?"),
            ("gro\u{202E}.\u{0}evil\u{200B}\u{7}", "gro.evil"),
            ("می\u{200C}خواهم", "می\u{200C}خواهم"),
            ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ] {
            assert_eq!(clean(answer).as_deref(), Some(title), "{answer:?}");
        }
        for answer in ["", " \n\t\n", "\"\"", "…", "\u{202E}\u{0}"] {
            assert_eq!(clean(answer), None, "{answer:?}");
        }
    }

    #[test]
    fn a_models_title_is_cut_at_a_word_where_it_has_words() {
        let cut = clean(&"word ".repeat(100)).unwrap();
        assert_eq!(cut.chars().count(), 99);
        assert!(cut.ends_with(" word"), "{cut}");
        assert_eq!(clean(&"長".repeat(500)).unwrap().chars().count(), TITLE_MAX_CHARS);
        let exact = format!("{} {}", "a".repeat(49), "b".repeat(50));
        assert_eq!(clean(&format!("{exact} c")).unwrap(), exact);
    }
}
