//! The body of `POST /api/ai/chat`. The client sends all messages that it shows; the server has stored the earlier ones itself, and takes
//! what is new: the user's newest message, or the client's answers to the calls that wait for it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Maximum length of a chat's or a message's id, in bytes.
const ID_MAX_BYTES: usize = 255;

/// What a chat page sends
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = UiChat)]
pub struct ChatBody {
    /// The client's id of the chat, at most 255 bytes: the conversation of that name is continued or created
    pub id: String,
    /// The messages that the client shows. Only the newest one is taken: the server stores the history itself
    pub messages: Vec<UiMessage>,
    pub trigger: Trigger,
    /// The message that the request is about, if it is not the newest one
    pub message_id: Option<String>,
    /// Name or id of the agent of a new conversation
    pub agent: Option<String>,
    /// Tools that the client executes
    #[serde(default)]
    pub client_tools: Vec<ClientTool>,
}

/// What made the client send
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = UiTrigger)]
pub enum Trigger {
    SubmitMessage,
    RegenerateMessage,
}

/// A message as a chat page has it
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiMessage)]
pub struct UiMessage {
    pub id: String,
    /// `user`, `assistant` or `system`
    pub role: String,
    #[serde(default)]
    pub parts: Vec<UiPart>,
}

/// A part of a message: text, a file or a tool call; others are not read
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UiPart)]
pub struct UiPart {
    /// `text`, `file`, `tool-…`, `dynamic-tool` and others
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
    /// Of a file: a data URL, or the `contentUrl` of an uploaded file
    pub url: Option<String>,
    pub media_type: Option<String>,
    pub filename: Option<String>,
    pub tool_call_id: Option<String>,
    pub state: Option<String>,
    pub provider_executed: Option<bool>,
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    pub error_text: Option<String>,
    pub approval: Option<Approval>,
}

/// The user's decision about a call
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = UiApproval)]
pub struct Approval {
    pub id: String,
    pub approved: Option<bool>,
}

/// A tool that the client executes
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = UiClientTool)]
pub struct ClientTool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments
    #[schema(value_type = Object)]
    pub input_schema: Value,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A new message of the user.
    Message(Sent),
    /// Answers to calls that wait for the client.
    Answers(Vec<Answer>),
}

/// A user's message.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The client's id: the message's idempotency key.
    pub id: String,
    pub text: String,
    pub files: Vec<SentFile>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentFile {
    pub url: String,
    pub media_type: Option<String>,
    pub name: Option<String>,
}

/// The client's answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub call_id: String,
    pub output: Output,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// The result of a tool that the client executed.
    Result(Value),
    /// That tool failed.
    Error(String),
    /// The user's decision, and the question that it answers.
    Decision { question_id: String, is_approved: bool },
}

/// Why a request can't be taken: a stable code, and a sentence for its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub detail: String,
}

impl Refusal {
    fn of(code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail }
    }
}

impl ChatBody {
    /// Returns what the request asks for.
    pub fn turn(&self) -> Result<Turn, Refusal> {
        check_chat_id(&self.id)?;
        if self.trigger == Trigger::RegenerateMessage {
            return Err(Refusal::of(
                "regenerate_not_supported",
                "An answer cannot be regenerated in its chat. Send the message again with sendMessage(), or fork the run \
                 with POST /api/runs/{id}/fork.",
            ));
        }
        let newest = self
            .messages
            .last()
            .ok_or_else(|| Refusal::of("message_missing", "messages is empty; send the user's message in it"))?;
        let message = match &self.message_id {
            Some(id) => self.messages.iter().find(|message| message.id == *id).unwrap_or(newest),
            None => newest,
        };
        match message.role.as_str() {
            "user" if self.message_id.is_some() => Err(Refusal::of(
                "edit_not_supported",
                "A message that was sent cannot be changed. Send a new message with sendMessage(), without messageId.",
            )),
            "user" => Ok(Turn::Message(sent(message)?)),
            "assistant" => Ok(Turn::Answers(answers(message)?)),
            _ => Err(Refusal::of(
                "message_missing",
                "The newest message must be the user's, or the assistant's with the outputs of the client's tools.",
            )),
        }
    }
}

/// Checks the client's id of a chat.
pub fn check_chat_id(id: &str) -> Result<(), Refusal> {
    check_id(id, "the chat's id")
}

fn check_id(id: &str, what: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > ID_MAX_BYTES || id.contains('\0') {
        let detail = format!("{what} must have 1 to {ID_MAX_BYTES} bytes, without NUL characters");
        return Err(Refusal::of("invalid_id", detail));
    }
    Ok(())
}

