//! Stores what a request asks for: a message with its run, or the answers that a waiting run needs. Either way the result is a response, to
//! be read from the log.
//!
//! Invariant: a request that is sent again with the same answers continues the same response.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use rejoin_chat::ChatState;
use rejoin_chat::posting;
use rejoin_commands::{CloseQuestion, Closing, HistoryMessage, PostMessage};
use rejoin_http::caller::Caller;
use rejoin_http::idempotency;
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::client_tools::{self, ClientOutput, ClientTool};
use rejoin_runs::conversations::{self, Conversation};
use rejoin_runs::questions::{self, Question};
use rejoin_runs::runs::{self, Run};
use rejoin_runs::{messages, messages::Role as MessageRole};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{PARAM, files, models};
use crate::openai::fold::continuation;
use crate::openai::ids::{self, ResponseId};
use crate::openai::input::{Answer, Input, Past, Reply, Role};
use crate::openai::request::Ask;
use crate::openai::settings;

/// Maximum length of earlier messages together, as a multiple of that of one message.
const HISTORY_TIMES: usize = 10;
/// Between instructions.
const PARAGRAPH: &str = "\n\n";

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    New,
    Conversation(Uuid),
    /// After this response.
    After(ResponseId),
}

/// A response that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub id: ResponseId,
    pub conversation_id: Option<Uuid>,
}

/// A request to store.
pub(super) struct Request<'a> {
    pub headers: &'a HeaderMap,
    /// As it was sent: an idempotency key belongs to it.
    pub body: &'a Value,
    pub ask: Ask,
    pub target: Target,
}

pub(super) async fn take(state: &ChatState, caller: &Caller, mut request: Request<'_>) -> Result<Turn, Problem> {
    if !request.ask.input.answers.is_empty() {
        match answer(state, caller, &request.ask.input.answers).await? {
            Some(turn) => return Ok(turn),
            None if request.target != Target::New => {
                let detail = "the call that this output answers was not found in the caller's runs";
                return Err(Problem::bad_request("call_not_found", detail).with(PARAM, json!("input")));
            }
            // Of a history that began elsewhere.
            None => request.ask.input.answers_as_message(),
        }
    }
    post(state, caller, request).await
}

/// Stores the answers. None: no run of the caller has asked for one of them.
async fn answer(state: &ChatState, caller: &Caller, answers: &[Answer]) -> Result<Option<Turn>, Problem> {
    let mut db = caller.begin(state).await?;
    let mut asked = Vec::with_capacity(answers.len());
    for answer in answers {
        match questions::get_visible(&mut *db, caller.owner(), answer.question).await? {
            Some(question) => asked.push((question, &answer.reply)),
            None => return Ok(None),
        }
    }
    let Some((first, _)) = asked.first() else {
        return Ok(None);
    };
    let run = runs::get_visible(&mut *db, caller.owner(), first.run_id).await?;
    let run = run.ok_or_else(visible::run_not_found)?;
    let given: BTreeSet<Uuid> = answers.iter().map(|answer| answer.question).collect();
    let awaited = questions::awaited_in(&mut db, run.log_id).await?;
    drop(db);
    if asked.iter().any(|(question, _)| question.is_pending())
        && let Some(missing) = awaited.iter().find(|question| !given.contains(&question.id))
    {
        return Err(unanswered(missing));
    }
    for (question, reply) in &asked {
        close(state, caller, question, reply).await?;
    }
    Ok(Some(Turn {
        id: continuation(run.root_run_id, given),
        conversation_id: run.conversation_id,
    }))
}

/// The error of a request that leaves something open that the run waits for.
fn unanswered(question: &Question) -> Problem {
    let detail = if question.is_approval() {
        format!("no mcp_approval_response found for {}", ids::approval(question.id))
    } else {
        format!("No tool output found for function call {}.", ids::call(question.id))
    };
    Problem::bad_request("output_missing", detail).with(PARAM, json!("input"))
}

