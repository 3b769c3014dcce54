//! Exports a conversation as Markdown or JSON. It is read and sent page by page, each in a short transaction: none is held as a whole.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use chrono::SecondsFormat;
use futures::{StreamExt, stream};
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::answers::{self, Answer};
use rejoin_runs::attachments;
use rejoin_runs::conversations::Conversation;
use rejoin_runs::messages::{self, ChatMessage};
use rejoin_types::owner::Owner;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::answers::AnswerBody;
use crate::state::{ChatState, Routes};

/// Number of messages that are read at once.
const PAGE: i64 = 100;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(export_conversation))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportParams {
    /// `markdown` (default) or `json`
    #[param(pattern = "^(markdown|json)$")]
    pub format: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Markdown,
    Json,
}

impl Format {
    fn of(params: &ExportParams) -> Result<Self, Problem> {
        match params.format.as_deref() {
            None | Some("markdown") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            Some(other) => {
                let detail = format!("format={other} is not supported; use markdown or json");
                Err(Problem::bad_request("invalid_query", detail))
            }
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => "application/json",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json => "json",
        }
    }

    /// What precedes the messages.
    fn head(self, conversation: &Conversation) -> String {
        match self {
            Self::Markdown => {
                let title = conversation.title.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("# {title}\n")
            }
            Self::Json => {
                let head = json!({
                    "id": conversation.id,
                    "title": conversation.title,
                    "agentDefinitionId": conversation.agent_definition_id,
                    "metadata": conversation.metadata,
                    "createdAt": conversation.created_at,
                    "updatedAt": conversation.updated_at,
                });
                format!("{{\"conversation\":{head},\"messages\":[")
            }
        }
    }

    fn message(self, message: &ChatMessage, answer: Option<Answer>, is_first: bool) -> String {
        match self {
            Self::Markdown => to_markdown(message, answer.as_ref()),
            Self::Json => {
                let comma = if is_first { "" } else { "," };
                format!("{comma}\n{}", to_json(message, answer))
            }
        }
    }

    /// What follows the messages.
    fn tail(self) -> &'static str {
        match self {
            Self::Markdown => "",
            Self::Json => "\n]}\n",
        }
    }
}

fn to_markdown(message: &ChatMessage, answer: Option<&Answer>) -> String {
    let speaker = match message.role.as_str() {
        "user" => "User",
        "assistant" => answer.and_then(|answer| answer.agent.as_deref()).unwrap_or("Assistant"),
        _ => "System",
    };
    let at = message.created_at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut text = format!("\n## {speaker} ({at})\n\n{}\n", message.content.trim_end());
    let files = attachments::listed(&message.metadata, message.created_at);
    let names: Vec<&str> = files.iter().filter_map(|file| file["title"].as_str()).collect();
    if !names.is_empty() {
        text.push_str(&format!("\nAttached: {}\n", names.join(", ")));
    }
    text
}

fn to_json(message: &ChatMessage, answer: Option<Answer>) -> Value {
    json!({
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "citations": message.citations,
        "attachments": attachments::listed(&message.metadata, message.created_at),
        "metadata": message.metadata,
        "seq": message.seq,
        "createdAt": message.created_at,
        "answer": answer.map(AnswerBody::from),
    })
}

/// What has still to be read.
struct Rest {
    state: ChatState,
    owner: Owner,
    conversation_id: Uuid,
    format: Format,
    /// The number of the last message's event that was read. None: all were.
    after: Option<i64>,
    is_first: bool,
}

impl Rest {
    /// Reads the next messages. None: there are no more.
    async fn read(&mut self) -> Result<Option<Bytes>, sqlx::Error> {
        let Some(after) = self.after else { return Ok(None) };
        let mut db = rls::begin(&self.state.db.pool_sqlx, rls::Scope::User(self.owner)).await?;
        // The conversation is the caller's, or it was deleted.
        let rows = messages::list(&mut *db, self.conversation_id, after, PAGE).await?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut answers = answers::of_messages(&mut *db, self.conversation_id, &ids).await?;
        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count == PAGE);
        self.after = rows.last().filter(|_| is_full).map(|last| last.seq);
        let mut text = String::new();
        for row in &rows {
            text.push_str(&self.format.message(row, answers.remove(&row.id), self.is_first));
            self.is_first = false;
        }
        if self.after.is_none() {
            text.push_str(self.format.tail());
        }
        Ok(Some(text.into()))
    }
}

/// Export a conversation as Markdown or JSON
#[utoipa::path(get, path = "/api/conversations/{id}/export", tag = "conversations",
    params(ExportParams, ("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "The conversation with its messages, as a download", body = String, content_type = "text/markdown"),
        Refused))]
async fn export_conversation(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let format = Format::of(&params)?;
    let conversation = visible::conversation(&state, &caller, id).await?;
    let mut rest = Rest {
        owner: caller.owner(),
        state,
        conversation_id: id,
        format,
        after: Some(0),
        is_first: true,
    };
    // The first page precedes the headers: a failure is an error response.
    let first = rest.read().await?.unwrap_or_default();
    let begin = [Bytes::from(format.head(&conversation)), first];
    let later = stream::try_unfold(rest, async |mut rest| {
        let page = rest.read().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(page.map(|page| (page, rest)))
    });
    let pages = stream::iter(begin.map(Ok::<_, io::Error>)).chain(later);
    let mut response = Response::new(Body::from_stream(pages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    let file = format!("attachment; filename=\"conversation-{id}.{}\"", format.ending());
    headers.insert(
        CONTENT_DISPOSITION,
        HeaderValue::try_from(file).expect("an id is a header value"),
    );
    Ok(response)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_message_has_a_heading_its_text_and_its_files() {
        let message = ChatMessage {
            id: Uuid::nil(),
            role: "user".to_owned(),
            content: "Read this.\n\n".to_owned(),
            citations: None,
            retrieval_context: None,
            metadata: json!({}),
            seq: 1,
            created_at: DateTime::UNIX_EPOCH,
        };
        assert_eq!(
            to_markdown(&message, None),
            "\n## User (1970-01-01T00:00:00Z)\n\nRead this.\n"
        );
        assert!(Format::Json.message(&message, None, false).starts_with(",\n{"));
    }
}
