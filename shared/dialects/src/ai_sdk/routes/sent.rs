//! A user's message in a chat.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_chat::ChatState;
use rejoin_chat::files::uploads;
use rejoin_chat::posting::{self, check_message};
use rejoin_chat::trigger;
use rejoin_commands::{Idempotency, OnBusy, PostMessage};
use rejoin_http::caller::Caller;
use rejoin_http::idempotency::body_hash;
use rejoin_http::problem::Problem;
use rejoin_runs::client_tools::ClientTool;
use rejoin_runs::questions;
use rejoin_sse::dialects::Dialect;
use rejoin_sse::start;
use rejoin_types::file_ref;
use serde_json::json;
use uuid::Uuid;

use super::{find, tools_of, with_headers};
use crate::ai_sdk::{ChatBody, Sent, SentFile, UiMessages, request};

/// Stores the message and streams its answer. The message's id is its idempotency key.
pub(super) async fn post(state: &ChatState, caller: &Caller, body: ChatBody, sent: Sent) -> Result<Response, Problem> {
    check_message(&sent.text, state.settings.max_message_chars)?;
    let most = state.settings.files.max_message_files;
    if sent.files.len() > most {
        let detail = format!("a message can have at most {most} files");
        return Err(Problem::bad_request("too_many_attachments", detail));
    }
    let agent_definition_id = match &body.agent {
        Some(agent) => Some(trigger::find(state, caller, caller.workspace_id, agent).await?.id),
        None => None,
    };
    let mut db = caller.begin(state).await?;
    let known = find(&mut db, caller, &body.id).await?;
    let on_busy = match known {
        Some(conversation_id) => {
            let asked = questions::awaited_in(&mut db, conversation_id).await?;
            // A message is no output of a tool: the user has given that turn up.
            let is_answerable =
                asked.is_empty() || asked.iter().any(|question| question.meant_by(&sent.text).is_some());
            if is_answerable {
                OnBusy::Answer
            } else {
                OnBusy::Interrupt
            }
        }
        None => OnBusy::Answer,
    };
    drop(db);
    let key = Idempotency {
        key: format!("ui-message:{}:{}", body.id, sent.id),
        body_hash: body_hash(&json!({ "text": sent.text, "files": sent.files })),
    };
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = start::admit(&state.streams, caller)?;
    let client_tools = body.client_tools.into_iter().map(|tool| ClientTool {
        name: tool.name,
        description: tool.description,
        parameters: tool.input_schema,
    });
    let command = PostMessage {
        conversation_id: known,
        client_thread: known.is_none().then_some(body.id),
        agent_definition_id: agent_definition_id.filter(|_| known.is_none()),
        client_tools: client_tools.collect(),
        files: stored(state, caller, &sent.files).await?,
        idempotency: Some(key),
        on_busy,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, caller).await?,
        ..posting::plain(state, caller, sent.text)
    };
    let posted = posting::post(state, caller, command).await?;
    let tools = tools_of(&mut *caller.begin(state).await?, posted.run_id).await?;
    let mode = state.settings.dialect_words;
    let response = if posted.fresh {
        let dialect = Dialect::Rendered {
            renderer: Box::new(UiMessages::live(mode, tools)),
            silent_through: 0,
        };
        start::open_turn(&state.streams, permit, &posted, dialect)
    } else {
        let renderer = Box::new(UiMessages::replay(mode, tools));
        start::open_rendered(&state.streams, permit, caller.owner(), posted.run_id, None, renderer).await?
    };
    Ok(with_headers(response, posted.conversation_id, posted.run_id))
}

/// Returns the files of a message, stored.
async fn stored(state: &ChatState, caller: &Caller, files: &[SentFile]) -> Result<Vec<Uuid>, Problem> {
    let mut ids = Vec::with_capacity(files.len());
    for file in files {
        let id = match file_ref::id_of_address(&file.url) {
            Some(id) => id,
            None => store(state, caller, file).await?,
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

async fn store(state: &ChatState, caller: &Caller, file: &SentFile) -> Result<Uuid, Problem> {
    let (declared, content) = request::data_url(&file.url).ok_or_else(|| {
        Problem::bad_request(
            "invalid_file",
            "A file's url must be a data URL in base64, or the contentUrl of a file uploaded with POST /api/files. \
             Files of other addresses are not fetched.",
        )
    })?;
    let content = STANDARD
        .decode(content)
        .map_err(|_| Problem::bad_request("invalid_file", "The content of a file's data URL is not base64."))?;
    let declared = file
        .media_type
        .as_deref()
        .or(Some(declared))
        .filter(|kind| !kind.is_empty());
    let name = file.name.as_deref().unwrap_or("file");
    let file = uploads::store(state, caller, name, declared, content.into()).await?;
    Ok(file.id)
}
