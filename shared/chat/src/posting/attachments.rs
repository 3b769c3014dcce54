//! What a message attaches: files, and the context that it is about.

use rejoin_http::problem::Problem;
use rejoin_runs::attachments::{self, Attachment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::ChatRequest;

/// An uploaded file
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachedFile {
    pub file_id: String,
}

/// Returns the files of a message, without duplicates.
pub fn attached_files(sent: Option<&[AttachedFile]>, most: usize) -> Result<Vec<Uuid>, Problem> {
    let sent = sent.unwrap_or_default();
    if sent.len() > most {
        let detail = format!("a message can have at most {most} files");
        return Err(Problem::bad_request("too_many_attachments", detail));
    }
    let mut files = Vec::with_capacity(sent.len());
    for file in sent {
        let id = file.file_id.parse::<Uuid>().map_err(|_| {
            Problem::bad_request(
                "file_not_found",
                "attachments: fileId is not the id of a file; upload the file first",
            )
        })?;
        if !files.contains(&id) {
            files.push(id);
        }
    }
    Ok(files)
}

/// Takes the attachments out of the request: consoles are put into `consoles`, the others are returned.
pub(super) fn attachments(request: &mut ChatRequest, max_chars: usize) -> Result<Vec<Attachment>, Problem> {
    let invalid = |fault: String| Problem::bad_request("invalid_attachment", fault);
    let sent = request.attached_context.take().unwrap_or_default();
    if sent.len() > attachments::MAX {
        return Err(invalid(format!("at most {} items can be attached", attachments::MAX)));
    }
    let mut chars = request.message.chars().count();
    let (mut items, mut consoles) = (Vec::new(), Vec::new());
    for attachment in sent {
        attachment.check().map_err(invalid)?;
        match attachment.kind {
            attachments::Kind::Console => {
                let mut console = attachment.metadata.unwrap_or_else(|| json!({}));
                console["id"] = attachment.id.into();
                console["title"] = attachment.title.into();
                console["content"] = attachment.content.into();
                consoles.push(console);
            }
            attachments::Kind::Database | attachments::Kind::File => {
                chars += attachment.content.chars().count();
                items.push(attachment);
            }
        }
    }
    if chars > max_chars {
        let detail = format!("the message has {chars} characters including attachments; the maximum is {max_chars}");
        return Err(Problem::bad_request("message_too_long", detail));
    }
    if !consoles.is_empty() {
        let known = request.consoles.take().unwrap_or_else(|| json!([]));
        let mut all = known.as_array().cloned().unwrap_or_default();
        all.extend(consoles);
        request.consoles = Some(all.into());
    }
    Ok(items)
}

/// Returns the client's context in the form stored with the message.
pub(super) fn attached_context(request: &ChatRequest, items: &[Attachment]) -> Option<Value> {
    let mut context = Map::new();
    let parts = [
        ("contextType", request.context_type.as_ref().map(|text| json!(text))),
        ("projectFocus", request.project_focus.clone()),
        ("consoles", request.consoles.clone()),
        ("consoleId", request.console_id.as_ref().map(|text| json!(text))),
        ("items", (!items.is_empty()).then(|| json!(items))),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            context.insert(name.to_owned(), value);
        }
    }
    (!context.is_empty()).then_some(Value::Object(context))
}
