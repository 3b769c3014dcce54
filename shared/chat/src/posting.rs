//! `POST /api/chat/stream`: posts a message and streams its turn. The message is stored, with its run, before the
//! response starts; the turn then proceeds with or without readers.
//!
//! - `attachments` attached files and context

mod attachments;
pub mod consoles;

pub use attachments::{AttachedFile, attached_files};

use axum::Json;
use axum::extract::State;
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_commands::{OnBusy, PostError, PostMessage, Posted};
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Params};
use rejoin_http::idempotency;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::request_span::RequestSpan;
use rejoin_models::names;
use rejoin_runs::attachments::Attachment;
use rejoin_runs::contexts;
use rejoin_sse::dialects::Dialect;
use rejoin_sse::schema::StreamEvent;
use rejoin_sse::start::{self, Start, StreamParams, StreamSource};
use rejoin_tools::outputs;
use rejoin_tools::registry::Patterns;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use self::attachments::{attached_context, attachments};
use self::consoles::attached_consoles;
use crate::settings::ChatArgs;
use crate::state::{ChatState, Routes};

/// Length of an invalid id that is quoted, in characters.
const SHOWN_CHARS: usize = 255;
/// Maximum length of a model's name, in bytes.
const MODEL_MAX_BYTES: usize = 200;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(post_message))
}

#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatRequest {
    /// The user's message
    #[schema(pattern = r"\S")]
    pub message: String,
    /// The conversation; null: a new conversation
    pub conversation_id: Option<String>,
    /// Agent of a new conversation, which keeps it. An existing conversation keeps its agent.
    pub agent_definition_id: Option<String>,
    pub context_type: Option<String>,
    pub project_focus: Option<Value>,
    /// Consoles that the user has open: a list of {id, title, content, version?, kind?, databaseId?, database?}. The
    /// first one becomes the conversation's console if it has none; new ones are stored as temporary consoles;
    /// `content` is saved if `version` is the version that it is based on
    pub consoles: Option<Value>,
    /// The console that the user is viewing
    pub console_id: Option<String>,
    /// Other attachments, at most 20: a list of {id, type, title, content, metadata}. `type` is `console` (as in
    /// `consoles`), `database` (its `id` is a data source's, or `metadata.databaseType` is its kind) or `file` (its
    /// text is `content`). Databases and files are added to the message that the agent reads and count towards its
    /// maximum length
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub attached_context: Option<Vec<Attachment>>,
    /// Files of the message, uploaded before with `POST /api/files`: at most 10, with 50 MiB in total. The agent gets
    /// them if its model supports such files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachedFile>>,
    /// JSON Schema of an object: the answer is JSON that matches it, in an `output` event
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Model of this turn, `provider:model` or a well-known name; null: the agent's
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// Idempotency key of this turn: posting it again returns the same run
    pub client_turn_id: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ChatParams {
    /// What to do if a run of the conversation is active: `answer` (default): the message answers the run's question
    /// or, if there is none, is queued; `enqueue`: it is queued; `reject`: it is rejected; `interrupt`: the active run
    /// is cancelled
    #[param(pattern = "^(answer|enqueue|reject|interrupt)$")]
    pub on_busy: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    pub conversation_id: Uuid,
    pub message_id: Uuid,
    pub run_id: Uuid,
    /// Sequence number after which to start reading to get the whole turn
    pub cursor: i64,
}

impl ChatParams {
    pub fn on_busy(&self) -> Result<OnBusy, Problem> {
        match self.on_busy.as_deref() {
            None | Some("answer") => Ok(OnBusy::Answer),
            Some("enqueue") => Ok(OnBusy::Enqueue),
            Some("reject") => Ok(OnBusy::Reject),
            Some("interrupt") => Ok(OnBusy::Interrupt),
            Some(other) => Err(Problem::bad_request(
                "invalid_query",
                format!("onBusy={other} is not supported; use answer, enqueue, reject or interrupt"),
            )),
        }
    }
}