async fn close(state: &ChatState, caller: &Caller, question: &Question, reply: &Reply) -> Result<(), Problem> {
    let unfit = |why: String| Problem::bad_request("output_invalid", why).with(PARAM, json!("input"));
    match question.status.as_str() {
        "pending" => {}
        // The same request was sent before.
        "answered" => return Ok(()),
        status => return Err(unfit(format!("the call is no longer open: it is {status}"))),
    }
    let answer = match reply {
        Reply::Output(_) if question.is_approval() => {
            return Err(unfit(
                "a request for approval needs an mcp_approval_response".to_owned(),
            ));
        }
        Reply::Output(output) => ClientOutput::Text(output).to_answer().map_err(unfit)?,
        Reply::Decision { approve: true } => json!("approve"),
        Reply::Decision { approve: false } => json!("refuse"),
    };
    let closing = match reply {
        Reply::Output(_) => Closing::Returned {
            answer: &answer,
            user_id: caller.user_id,
        },
        Reply::Decision { .. } => Closing::Answer {
            answer: &answer,
            input: None,
            user_id: Some(caller.user_id),
        },
    };
    let command = CloseQuestion {
        id: question.id,
        closing,
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok(())
}

async fn post(state: &ChatState, caller: &Caller, request: Request<'_>) -> Result<Turn, Problem> {
    let Request {
        headers,
        body,
        ask,
        target,
    } = request;
    let idempotency = idempotency::of(headers, None, body)?;
    let agent = models::agent(state, caller, &ask.settings.model).await?;
    let conversation = conversation(state, caller, target).await?;
    let mut settings = ask.settings;
    settings.temperature = agent.model.as_ref().and_then(|model| model.temperature);
    let Input {
        history,
        message,
        files: sent,
        ..
    } = ask.input;
    let message = message.ok_or_else(|| no_message(conversation.is_some()))?;
    posting::check_message(&message, state.settings.max_message_chars)?;
    posting::check_output_schema(ask.output_schema.as_ref())?;
    let mut history: Vec<Past> = history.into_iter().filter(|past| !past.text.is_empty()).collect();
    let mut instructions: Vec<String> = ask.instructions.into_iter().collect();
    let mut asked = Vec::new();
    if let Some(conversation) = &conversation {
        if history.iter().any(|past| past.role != Role::System) {
            let detail = "the conversation keeps its messages: send only new ones of the user, or leave out previous_response_id and \
                conversation";
            return Err(Problem::bad_request("history_given_twice", detail).with(PARAM, json!("input")));
        }
        instructions.extend(history.drain(..).map(|past| past.text));
        asked = may_post(state, caller, conversation, &agent).await?;
    }
    let history_chars: usize = history.iter().map(|past| past.text.chars().count()).sum();
    let most = state.settings.max_message_chars * HISTORY_TIMES;
    if history_chars > most {
        let detail = format!(
            "the earlier messages have {history_chars} characters; the maximum is {most}. Send the newest ones"
        );
        return Err(Problem::bad_request("history_too_long", detail));
    }
    let command = PostMessage {
        conversation_id: conversation.as_ref().map(|conversation| conversation.id),
        agent_definition_id: conversation.is_none().then_some(agent.id),
        attached_context: Some(json!({ settings::FIELD: settings })),
        files: files::stored(state, caller, &sent).await?,
        output_schema: ask.output_schema,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, caller).await?,
        history: history.into_iter().map(stored).collect(),
        client_tools: ask
            .functions
            .into_iter()
            .map(|function| ClientTool {
                name: function.name,
                description: function.description,
                parameters: function.parameters,
            })
            .collect(),
        instructions: (!instructions.is_empty()).then(|| instructions.join(PARAGRAPH)),
        idempotency,
        ..posting::plain(state, caller, message)
    };
    let waiting = match asked.first() {
        Some(question) => Some(root_of(state, caller, question.run_id).await?),
        None => None,
    };
    let posted = posting::post(state, caller, command).await?;
    let id = if waiting == Some(posted.run_id) {
        continuation(posted.run_id, asked.iter().map(|question| question.id))
    } else {
        ResponseId::of_run(posted.run_id)
    };
    Ok(Turn {
        id,
        conversation_id: Some(posted.conversation_id),
    })
}

