//! The cases of an evaluation set: written by hand, or from runs and what they answered.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// Maximum number of cases of a set.
pub const CASES_MAX: i64 = 1_000;
/// Maximum length of a question and of an expected answer, in characters.
pub const TEXT_MAX_CHARS: usize = 16_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub id: Uuid,
    pub question: String,
    /// None: the judge decides by the question and the criteria alone.
    pub expected: Option<String>,
    /// The run that was asked the question.
    pub run_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCase {
    pub question: String,
    pub expected: Option<String>,
    pub run_id: Option<Uuid>,
}

impl NewCase {
    /// Validates it. The error is a message for the user.
    pub fn check(&self) -> Result<(), String> {
        let change = CaseChange {
            question: Some(&self.question),
            expected: Some(self.expected.as_deref()),
        };
        change.check()
    }
}

impl CaseChange<'_> {
    /// Validates it. The error is a message for the user.
    pub fn check(&self) -> Result<(), String> {
        let fits = |text: &str| text.chars().count() <= TEXT_MAX_CHARS && !text.contains('\0');
        if !self
            .question
            .is_none_or(|question| !question.trim().is_empty() && fits(question))
        {
            return Err(format!(
                "question must have 1 to {TEXT_MAX_CHARS} characters and no NUL"
            ));
        }
        if !self.expected.flatten().is_none_or(fits) {
            return Err(format!(
                "expected must have at most {TEXT_MAX_CHARS} characters and no NUL"
            ));
        }
        Ok(())
    }
}

/// What became of cases that were to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The number that was added; the rest came from runs that the set has already.
    Cases(u64),
    /// The set would have more than [`CASES_MAX`]; none was added.
    TooMany,
    /// The set does not exist.
    NoSet,
}

/// Adds cases, in this order. A run becomes at most one case of a set.
pub async fn add(
    db: &mut PgConnection,
    workspace_id: Uuid,
    set_id: Uuid,
    cases: &[NewCase],
) -> Result<Added, sqlx::Error> {
    let set = sqlx::query_scalar!(
        "select id from kb.evaluation_sets where project_id = $1 and id = $2 for no key update",
        workspace_id,
        set_id
    );
    if set.fetch_optional(&mut *db).await?.is_none() {
        return Ok(Added::NoSet);
    }
    let ids: Vec<Uuid> = cases.iter().map(|_| ids::new()).collect();
    let questions: Vec<&str> = cases.iter().map(|case| case.question.as_str()).collect();
    let expected: Vec<Option<&str>> = cases.iter().map(|case| case.expected.as_deref()).collect();
    let runs: Vec<Option<Uuid>> = cases.iter().map(|case| case.run_id).collect();
    let added = sqlx::query!(
        "insert into kb.evaluation_cases (id, set_id, project_id, question, expected, run_id, created_at)
         select c.id, $1, $2, c.question, c.expected, c.run_id, clock_timestamp()
         from unnest($3::uuid[], $4::text[], $5::text[], $6::uuid[]) with ordinality c(id, question, expected, run_id, place)
         order by c.place
         on conflict (set_id, run_id) do nothing",
        set_id,
        workspace_id,
        &ids,
        &questions as _,
        &expected as _,
        &runs as _
    )
    .execute(&mut *db)
    .await?
    .rows_affected();
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.evaluation_cases where set_id = $1"#,
        set_id
    );
    if count.fetch_one(db).await? > CASES_MAX {
        return Ok(Added::TooMany);
    }
    Ok(Added::Cases(added))
}

/// Returns a page of a set's cases after `after`, in the order in which they were added.
pub async fn list_cases(
    db: impl PgExecutor<'_>,
    set_id: Uuid,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Case>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Case,
        "select id, question, expected, run_id, created_at from kb.evaluation_cases
         where set_id = $1 and ($2::timestamptz is null or (created_at, id) > ($2, $3))
         order by created_at, id limit $4",
        set_id,
        at as _,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns all cases of a set. Their number is bounded.
pub async fn all_cases(db: impl PgExecutor<'_>, set_id: Uuid) -> Result<Vec<Case>, sqlx::Error> {
    list_cases(db, set_id, None, CASES_MAX).await
}

/// A change of a case. None: unchanged.
#[derive(Debug, Clone, Default)]
pub struct CaseChange<'a> {
    pub question: Option<&'a str>,
    pub expected: Option<Option<&'a str>>,
}

/// Changes a case. None: the set has no such case.
pub async fn update_case(
    db: impl PgExecutor<'_>,
    set_id: Uuid,
    id: Uuid,
    change: &CaseChange<'_>,
) -> Result<Option<Case>, sqlx::Error> {
    sqlx::query_as!(
        Case,
        "update kb.evaluation_cases
         set question = coalesce($3, question), expected = case when $4 then $5 else expected end
         where set_id = $1 and id = $2
         returning id, question, expected, run_id, created_at",
        set_id,
        id,
        change.question,
        change.expected.is_some(),
        change.expected.flatten()
    )
    .fetch_optional(db)
    .await
}

/// Deletes a case. False: the set has no such case.
pub async fn delete_case(db: impl PgExecutor<'_>, set_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.evaluation_cases where set_id = $1 and id = $2",
        set_id,
        id
    );
    Ok(deleted.execute(db).await?.rows_affected() == 1)
}

/// Returns cases from the owner's own runs, those among these that are no parts of others; with their answers as the expected ones, if
/// `expect_answers`.
pub async fn of_runs(
    db: impl PgExecutor<'_>,
    owner: Owner,
    run_ids: &[Uuid],
    expect_answers: bool,
) -> Result<Vec<NewCase>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select r.id, r.input, coalesce(m.content, r.summary) as answer
           from kb.agent_runs r left join kb.chat_messages m on m.id = r.final_message_id
           where r.id = any($3) and r.project_id = $1 and r.user_id = $2 and r.parent_run_id is null
           order by r.created_at, r.id"#,
        owner.workspace_id,
        owner.user_id,
        run_ids
    )
    .fetch_all(db)
    .await?;
    let cases = rows.into_iter().map(|row| NewCase {
        question: row.input,
        expected: row.answer.filter(|_| expect_answers),
        run_id: Some(row.id),
    });
    Ok(cases.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_a_question_of_limited_length() {
        let case = |question: &str, expected: Option<&str>| NewCase {
            question: question.to_owned(),
            expected: expected.map(str::to_owned),
            run_id: None,
        };
        let long = "x".repeat(TEXT_MAX_CHARS + 1);
        assert_eq!(case("Why?", None).check(), Ok(()));
        assert_eq!(case("Why?", Some(&long[1..])).check(), Ok(()));
        assert!(case(" ", None).check().unwrap_err().starts_with("question"));
        assert!(case(&long, None).check().unwrap_err().starts_with("question"));
        assert!(case("Why?", Some(&long)).check().unwrap_err().starts_with("expected"));
        assert!(case("Why?", Some("a\0")).check().unwrap_err().starts_with("expected"));
    }
}
