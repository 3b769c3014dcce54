//! `RunAgentInput`, and what it asks for: a new turn, or the answers that a waiting run needs. Unknown fields are ignored, as the protocol
//! has them.

use rejoin_types::file_ref::FileRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::STATE_KEY;

/// Maximum length of a thread's id, in bytes.
const THREAD_ID_MAX_BYTES: usize = 255;
/// Maximum length of a run's id, in bytes.
const RUN_ID_MAX_BYTES: usize = 200;
/// Maximum size of context, state and system messages together, in bytes.
const INSTRUCTIONS_MAX_BYTES: usize = 64 * 1024;
/// Maximum number of earlier messages that a new conversation takes over: the newest ones.
const HISTORY_MAX: usize = 200;

/// A request to run an agent
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// The client's name of the conversation, at most 255 bytes. The caller's conversation with this name, or with this
    /// id, is continued; without one it is created
    pub thread_id: String,
    /// The client's name of this run, at most 200 bytes: posting it again streams the same run again
    pub run_id: String,
    /// The conversation as the client has it. The last message counts: a user's message is posted; a tool's message is
    /// the result of the client's tool. A new conversation also takes over the earlier texts
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Value>,
    /// Tools that the client executes
    #[serde(default)]
    pub tools: Option<Vec<Tool>>,
    /// Information for the agent, for this run
    #[serde(default)]
    pub context: Option<Vec<ContextItem>>,
    /// The client's state: the agent reads it
    #[serde(default)]
    pub state: Value,
    /// Answers to the interrupts that ended the previous run
    #[serde(default)]
    pub resume: Option<Vec<ResumeEntry>>,
}

/// A tool that the client executes
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[schema(as = AgUiTool)]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub parameters: Value,
}

/// Information for the agent
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[schema(as = AgUiContext)]
pub struct ContextItem {
    #[serde(default)]
    pub description: String,
    pub value: String,
}

/// An answer to an interrupt
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgUiResumeEntry)]
pub struct ResumeEntry {
    pub interrupt_id: String,
    pub status: ResumeStatus,
    #[serde(default)]
    pub payload: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AgUiResumeStatus)]
pub enum ResumeStatus {
    Resolved,
    Cancelled,
}

/// Why a request is refused: a stable code, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub detail: String,
}

fn refusal(code: &'static str, detail: impl Into<String>) -> Refusal {
    Refusal {
        code,
        detail: detail.into(),
    }
}

/// The user's new message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    pub text: String,
    /// The ids of its files, which were uploaded before.
    pub files: Vec<String>,
}

/// The result of a client's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub call_id: String,
    pub content: String,
    pub error: Option<String>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The message that begins a turn; none: the waiting run goes on.
    pub message: Option<UserMessage>,
    /// Results of the client's tools that the waiting run needs.
    pub results: Vec<ToolResult>,
}

impl RunAgentInput {
    /// Validates the request.
    pub fn asked(&self) -> Result<Asked, Refusal> {
        check_id("threadId", &self.thread_id, THREAD_ID_MAX_BYTES)?;
        check_id("runId", &self.run_id, RUN_ID_MAX_BYTES)?;
        let newest: Vec<&Value> = self
            .messages
            .iter()
            .rev()
            // Clients keep these for themselves.
            .filter(|message| message["role"] != "activity" && message["role"] != "reasoning")
            .collect();
        let (message, rest) = match newest.split_first() {
            Some((last, rest)) if last["role"] == "user" => (Some(user_message(last)?), rest),
            _ => (None, &newest[..]),
        };
        let tools = rest.iter().take_while(|message| message["role"] == "tool");
        let mut results = tools
            .map(|message| tool_result(message))
            .collect::<Result<Vec<_>, _>>()?;
        results.reverse();
        let resumes = !self.resume_entries().is_empty();
        // A client that answers a question sends its last message once more.
        let message = message.filter(|_| !resumes);
        if message.is_none() && results.is_empty() && !resumes {
            return Err(refusal(
                "nothing_to_run",
                "the last message is neither from the user nor from a tool, and resume is empty: add the user's message, a \
                tool's result, or the answers to the run's interrupts",
            ));
        }
        Ok(Asked { message, results })
    }

    pub fn resume_entries(&self) -> &[ResumeEntry] {
        self.resume.as_deref().unwrap_or_default()
    }

    /// Returns what makes two requests with one `runId` the same.
    pub fn fingerprint(&self, agent: Option<&str>, message: &UserMessage) -> Value {
        json!({"threadId": self.thread_id, "agent": agent, "message": message.text, "files": message.files})
    }