fn no_message(is_continued: bool) -> Problem {
    let detail = if is_continued {
        "the input must end with a message of the user, or with outputs of the functions that the response called"
    } else {
        "the input must end with a message of the user"
    };
    Problem::bad_request("message_missing", detail).with(PARAM, json!("input"))
}

fn stored(past: Past) -> HistoryMessage {
    HistoryMessage {
        role: match past.role {
            Role::User => MessageRole::User,
            Role::Assistant => MessageRole::Assistant,
            Role::System => MessageRole::System,
        },
        text: past.text,
    }
}

async fn root_of(state: &ChatState, caller: &Caller, run_id: Uuid) -> Result<Uuid, Problem> {
    Ok(visible::run(state, caller, run_id).await?.root_run_id)
}

/// Returns the conversation that a message goes to. None: a new one.
async fn conversation(state: &ChatState, caller: &Caller, target: Target) -> Result<Option<Conversation>, Problem> {
    let id = match target {
        Target::New => return Ok(None),
        Target::Conversation(id) => id,
        Target::After(response) => {
            let run = previous(state, caller, response).await?;
            must_be_last(state, caller, &run).await?;
            run.conversation_id.ok_or_else(previous_not_found)?
        }
    };
    Ok(Some(visible::conversation(state, caller, id).await?))
}

async fn previous(state: &ChatState, caller: &Caller, response: ResponseId) -> Result<Run, Problem> {
    let mut db = caller.begin(state).await?;
    let found = runs::get_visible(&mut *db, caller.owner(), response.run).await?;
    found
        .filter(|run| run.conversation_id.is_some())
        .ok_or_else(previous_not_found)
}

pub(super) fn previous_not_found() -> Problem {
    Problem::bad_request("previous_response_not_found", "the previous response was not found")
        .with(PARAM, json!("previous_response_id"))
}

/// A conversation is one line of messages: it goes on after its last response.
pub(super) async fn must_be_last(state: &ChatState, caller: &Caller, run: &Run) -> Result<(), Problem> {
    let Some(conversation_id) = run.conversation_id else {
        return Ok(());
    };
    let mut db = caller.begin(state).await?;
    let newest = messages::newest(&mut *db, conversation_id, 1).await?;
    let newest = newest.first().map(|message| message.id);
    let is_last = run.done_seq.is_none() || newest == run.final_message_id || newest == run.message_id;
    if is_last {
        return Ok(());
    }
    let detail = "the conversation went on after this response: name its last one, or send the whole history without \
        previous_response_id";
    Err(Problem::bad_request("previous_response_not_last", detail).with(PARAM, json!("previous_response_id")))
}

/// Checks that a message can follow in the conversation, and returns the questions that it answers.
async fn may_post(
    state: &ChatState,
    caller: &Caller,
    conversation: &Conversation,
    agent: &AgentDefinition,
) -> Result<Vec<Question>, Problem> {
    let mut db = caller.begin(state).await?;
    match conversation.agent_definition_id {
        Some(id) if id == agent.id => {}
        Some(id) => {
            let names = agents::names(&mut *db, &[id]).await?;
            let name = names.get(&id).map_or("another one", String::as_str);
            let detail = format!(
                "the conversation's agent is {name}, and it keeps it: begin a new conversation for {}",
                agent.name
            );
            return Err(Problem::bad_request("model_differs", detail).with(PARAM, json!("model")));
        }
        None => {
            conversations::give_agent(&mut *db, caller.owner(), conversation.id, agent.id).await?;
            db.commit().await?;
            db = caller.begin(state).await?;
        }
    }
    let asked = questions::awaited_in(&mut db, conversation.id).await?;
    match asked.iter().find(|question| question.kind == client_tools::QUESTION) {
        Some(missing) => Err(unanswered(missing)),
        None => Ok(asked),
    }
}
