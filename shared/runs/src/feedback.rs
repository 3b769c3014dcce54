//! Feedback of a conversation's owner on an answer: whether it helped, why, and labels. Lists of it are the source of evaluation sets.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_types::owner::Owner;

/// Maximum length of a comment, in characters.
pub const COMMENT_MAX_CHARS: usize = 2_000;
/// Maximum number of labels, and the maximum length of each, in characters.
pub const LABELS_MAX: usize = 10;
pub const LABEL_MAX_CHARS: usize = 50;

/// Feedback to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewFeedback<'a> {
    pub helped: bool,
    pub comment: Option<&'a str>,
    pub labels: &'a [String],
}

impl NewFeedback<'_> {
    /// Validates it. The error is a message for the user.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let comment = self.comment.unwrap_or_default();
        if comment.chars().count() > COMMENT_MAX_CHARS || comment.contains('\0') {
            let detail = format!("comment must have at most {COMMENT_MAX_CHARS} characters and no NUL");
            return Err(("invalid_comment", detail));
        }
        let is_label = |label: &String| {
            let chars = label.chars().count();
            (1..=LABEL_MAX_CHARS).contains(&chars) && label.trim() == label && !label.contains('\0')
        };
        if self.labels.len() > LABELS_MAX || !self.labels.iter().all(is_label) {
            let detail = format!(
                "labels must be at most {LABELS_MAX}, each of 1 to {LABEL_MAX_CHARS} characters without spaces around them"
            );
            return Err(("invalid_label", detail));
        }
        Ok(())
    }
}

/// Sets or replaces the feedback. False: the owner's conversations contain no such answer.
pub async fn set(
    db: impl PgExecutor<'_>,
    owner: Owner,
    message_id: Uuid,
    feedback: &NewFeedback<'_>,
) -> Result<bool, sqlx::Error> {
    let stored = sqlx::query!(
        "insert into kb.message_feedback (message_id, project_id, user_id, rating, comment, labels)
         select m.id, c.project_id, c.owner_user_id, case when $4 then 1 else -1 end, $5, $6
         from kb.chat_messages m join kb.chat_conversations c on c.id = m.conversation_id
         where m.id = $1 and m.role = 'assistant' and c.project_id = $2 and c.owner_user_id = $3
         on conflict (message_id) do update
         set rating = excluded.rating, comment = excluded.comment, labels = excluded.labels, updated_at = now()",
        message_id,
        owner.workspace_id,
        owner.user_id,
        feedback.helped,
        feedback.comment as _,
        feedback.labels
    );
    Ok(stored.execute(db).await?.rows_affected() == 1)
}

/// Removes the owner's feedback on an answer. False: there is none.
pub async fn remove(db: impl PgExecutor<'_>, owner: Owner, message_id: Uuid) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.message_feedback where message_id = $1 and project_id = $2 and user_id = $3",
        message_id,
        owner.workspace_id,
        owner.user_id
    );
    Ok(removed.execute(db).await?.rows_affected() == 1)
}

/// Feedback with what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    pub message_id: Uuid,
    pub conversation_id: Uuid,
    /// The run that wrote the answer. None: it is gone.
    pub run_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    pub agent: Option<String>,
    pub agent_version: Option<i32>,
    pub model: Option<String>,
    pub helped: bool,
    pub comment: Option<String>,
    pub labels: Vec<String>,
    pub updated_at: DateTime<Utc>,
    /// What the run was asked.
    pub question: Option<String>,
    pub answer: String,
}

/// Which feedback a list has. None: all.
#[derive(Debug, Clone, Default)]
pub struct FeedbackFilter {
    pub message_id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
    pub helped: Option<bool>,
    pub label: Option<String>,
    pub agent_definition_id: Option<Uuid>,
}

/// Returns a page of the owner's feedback after `after` (its time and message), newest first.
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    filter: &FeedbackFilter,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Feedback>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Feedback,
        r#"select f.message_id, m.conversation_id, r.id as "run_id?", r.agent_definition_id as "agent_definition_id?",
                  r.agent_name as "agent?", r.agent_version as "agent_version?", r.model as "model?", f.rating > 0 as "helped!",
                  f.comment, f.labels, f.updated_at, r.input as "question?", m.content as answer
           from kb.message_feedback f
           join kb.chat_messages m on m.id = f.message_id
           left join kb.agent_runs r on r.conversation_id = m.conversation_id and r.final_message_id = m.id
           where f.project_id = $1 and f.user_id = $2
             and ($3::uuid is null or f.message_id = $3)
             and ($4::boolean is null or (f.rating > 0) = $4)
             and ($5::text is null or $5 = any(f.labels))
             and ($6::uuid is null or r.agent_definition_id = $6)
             and ($7::uuid is null or m.conversation_id = $7)
             and ($8::timestamptz is null or (f.updated_at, f.message_id) < ($8, $9))
           order by f.updated_at desc, f.message_id desc
           limit $10"#,
        owner.workspace_id,
        owner.user_id,
        filter.message_id as _,
        filter.helped as _,
        filter.label.as_deref() as _,
        filter.agent_definition_id as _,
        filter.conversation_id as _,
        at as _,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_labels_have_limits() {
        let labels = |count: usize| vec!["wrong".to_owned(); count];
        let code = |comment: &str, labels: &[String]| {
            let feedback = NewFeedback {
                helped: true,
                comment: Some(comment),
                labels,
            };
            feedback.check().err().map(|(code, _)| code)
        };
        assert_eq!(code("fine", &labels(LABELS_MAX)), None);
        assert_eq!(code(&"x".repeat(2_001), &[]), Some("invalid_comment"));
        assert_eq!(code("", &labels(LABELS_MAX + 1)), Some("invalid_label"));
        assert_eq!(code("", &[" wrong".to_owned()]), Some("invalid_label"));
        assert_eq!(code("", &[String::new()]), Some("invalid_label"));
    }
}
