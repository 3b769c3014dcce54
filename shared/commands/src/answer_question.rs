//! Ends a question: a user answers it by id or with their next message, or it expires. A run that waited only for this
//! question resumes.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::steer_run::With;
use super::{Command, CommandError, schedule_tasks, steer_run};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::forms;
use rejoin_runs::questions::{self, Question};
use rejoin_runs::run_dependencies;
use rejoin_runs::runs::Run;
use rejoin_runs::steering;
use rejoin_runs::{run_query, runs, select_questions};
use rejoin_types::events::Kind;

/// The text that precedes files attached to an answer.
const FILES_OF_ANSWER: &str = "These files belong to my answer.";

/// The reason why a question ends.
#[derive(Debug)]
pub enum Closing<'a> {
    Answer {
        answer: &'a Value,
        /// The changed arguments of an approved call.
        input: Option<&'a Value>,
        user_id: Option<Uuid>,
    },
    /// What the client returned for a call of its tool, in the stored form.
    Returned {
        answer: &'a Value,
        user_id: Uuid,
    },
    Expire,
}

#[derive(Debug)]
pub struct CloseQuestion<'a> {
    pub id: Uuid,
    pub closing: Closing<'a>,
}

#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("there is no such question")]
    NotFound,
    #[error("the question is already {status}")]
    Closed { status: String },
    #[error("{0}")]
    Unfit(String),
    #[error("no call {call_id} of a client's tool is known here; {}", in_words(.waiting))]
    NoSuchCall {
        call_id: String,
        /// The calls that wait for their output.
        waiting: Vec<String>,
    },
    #[error("storing the answer failed")]
    Database(#[from] sqlx::Error),
}

fn in_words(waiting: &[String]) -> String {
    match waiting {
        [] => "none waits for its output".to_owned(),
        calls => format!("these wait for their output: {}", calls.join(", ")),
    }
}

impl CommandError for AnswerError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            AnswerError::Database(error) => Some(error),
            AnswerError::NotFound
            | AnswerError::Closed { .. }
            | AnswerError::Unfit(_)
            | AnswerError::NoSuchCall { .. } => None,
        }
    }
}

impl Command for CloseQuestion<'_> {
    type Output = Wake;
    type Error = AnswerError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, AnswerError> {
        let run_id = sqlx::query_scalar!("select run_id from kb.questions where id = $1", self.id)
            .fetch_optional(&mut *db)
            .await?
            .ok_or(AnswerError::NotFound)?;
        let run = runs::get(&mut *db, run_id).await?.ok_or(AnswerError::NotFound)?;
        log::lock(db, run.log_id).await?;
        let question = select_questions!("", "where q.id = $1 for update", self.id)
            .fetch_one(&mut *db)
            .await?;
        if !question.is_pending() {
            return Err(AnswerError::Closed {
                status: question.status,
            });
        }
        let (status, answer, by) = match &self.closing {
            Closing::Answer { answer, input, user_id } => {
                let answer = question.check(answer, *input).map_err(AnswerError::Unfit)?;
                ("answered", Some(answer), *user_id)
            }
            Closing::Returned { answer, user_id } => ("answered", Some((*answer).clone()), Some(*user_id)),
            Closing::Expire => ("expired", None, None),
        };
        if question.kind == "task" {
            // Its run has ended: no events may follow `done`.
            questions::close(db, self.id, run.root_run_id, status, answer.as_ref(), by).await?;
            let decision = answer.as_ref().and_then(Value::as_str);
            return Ok(schedule_tasks::person_decided(db, &run, decision).await?);
        }
        let ending = Ending {
            status,
            answer: answer.as_ref(),
            by,
            // The end of the call publishes it.
            is_told: !question.is_for_client(),
        };
        Ok(close(db, &run, self.id, ending).await?)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Wake) -> Result<bool, sqlx::Error> {
        let closed = sqlx::query_scalar!(
            r#"select exists (select from kb.questions where id = $1 and status <> 'pending') as "closed!""#,
            self.id
        );
        closed.fetch_one(db).await
    }
}

/// A user message that answers questions of waiting runs in its conversation.
pub(super) struct Reply {
    /// The run of the turn that continues.
    pub run_id: Uuid,
    /// The run that asked.
    pub asking: Uuid,
    pub message_id: Uuid,
    /// The number of its `message` event.
    pub seq: i64,
    pub wake: Wake,
}