    /// Returns the system text of this turn. None: none was sent.
    pub fn instructions(&self) -> Result<Option<String>, Refusal> {
        let mut text = String::new();
        let mut add = |part: &str| {
            if !part.trim().is_empty() {
                text.push_str(if text.is_empty() { "" } else { "\n\n" });
                text.push_str(part);
            }
        };
        for message in &self.messages {
            if message["role"] == "system" || message["role"] == "developer" {
                add(&text_of(&message["content"]));
            }
        }
        let context = self.context.as_deref().unwrap_or_default();
        if !context.is_empty() {
            add("Information from the user's application:");
        }
        for item in context {
            add(&format!("{}: {}", item.description, item.value));
        }
        if let Some(state) = self.own_state() {
            add(&format!("State of the user's application, as JSON:\n{state}"));
        }
        if text.len() > INSTRUCTIONS_MAX_BYTES {
            return Err(refusal(
                "context_too_large",
                format!(
                    "context, state and system messages have {} bytes; the maximum is {INSTRUCTIONS_MAX_BYTES}. Send only \
                    what the agent needs for this run",
                    text.len()
                ),
            ));
        }
        Ok((!text.is_empty()).then_some(text))
    }

    /// The client's state without our part of it. None: it is empty.
    fn own_state(&self) -> Option<Value> {
        match &self.state {
            Value::Null => None,
            Value::Object(fields) => {
                let own: Map<String, Value> = fields
                    .iter()
                    .filter(|(name, _)| *name != STATE_KEY)
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                (!own.is_empty()).then_some(Value::Object(own))
            }
            other => Some(other.clone()),
        }
    }

    /// Returns the messages as the client has them, for snapshots.
    pub fn messages_of_client(&self) -> Vec<Value> {
        let known = |message: &&Value| {
            message["id"].is_string() && message["role"].is_string() && message["role"] != "activity"
        };
        let mut messages: Vec<Value> = self.messages.iter().filter(known).cloned().collect();
        for message in &mut messages {
            if let Some(fields) = message.as_object_mut() {
                // The protocol has no null fields.
                fields.retain(|_, value| !value.is_null());
            }
        }
        messages
    }

    /// Returns the texts before the new message, for a conversation that does not exist yet; true: the user's.
    pub fn history(&self) -> Vec<(bool, String)> {
        let last_user = self.messages.iter().rposition(|message| message["role"] == "user");
        let earlier = &self.messages[..last_user.unwrap_or(0)];
        let texts = earlier.iter().filter_map(|message| {
            let is_user = match message["role"].as_str()? {
                "user" => true,
                "assistant" if message["subagentRunId"].is_null() => false,
                _ => return None,
            };
            let text = text_of(&message["content"]);
            (!text.trim().is_empty()).then_some((is_user, text))
        });
        let texts: Vec<_> = texts.collect();
        let skipped = texts.len().saturating_sub(HISTORY_MAX);
        texts.into_iter().skip(skipped).collect()
    }
}

/// Validates an id chosen by the client.
fn check_id(name: &str, id: &str, max_bytes: usize) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > max_bytes || id.chars().any(char::is_control) {
        let detail = format!("{name} must have 1 to {max_bytes} bytes and no control characters");
        return Err(refusal("invalid_id", detail));
    }
    Ok(())
}

/// The text of a message's content: text, or parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == "text");
            texts
                .filter_map(|part| part["text"].as_str())
                .collect::<Vec<_>>()
                .join("\n")
        }
        _ => String::new(),
    }
}

/// The content of a stored message of the user: its text or, with files, its parts.
pub fn content_with(text: &str, files: &[FileRef]) -> Value {
    if files.is_empty() {
        return text.into();
    }
    let files = files.iter().map(|file| {
        let kind = file.media_type.split('/').next();
        let kind = kind
            .filter(|kind| ["image", "audio", "video"].contains(kind))
            .unwrap_or("document");
        json!({"type": kind, "source": {"type": "file", "value": file.file_id, "mimeType": file.media_type}})
    });
    let text = json!({"type": "text", "text": text});
    std::iter::once(text).chain(files).collect()
}

fn user_message(message: &Value) -> Result<UserMessage, Refusal> {
    let mut files = Vec::new();
    for part in message["content"].as_array().into_iter().flatten() {
        match part["type"].as_str().unwrap_or_default() {
            "text" => {}
            kind @ ("image" | "audio" | "video" | "document" | "binary") => {
                let source = &part["source"];
                // A handle that this server has issued.
                let id = source["value"].as_str().filter(|_| source["type"] == "file");
                let id = id.ok_or_else(|| {
                    refusal(
                        "unsupported_content",
                        format!(
                            "the content of {kind} parts is uploaded first, with POST /api/files; the part then names it: \
                            {{\"type\": \"{kind}\", \"source\": {{\"type\": \"file\", \"value\": the file's id}}}}"
                        ),
                    )
                })?;
                files.push(id.to_owned());
            }
            kind => {
                let kind: String = kind.chars().take(RUN_ID_MAX_BYTES).collect();
                return Err(refusal(
                    "unsupported_content",
                    format!("parts of the type {kind:?} are not supported; use text, image, audio, video or document"),
                ));
            }
        }
    }
    Ok(UserMessage {
        text: text_of(&message["content"]),
        files,
    })
}

fn tool_result(message: &Value) -> Result<ToolResult, Refusal> {
    let call_id = message["toolCallId"].as_str().filter(|id| !id.is_empty());
    let call_id = call_id.ok_or_else(|| refusal("invalid_tool_message", "a tool message must have toolCallId"))?;
    Ok(ToolResult {
        call_id: call_id.to_owned(),
        content: text_of(&message["content"]),
        error: message["error"].as_str().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests;
