//! Questions of a run as elicitations: forms that the client's user fills in. Called by `ask`.
//!
//! Until 2025-11-25 a server sends a form as a request to its client. Since 2026-07-28 it returns the forms instead of a result, and the client
//! repeats its call with the answers.

use rejoin_commands::{CloseQuestion, Closing};
use rejoin_http::problem::Problem;
use rejoin_runs::question_forms::{self, ANSWER};
use rejoin_runs::{forms, questions};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Asked, Context};

/// The decision of a user who declines.
const REFUSE: &str = "refuse";

/// How a client's user can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all: the caller gets the question as its result.
    None,
    /// By a request to the client.
    Request,
    /// By a result that requires input.
    Result,
}

/// Whether the client supports forms.
fn has_forms(context: &Context) -> bool {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // A client that names no mode supports them.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

impl Way {
    pub fn of(context: &Context) -> Self {
        match context.protocol_version() {
            _ if !has_forms(context) => Self::None,
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Self::Result,
            Some(_) | None => Self::Request,
        }
    }

    /// The same of a task: its state names what is required.
    pub fn of_task(context: &Context) -> Self {
        if has_forms(context) { Self::Result } else { Self::None }
    }
}

/// Returns the form of a `question` event. None: no form can express the question.
pub fn form(event: &Value) -> Option<ElicitRequestParams> {
    serde_json::from_value(question_forms::form(event)?).ok()
}

/// Stores what the user answered to a form. False: they did not answer.
pub async fn answer(asked: &Asked, question_id: Uuid, result: &ElicitResult) -> Result<bool, Problem> {
    let (state, caller) = (&asked.state, &asked.caller);
    let found = {
        let mut db = caller.begin(state).await?;
        questions::get_visible(&mut *db, caller.owner(), question_id).await?
    };
    let question = found.ok_or_else(|| Problem::not_found("question_not_found", "The question"))?;
    if !question.is_pending() {
        // Answered elsewhere, or by an earlier try of this call.
        return Ok(true);
    }
    let answer = match (&result.action, &result.content) {
        (ElicitationAction::Accept, Some(content)) => content[ANSWER].clone(),
        (ElicitationAction::Decline, _) if question.is_approval() => json!(REFUSE),
        (ElicitationAction::Decline, _) if question.form_field.is_some() => json!(forms::DECLINE),
        (_, _) => return Ok(false),
    };
    let command = CloseQuestion {
        id: question_id,
        closing: Closing::Answer {
            answer: &answer,
            input: None,
            user_id: Some(caller.user_id),
        },
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok(true)
}
