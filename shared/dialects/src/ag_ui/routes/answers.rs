//! Answers to the questions of a waiting run: entries of `resume`, and results of the client's tools. Posting the same answers again changes
//! nothing, so that a client may repeat its request.

use axum::http::StatusCode;
use rejoin_chat::ChatState;
use rejoin_commands::{AnswerError, CloseQuestion, Closing};
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_runs::client_calls::{self, CallsOf};
use rejoin_runs::client_tools::ClientOutput;
use rejoin_runs::questions::{self, Question};
use rejoin_runs::runs;
use uuid::Uuid;

use crate::ag_ui::interrupts::Reply;
use crate::ag_ui::request::{ResumeEntry, ToolResult};

/// Maximum number of answers in one request.
const ANSWERS_MAX: usize = 100;

/// What was answered.
#[derive(Debug, Default)]
pub struct Given {
    pub questions: Vec<Uuid>,
    /// The run that goes on.
    pub root: Option<Uuid>,
}

pub fn nothing_waits() -> Problem {
    Problem::bad_request(
        "nothing_to_run",
        "no run of this thread waits for these results; add a user's message",
    )
}

/// Stores the answers. `is_followed`: a user's message follows; then results of calls that don't wait are history.
pub async fn give(
    state: &ChatState,
    caller: &Caller,
    conversation: Uuid,
    entries: &[ResumeEntry],
    results: &[ToolResult],
    is_followed: bool,
) -> Result<Given, Problem> {
    if entries.len() + results.len() > ANSWERS_MAX {
        let detail = format!("a request can have at most {ANSWERS_MAX} answers");
        return Err(Problem::bad_request("too_many_answers", detail));
    }
    let mut given = Given::default();
    for result in results {
        let of = CallsOf::Conversation(conversation);
        let mut db = caller.begin(state).await?;
        let call = client_calls::find(&mut *db, caller.owner(), of, native_id(&result.call_id)).await?;
        drop(db);
        // Clients send the results of the server's tools back, too.
        let Some(call) = call else { continue };
        if call.status != "pending" && (is_followed || !entries.is_empty()) {
            continue;
        }
        if call.status == "pending" {
            let output = match &result.error {
                Some(error) => ClientOutput::Error(error),
                None => ClientOutput::Text(&result.content),
            };
            let pool = &state.db.pool_sqlx;
            match rejoin_commands::answer_client_tool(pool, caller.owner(), of, native_id(&result.call_id), output)
                .await
            {
                Ok(answered) => state.bus.publish(answered.wake),
                // Another request was faster.
                Err(AnswerError::Closed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        given.add(state, caller, call.question_id, call.run_id).await?;
    }
    for entry in entries {
        let question = question_of(state, caller, conversation, &entry.interrupt_id).await?;
        let reply =
            Reply::of(entry, &question.interaction_type).map_err(|why| Problem::bad_request("invalid_resume", why))?;
        match &reply {
            Reply::Answer { answer, input } => {
                let closing = Closing::Answer {
                    answer,
                    input: input.as_ref(),
                    user_id: Some(caller.user_id),
                };
                if question.is_pending() {
                    close(state, caller, question.id, closing).await?;
                } else if question.check(answer, input.as_ref()).ok() != question.answer {
                    return Err(answered_before(&question));
                }
            }
            Reply::Abandon if question.is_pending() => close(state, caller, question.id, Closing::Expire).await?,
            Reply::Abandon => {}
        }
        given.add(state, caller, question.id, question.run_id).await?;
    }
    Ok(given)
}

impl Given {
    async fn add(&mut self, state: &ChatState, caller: &Caller, question: Uuid, run: Uuid) -> Result<(), Problem> {
        self.questions.push(question);
        let span = runs::span(&state.db.pool_pg, caller.owner(), run).await?;
        self.root = span.map(|(span, _)| span.root_run_id).or(self.root);
        Ok(())
    }
}

/// The call's id as its provider named it, without the suffix that makes repeated ones different.
fn native_id(id: &str) -> &str {
    id.rsplit_once(crate::ag_ui::REPEATED).map_or(id, |(native, _)| native)
}

async fn question_of(state: &ChatState, caller: &Caller, conversation: Uuid, id: &str) -> Result<Question, Problem> {
    let not_found = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "question_not_found",
            "resume: the thread has no such interrupt",
        )
    };
    let id = id.parse::<Uuid>().map_err(|_| not_found())?;
    let question = questions::get_visible(&mut *caller.begin(state).await?, caller.owner(), id)
        .await?
        .ok_or_else(not_found)?;
    let span = runs::span(&state.db.pool_pg, caller.owner(), question.run_id).await?;
    if span.is_none_or(|(span, _)| span.log_id != conversation) {
        return Err(not_found());
    }
    Ok(question)
}

/// Ends a question; one that another request has just ended stays as it is.
async fn close(state: &ChatState, caller: &Caller, id: Uuid, closing: Closing<'_>) -> Result<(), Problem> {
    let command = CloseQuestion { id, closing };
    match rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await {
        Ok(wake) => {
            state.bus.publish(wake);
            Ok(())
        }
        Err(AnswerError::Closed { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn answered_before(question: &Question) -> Problem {
    let detail = format!(
        "the interrupt {} is already {}; connect to the thread to see what followed",
        question.id, question.status
    );
    Problem::conflict("question_closed", detail)
}