/// Send a message and stream the turn that answers it
#[utoipa::path(post, path = "/api/chat/stream", tag = "chat", request_body = ChatRequest,
    params(ChatParams, ("Idempotency-Key" = Option<String>, Header, description = "The same key and body return the \
        same run")),
    responses(
        (status = 200, description = "The turn's events, until its `done`", body = StreamEvent, content_type = "text/event-stream"),
        (status = 202, description = "Accepted (with `Accept: application/json`)", body = Accepted),
        (status = 409, description = "A run of the conversation is active, and onBusy=reject", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "The key's run was streamed long ago; its events are no longer stored", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The idempotency key was already used with another body", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn post_message(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Params(params): Params<ChatParams>,
    Body(request): Body<ChatRequest>,
) -> Result<Response, Problem> {
    take(&state, &caller, &headers, &params, request, Dialect::Native).await
}

/// Stores the message and responds with its turn in `dialect`, or with its location.
pub async fn take(
    state: &ChatState,
    caller: &Caller,
    headers: &HeaderMap,
    params: &ChatParams,
    request: ChatRequest,
    dialect: Dialect,
) -> Result<Response, Problem> {
    let mut command = command(state, caller, headers, params, request)?;
    command.exhausted = state.quotas.exhausted(&state.db.pool_sqlx, caller).await?;
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = if wants_json(headers) {
        None
    } else {
        Some(start::admit(&state.streams, caller)?)
    };
    let posted = post(state, caller, command).await?;
    let mut response = match permit {
        None => (StatusCode::ACCEPTED, Json(accepted(&posted))).into_response(),
        Some(permit) if posted.fresh => start::open_turn(&state.streams, permit, &posted, dialect),
        Some(permit) => {
            let source = StreamSource::Run(posted.run_id);
            start::open(
                &state.streams,
                permit,
                caller.owner(),
                source,
                Start::Beginning,
                &StreamParams::default(),
                dialect,
            )
            .await?
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-conversation-id", posted.conversation_id.to_string()),
        ("x-run-id", posted.run_id.to_string()),
        (LOCATION.as_str(), format!("/api/runs/{}/events", posted.run_id)),
    ] {
        headers.insert(name, HeaderValue::try_from(value).expect("an id is a header value"));
    }
    Ok(response)
}

fn accepted(posted: &Posted) -> Accepted {
    Accepted {
        conversation_id: posted.conversation_id,
        message_id: posted.message_id,
        run_id: posted.run_id,
        cursor: posted.cursor,
    }
}

/// Returns whether JSON is requested explicitly, rather than a stream.
fn wants_json(headers: &HeaderMap) -> bool {
    let mut json = false;
    for value in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        for range in value.split(',') {
            match range.split(';').next().unwrap_or_default().trim() {
                "text/event-stream" => return false,
                "application/json" => json = true,
                _ => {}
            }
        }
    }
    json
}

/// Validates the request and builds the command.
fn command(
    state: &ChatState,
    caller: &Caller,
    headers: &HeaderMap,
    params: &ChatParams,
    mut request: ChatRequest,
) -> Result<PostMessage, Problem> {
    check_message(&request.message, state.settings.max_message_chars)?;
    // Before consoles are removed from it: the key belongs to the body as sent.
    let idempotency = idempotency::of(headers, request.client_turn_id.as_deref(), &request)?;
    let items = attachments(&mut request, state.settings.max_message_chars)?;
    let files = attached_files(request.attachments.as_deref(), state.settings.files.max_message_files)?;
    let conversation_id = match &request.conversation_id {
        None => None,
        Some(text) => {
            let id = text.parse::<Uuid>();
            Some(id.map_err(|_| Problem::bad_request("invalid_conversation_id", "conversationId is not a valid id"))?)
        }
    };
    let agent_definition_id = match (&request.agent_definition_id, conversation_id) {
        (Some(text), None) => Some(text.parse::<Uuid>().map_err(|_| definition_not_found(text))?),
        // An existing conversation keeps its agent.
        (Some(_), Some(_)) | (None, _) => None,
    };
    contexts::ContextPatch::of(request.context_type.as_deref(), request.project_focus.as_ref())
        .map_err(|fault| Problem::bad_request("invalid_context", fault))?;
    check_output_schema(request.output_schema.as_ref())?;
    Ok(PostMessage {
        conversation_id,
        agent_definition_id,
        on_busy: params.on_busy()?,
        idempotency,
        files,
        consoles: attached_consoles(request.consoles.as_ref())?,
        attached_context: attached_context(&request, &items),
        output_schema: request.output_schema.take(),
        model: chosen_model(&state.settings, request.model.as_deref())?,
        ..plain(state, caller, request.message)
    })
}

/// Returns a message with nothing attached, to a new conversation, with this server's limits.
pub fn plain(state: &ChatState, caller: &Caller, message: String) -> PostMessage {
    PostMessage {
        max_files_bytes: state.settings.files.max_message_files_bytes,
        models: state.settings.models.clone(),
        ..PostMessage::new(caller.owner(), message)
    }
}

pub fn check_message(message: &str, max_chars: usize) -> Result<(), Problem> {
    if message.trim().is_empty() {
        return Err(Problem::bad_request("message_empty", "the message is empty"));
    }
    // Bytes first: counting characters of a huge text is expensive.
    if message.len() > max_chars && message.chars().count() > max_chars {
        let detail = format!("the message is longer than {max_chars} characters");
        return Err(Problem::bad_request("message_too_long", detail));
    }
    if message.contains('\0') {
        return Err(Problem::bad_request(
            "invalid_text",
            "the message contains a NUL character",
        ));
    }
    Ok(())
}

/// Validates the model that a user chooses, and returns it with its provider.
pub fn chosen_model(settings: &ChatArgs, model: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(asked) = model else { return Ok(None) };
    let shown: String = asked.chars().take(SHOWN_CHARS).collect();
    let known = names::with_provider(asked).filter(|name| name.len() <= MODEL_MAX_BYTES && !name.contains('\0'));
    let Some(name) = known else {
        let detail = format!("{shown} is not a model; GET /api/models lists models");
        return Err(Problem::bad_request("unknown_model", detail));
    };
    if !Patterns::new(&settings.user_models).is_match(&name) {
        let detail =
            format!("users of this server may not choose the model {shown}; leave out model to use the agent's");
        return Err(Problem::bad_request("model_not_allowed", detail));
    }
    Ok(Some(name))
}

/// Validates the schema of a structured output.
pub fn check_output_schema(schema: Option<&Value>) -> Result<(), Problem> {
    match schema {
        Some(schema) => outputs::check(schema).map_err(|why| Problem::bad_request("invalid_output_schema", why)),
        None => Ok(()),
    }
}

fn definition_not_found(id: &str) -> Problem {
    let shown: String = id.chars().take(SHOWN_CHARS).collect();
    Problem::bad_request(
        "agent_definition_not_found",
        format!("Agent definition {shown} was not found"),
    )
}

/// Returns the names of the tools that extensions may give to agents.
async fn extension_tools(state: &ChatState, scope: rls::Scope, workspace_id: Uuid) -> Result<Vec<String>, Problem> {
    let mut db = rls::begin(&state.db.pool_sqlx, scope).await?;
    let mut tools = state.extensions.tools();
    tools.extend(state.extensions.workspace_tools(&mut db, workspace_id).await?);
    Ok(tools.iter().map(|tool| tool.spec().name.clone()).collect())
}

/// Stores the message, its run and its job; then wakes the workers. The run continues the trace of the request.
pub async fn post(state: &ChatState, caller: &Caller, mut command: PostMessage) -> Result<Posted, Problem> {
    let span = RequestSpan::open(state, caller);
    command.traceparent = span.traceparent();
    match store(state, caller.rls_scope(), command).await {
        Ok(posted) => {
            span.stored(posted.run_id);
            Ok(posted)
        }
        Err(problem) => {
            span.refused(&problem);
            Err(problem)
        }
    }
}

async fn store(state: &ChatState, scope: rls::Scope, mut command: PostMessage) -> Result<Posted, Problem> {
    if !command.client_tools.is_empty() {
        command.extension_tools = extension_tools(state, scope, command.owner.workspace_id).await?;
    }
    let posted = match rejoin_commands::execute_for(&state.db.pool_sqlx, scope, &command).await {
        Ok(posted) => posted,
        Err(PostError::DefinitionNotFound) => {
            return Err(definition_not_found(
                &command.agent_definition_id.map(|id| id.to_string()).unwrap_or_default(),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    state.bus.publish(posted.wake.clone());
    if posted.fresh {
        metrics::counter!("rejoin_messages_posted_total").increment(1);
    }
    if let Some(routed) = &posted.routed {
        let labels = [
            ("reason", routed.choice.reason.name()),
            ("confidence", routed.choice.confidence().name()),
        ];
        metrics::counter!("rejoin_routed_total", &labels).increment(1);
        metrics::histogram!("rejoin_routing_seconds").record(routed.took_us as f64 / 1_000_000.0);
    }
    Ok(posted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_wish_for_json_gets_no_stream() {
        let wants =
            |accept: &'static str| wants_json(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]));
        assert!(wants("application/json"));
        assert!(!wants("*/*"));
        assert!(!wants("application/json, text/event-stream"));
        assert!(!wants_json(&HeaderMap::new()));
    }

    #[test]
    fn a_message_is_counted_in_characters() {
        assert!(check_message(&"é".repeat(10), 10).is_ok());
        assert_eq!(check_message(&"é".repeat(11), 10).unwrap_err().code, "message_too_long");
        assert_eq!(check_message(" \n", 10).unwrap_err().code, "message_empty");
    }
}
