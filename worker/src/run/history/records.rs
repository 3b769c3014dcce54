//! Messages of a run on record: stored as it begins, and rebuilt by a new attempt.

use futures::try_join;
use rejoin_model_client::{Message, ToolCall, Usage};
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_runs::{run_messages, tool_calls};
use serde::Deserialize as _;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::{InitialMessages, LoadError};
use crate::run::answer::STEP_SEPARATOR;
use crate::run::limits::{Repeats, StopReason, Verdict};
use crate::run::output::REPAIR;

/// A run rebuilt from its records.
pub struct Stored {
    pub system: String,
    pub messages: Vec<Message>,
    /// Unanswered calls of the last assistant message.
    pub open_calls: Vec<ToolCallRow>,
    pub step: i32,
    pub repeats: Repeats,
    pub usage: Usage,
    /// None: no step so far had a price.
    pub cost_usd: Option<f64>,
    pub context_tokens: u64,
    /// The number of ended tool calls in this turn.
    pub calls_made: usize,
    pub reply: String,
    /// The model was asked to stop, for this reason, and has answered.
    pub stopping: Option<StopReason>,
}

impl Stored {
    /// From messages (role, content, step), without any calls.
    fn of(run: &Run, messages: impl Iterator<Item = (String, Value, i32)>) -> Result<Self, LoadError> {
        let mut stored = Self {
            system: String::new(),
            messages: Vec::new(),
            open_calls: Vec::new(),
            step: run.step_count,
            repeats: Repeats::default(),
            usage: Usage::deserialize(&run.usage).unwrap_or_default(),
            cost_usd: run.usage["costUsd"].as_f64(),
            context_tokens: run.usage["contextTokens"].as_u64().unwrap_or_default(),
            calls_made: 0,
            reply: String::new(),
            stopping: None,
        };
        for (role, content, step_number) in messages {
            if role == "system" {
                stored.system = content["text"].as_str().unwrap_or_default().to_owned();
                continue;
            }
            let message: Message = serde_json::from_value(content)?;
            match &message {
                // Of this turn: a resumed run's reply starts empty. A structured output is the reply, if it is the last
                // one.
                Message::Assistant { text, tool_calls, .. } if run.output_schema.is_some() => {
                    if step_number > run.turn_step && tool_calls.is_empty() {
                        stored.reply.clone_from(text);
                    }
                }
                Message::User { text, .. } if text.starts_with(REPAIR) => stored.reply.clear(),
                Message::Assistant { text, .. } if step_number > run.turn_step && !text.is_empty() => {
                    if !stored.reply.is_empty() {
                        stored.reply.push_str(STEP_SEPARATOR);
                    }
                    stored.reply.push_str(text);
                }
                Message::User { text, .. } if step_number > 0 => {
                    stored.stopping = StopReason::ALL.into_iter().find(|reason| reason.instruction() == *text);
                }
                Message::Assistant { .. } | Message::User { .. } | Message::ToolResult { .. } => {}
            }
            stored.messages.push(message);
        }
        Ok(stored)
    }
}

/// Returns what [`rebuild`] finds if only the initial messages are stored.
pub fn begin(run: &Run, initial: &InitialMessages) -> Result<Stored, LoadError> {
    let messages = initial.messages.iter();
    Stored::of(
        run,
        messages.map(|(role, content)| ((*role).to_owned(), content.clone(), 0)),
    )
}

pub async fn rebuild(db: &PgPool, run: &Run) -> Result<Stored, LoadError> {
    let (messages, calls) = try_join!(run_messages::all(db, run.id), tool_calls::all(db, run.id))?;
    let messages = messages.into_iter();
    let mut stored = Stored::of(run, messages.map(|row| (row.role, row.content, row.step_number)))?;
    for call in calls {
        match call.status() {
            CallStatus::Pending | CallStatus::Running => stored.open_calls.push(call),
            CallStatus::Completed | CallStatus::Error | CallStatus::OutcomeUnknown => {
                if call.step_number > run.turn_step {
                    stored.calls_made += 1;
                }
                if stored.repeats.ask(&call.tool_name, &call.input) == Verdict::Go {
                    let content = stored.messages.iter().find_map(|message| match message {
                        Message::ToolResult { call_id, content, .. } if *call_id == call.call_id => Some(content),
                        Message::ToolResult { .. } | Message::User { .. } | Message::Assistant { .. } => None,
                    });
                    stored.repeats.answered(content.map(String::as_str).unwrap_or_default());
                }
            }
        }
    }
    Ok(stored)
}

/// Returns calls that were just stored as pending.
pub fn as_rows(run: &Run, step: i32, calls: &[ToolCall], ids: &[Uuid]) -> Vec<ToolCallRow> {
    (0..)
        .zip(calls.iter().zip(ids))
        .map(|(position, (call, id))| ToolCallRow {
            id: *id,
            run_id: run.id,
            message_id: Uuid::nil(),
            call_id: call.id.clone(),
            step_number: step,
            position,
            tool_name: call.name.clone(),
            input: call.arguments.clone(),
            output: None,
            error: None,
            status: CallStatus::Pending.as_str().to_owned(),
            duration_ms: None,
            created_at: run.created_at,
            started_at: None,
            completed_at: None,
            operation: None,
            awaited_input: None,
        })
        .collect()
}