fn sent(message: &UiMessage) -> Result<Sent, Refusal> {
    check_id(&message.id, "a message's id")?;
    let texts: Vec<&str> = message
        .parts
        .iter()
        .filter(|part| part.kind == "text")
        .filter_map(|part| part.text.as_deref())
        .collect();
    let mut files = Vec::new();
    for part in message.parts.iter().filter(|part| part.kind == "file") {
        let url = part
            .url
            .clone()
            .ok_or_else(|| Refusal::of("invalid_file", "A file part has no url."))?;
        files.push(SentFile {
            url,
            media_type: part.media_type.clone(),
            name: part.filename.clone(),
        });
    }
    Ok(Sent {
        id: message.id.clone(),
        text: texts.join("\n\n"),
        files,
    })
}

/// Returns what the client answers in a message of the assistant.
fn answers(message: &UiMessage) -> Result<Vec<Answer>, Refusal> {
    let answers: Vec<Answer> = message.parts.iter().filter_map(answer).collect();
    if answers.is_empty() {
        return Err(Refusal::of(
            "message_missing",
            "The newest message is the assistant's, and has no output of a client's tool and no decision about a call: \
             there is nothing to do.",
        ));
    }
    Ok(answers)
}

fn answer(part: &UiPart) -> Option<Answer> {
    let call_id = part.tool_call_id.clone()?;
    let output = match part.state.as_deref()? {
        "approval-responded" => {
            let approval = part.approval.as_ref()?;
            Output::Decision {
                question_id: approval.id.clone(),
                is_approved: approval.approved?,
            }
        }
        // The server executed it, and knows.
        _ if part.provider_executed == Some(true) => return None,
        "output-available" => Output::Result(part.output.clone().unwrap_or_default()),
        "output-error" => Output::Error(part.error_text.clone().unwrap_or_default()),
        _ => return None,
    };
    Some(Answer { call_id, output })
}

/// Returns the media type and the content of a data URL in base64. None: it is none.
pub fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, content) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type, content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(body: &Value) -> Result<Turn, &'static str> {
        let body: ChatBody = serde_json::from_value(body.clone()).unwrap();
        body.turn().map_err(|refusal| refusal.code)
    }

    #[test]
    fn the_newest_message_is_taken() {
        let body = json!({
            "id": "chat", "trigger": "submit-message",
            "messages": [
                {"id": "a", "role": "user", "parts": [{"type": "text", "text": "Hello"}]},
                {"id": "b", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "Hi", "state": "done"}]},
                {"id": "c", "role": "user", "metadata": {"at": 1}, "parts": [
                    {"type": "file", "url": "data:text/plain;base64,SGk=", "mediaType": "text/plain", "filename": "a.txt"},
                    {"type": "text", "text": "And this?"},
                ]},
            ],
        });
        let Ok(Turn::Message(sent)) = turn(&body) else {
            panic!("no message");
        };
        assert_eq!((sent.id.as_str(), sent.text.as_str()), ("c", "And this?"));
        assert_eq!(data_url(&sent.files[0].url), Some(("text/plain", "SGk=")));
    }

    #[test]
    fn outputs_and_decisions_are_answers() {
        let body = json!({
            "id": "chat", "trigger": "submit-message", "messageId": "b",
            "messages": [{"id": "b", "role": "assistant", "parts": [
                {"type": "tool-place", "toolCallId": "1", "state": "output-available", "input": {}, "output": {"at": [1, 2]}},
                {"type": "tool-place", "toolCallId": "2", "state": "output-error", "input": {}, "errorText": "denied"},
                {"type": "dynamic-tool", "toolName": "pay", "toolCallId": "3", "state": "approval-responded", "input": {},
                 "providerExecuted": true, "approval": {"id": "q", "approved": false}},
                {"type": "dynamic-tool", "toolName": "find", "toolCallId": "4", "state": "output-available", "input": {},
                 "providerExecuted": true, "output": 1},
            ]}],
        });
        let answers = vec![
            Answer {
                call_id: "1".into(),
                output: Output::Result(json!({"at": [1, 2]})),
            },
            Answer {
                call_id: "2".into(),
                output: Output::Error("denied".into()),
            },
            Answer {
                call_id: "3".into(),
                output: Output::Decision {
                    question_id: "q".into(),
                    is_approved: false,
                },
            },
        ];
        assert_eq!(turn(&body), Ok(Turn::Answers(answers)));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let user = json!({"id": "a", "role": "user", "parts": [{"type": "text", "text": "Hello"}]});
        let assistant = json!({"id": "b", "role": "assistant", "parts": [{"type": "text", "text": "Hi"}]});
        let of = |trigger: &str, id: &str, messages: &[&Value], message_id: Option<&str>| {
            turn(&json!({"id": id, "trigger": trigger, "messages": messages, "messageId": message_id}))
        };
        assert_eq!(
            of("regenerate-message", "c", &[&user], None),
            Err("regenerate_not_supported")
        );
        assert_eq!(
            of("submit-message", "c", &[&user], Some("a")),
            Err("edit_not_supported")
        );
        assert_eq!(
            of("submit-message", "c", &[&user, &assistant], None),
            Err("message_missing")
        );
        assert_eq!(of("submit-message", "c", &[], None), Err("message_missing"));
        assert_eq!(of("submit-message", "", &[&user], None), Err("invalid_id"));
    }
}
