//! The client's answers in a chat: outputs of the tools that it executes, and its user's decisions about calls.

use axum::response::Response;
use rejoin_chat::ChatState;
use rejoin_commands::{CloseQuestion, Closing, answer_client_tool};
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_runs::client_calls::{self, CallsOf};
use rejoin_runs::client_tools::ClientOutput;
use rejoin_runs::{conversations, questions, runs};
use rejoin_sse::start;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{find, tools_of, with_headers};
use crate::ai_sdk::{Answer, Output, UiMessages};

/// What an answer closes: a question of a run.
struct Closes {
    run_id: Uuid,
    question_id: Uuid,
    answer: Answer,
}

/// Stores the answers, and streams how the turn goes on.
pub(super) async fn post(
    state: &ChatState,
    caller: &Caller,
    chat_id: &str,
    answers: Vec<Answer>,
) -> Result<Response, Problem> {
    let mut db = caller.begin(state).await?;
    let conversation_id = find(&mut db, caller, chat_id)
        .await?
        .ok_or_else(|| Problem::not_found("chat_not_found", "The chat"))?;
    let of = CallsOf::Conversation(conversation_id);
    let calls = client_calls::pending(&mut *db, caller.owner(), of).await?;
    let asked = questions::awaited_in(&mut db, conversation_id).await?;
    let closes = |answer: Answer| {
        let (run_id, question_id) = match &answer.output {
            Output::Decision { question_id, .. } => {
                let id = question_id.parse::<Uuid>().ok()?;
                let question = asked
                    .iter()
                    .find(|question| question.id == id && question.is_approval())?;
                (question.run_id, id)
            }
            Output::Result(_) | Output::Error(_) => {
                let call = calls.iter().find(|call| call.call_id == answer.call_id)?;
                (call.run_id, call.question_id)
            }
        };
        Some(Closes {
            run_id,
            question_id,
            answer,
        })
    };
    // The message also holds the answers to earlier calls.
    let closing: Vec<Closes> = answers.into_iter().filter_map(closes).collect();
    let first = closing.first().ok_or_else(|| {
        Problem::conflict(
            "nothing_waits",
            "No call of this chat waits for these answers. Resume the stream to see how the turn went on.",
        )
    })?;
    let asking = runs::get(&mut *db, first.run_id).await?;
    let run_id = asking.map_or(first.run_id, |run| run.root_run_id);
    let tools = tools_of(&mut db, run_id).await?;
    drop(db);
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = start::admit(&state.streams, caller)?;
    let ends = conversations::log_ends(&state.db.pool_pg, caller.owner(), conversation_id).await?;
    let seen = ends.map(|ends| ends.last_seq);
    for closes in closing {
        close(state, caller, of, closes).await?;
    }
    let renderer = Box::new(UiMessages::live(state.settings.dialect_words, tools));
    let response = start::open_rendered(&state.streams, permit, caller.owner(), run_id, seen, renderer).await?;
    Ok(with_headers(response, conversation_id, run_id))
}

async fn close(state: &ChatState, caller: &Caller, of: CallsOf, closes: Closes) -> Result<(), Problem> {
    let pool = &state.db.pool_sqlx;
    let call_id = &closes.answer.call_id;
    let returned = match &closes.answer.output {
        Output::Decision { is_approved, .. } => {
            let decision = json!(if *is_approved { "approve" } else { "refuse" });
            let command = CloseQuestion {
                id: closes.question_id,
                closing: Closing::Answer {
                    answer: &decision,
                    input: None,
                    user_id: Some(caller.user_id),
                },
            };
            let wake = rejoin_commands::execute_for(pool, caller.rls_scope(), &command).await?;
            state.bus.publish(wake);
            return Ok(());
        }
        Output::Result(Value::String(text)) => {
            answer_client_tool(pool, caller.owner(), of, call_id, ClientOutput::Text(text)).await?
        }
        Output::Result(value) => {
            let text = value.to_string();
            answer_client_tool(pool, caller.owner(), of, call_id, ClientOutput::Text(&text)).await?
        }
        Output::Error(why) => answer_client_tool(pool, caller.owner(), of, call_id, ClientOutput::Error(why)).await?,
    };
    state.bus.publish(returned.wake);
    Ok(())
}