/// Takes a message as the answer to the open questions of its conversation. None: there are none, or the message
/// answers none.
///
/// Agents' questions come first, and one message answers all of them; of the fields of tools' forms, it fills in the
/// first that it fits. Without any, it may approve or reject a call, if exactly one approval is pending. The caller holds
/// the log's lock.
pub(super) async fn reply(
    db: &mut PgConnection,
    conversation_id: Uuid,
    message: &str,
    with: With<'_>,
    by: Uuid,
) -> Result<Option<Reply>, sqlx::Error> {
    let awaited = questions::awaited_in(db, conversation_id).await?.into_iter();
    // No message is what a client's tool returns.
    let (mut approvals, mut asked): (Vec<_>, Vec<_>) = awaited
        .filter(|question| !question.is_for_client())
        .partition(Question::is_approval);
    if asked.is_empty() && approvals.len() == 1 {
        asked.append(&mut approvals);
    }
    let mut fills_in = false;
    let answers: Vec<(Uuid, Uuid, Value)> = asked
        .into_iter()
        .filter_map(|question| {
            let is_field = question.form_field.is_some();
            if is_field && fills_in {
                return None;
            }
            let answer = question.meant_by(message)?;
            fills_in |= is_field;
            Some((question.id, question.run_id, answer))
        })
        .collect();
    let Some((_, asking, _)) = answers.first() else {
        return Ok(None);
    };
    let turn = run_query!(
        "select",
        "from kb.agent_runs where id = (select root_run_id from kb.agent_runs where id = $1)",
        asking
    )
    .fetch_one(&mut *db)
    .await?;
    let ids: Vec<Uuid> = answers.iter().map(|(id, _, _)| *id).collect();
    let (message_id, seq) = steer_run::tell(db, &turn, message, with, &ids).await?;
    if !with.files.is_empty() {
        // The answer itself is text only: the asking run finds its files as a user message.
        steering::add(db, *asking, FILES_OF_ANSWER, with.files, Some(by)).await?;
    }
    let mut wake = Wake::log(conversation_id);
    for (id, run_id, answer) in &answers {
        let run = run_query!("select", "from kb.agent_runs where id = $1", run_id)
            .fetch_one(&mut *db)
            .await?;
        wake.merge(close(db, &run, *id, Ending::answered(answer, by)).await?);
    }
    Ok(Some(Reply {
        run_id: turn.id,
        asking: *asking,
        message_id,
        seq,
        wake,
    }))
}

/// The end of a question.
pub(super) struct Ending<'a> {
    pub status: &'a str,
    pub answer: Option<&'a Value>,
    pub by: Option<Uuid>,
    /// Whether the answer is published.
    pub is_told: bool,
}

impl<'a> Ending<'a> {
    fn answered(answer: &'a Value, by: Uuid) -> Self {
        Self {
            status: "answered",
            answer: Some(answer),
            by: Some(by),
            is_told: true,
        }
    }

    pub fn cancelled() -> Self {
        Self {
            status: "cancelled",
            answer: None,
            by: None,
            is_told: true,
        }
    }
}

/// Ends a question of `run`, publishes it, and resumes the run if it waited for nothing else. A form that is declined
/// with one of its fields needs no others.
pub(super) async fn close(db: &mut PgConnection, run: &Run, id: Uuid, ending: Ending<'_>) -> Result<Wake, sqlx::Error> {
    let Ending {
        status,
        answer,
        by,
        is_told,
    } = ending;
    if !questions::close(db, id, run.root_run_id, status, answer, by).await? {
        return Ok(Wake::default());
    }
    let mut events = vec![run.event(Kind::QuestionAnswered {
        question_id: id,
        status: status.to_owned(),
        answer: answer.filter(|_| is_told).cloned(),
    })];
    if answer.is_some_and(declines) {
        for other in questions::open_of_form(&mut *db, id).await? {
            questions::close(db, other, run.root_run_id, "cancelled", None, by).await?;
            events.push(run.event(Kind::QuestionAnswered {
                question_id: other,
                status: "cancelled".to_owned(),
                answer: None,
            }));
        }
    }
    let seq = log::append(db, run.log_id, Some(run.root_run_id), &events).await?;
    sqlx::query!("update kb.agent_runs set safe_seq = $2 where id = $1", run.id, seq)
        .execute(&mut *db)
        .await?;
    let mut wake = run_dependencies::wake_if_met(db, run.id).await?;
    wake.merge(Wake::log(run.log_id));
    Ok(wake)
}

/// Whether an answer to a field declines its form.
fn declines(answer: &Value) -> bool {
    let listed = answer.as_array();
    answer == forms::DECLINE || listed.is_some_and(|listed| listed.iter().any(|one| one == forms::DECLINE))
}
