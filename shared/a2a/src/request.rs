//! What a client sends. Fields that are not known are ignored, as the protocol requires.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use rejoin_files::types;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::errors::codes;
use super::push::PushConfig;

/// Maximum length of a message's id, in characters: it is a part of an idempotency key.
pub(crate) const MESSAGE_ID_MAX_CHARS: usize = 200;
/// Maximum number of tasks that a message refers to.
const REFERENCES_MAX: usize = 100;
/// Between the parts of a message.
const PARAGRAPH: &str = "\n\n";
/// The member of the metadata that is the schema of the answer.
const OUTPUT_SCHEMA: &str = "outputSchema";
/// The media type of a file that names none.
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// The name of a file that names none.
const UNNAMED: &str = "file";
/// Length of a media type that is quoted, in characters.
const SHOWN_CHARS: usize = 100;

/// A message to an agent
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aSendMessageRequest)]
pub struct SendMessageRequest {
    pub message: Message,
    pub configuration: Configuration,
    /// `outputSchema`: a JSON Schema of the answer
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
}

/// A message
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aMessage)]
pub struct Message {
    /// The client's id of the message: the same message sent again is the same task
    pub message_id: String,
    /// `ROLE_USER`
    pub role: String,
    pub parts: Vec<Part>,
    /// The client's name of the context, or the server's id of it
    pub context_id: Option<String>,
    /// The task that the message is for; none: a new one
    pub task_id: Option<String>,
    pub reference_task_ids: Vec<String>,
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
}

/// A part of a message: a text, a file (`raw` in base64, or `url`), or data
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aPart)]
pub struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The address of an uploaded file's content, or a data URL
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Any JSON
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// How to send a message
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aConfiguration)]
pub struct Configuration {
    pub accepted_output_modes: Vec<String>,
    /// Maximum number of the newest messages in the task that is returned
    #[schema(minimum = 0)]
    pub history_length: Option<i64>,
    /// Return the task at once
    pub return_immediately: bool,
    /// Where the states of the task are sent
    pub task_push_notification_config: Option<PushConfig>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub detail: String,
}

fn refusal(code: &'static str, detail: impl Into<String>) -> Refusal {
    let detail = detail.into();
    Refusal { code, detail }
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum SentFile {
    Uploaded(Uuid),
    Inline {
        name: String,
        media_type: String,
        #[serde(skip)]
        content: Vec<u8>,
        /// As it was sent: the same file has the same text.
        base64: String,
    },
}

/// An answer to one of the questions of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    pub question: Uuid,
    pub answer: Value,
    /// Other arguments for the call that is to be approved.
    pub input: Option<Value>,
}

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    pub message_id: String,
    pub context_id: Option<String>,
    pub task_id: Option<String>,
    pub text: String,
    pub files: Vec<SentFile>,
    pub answers: Vec<Answer>,
    pub output_schema: Option<Value>,
    /// What is kept with the stored message.
    pub kept: Value,
}

/// The answer of a data part. None: the part is something else.
fn answer(data: &Value) -> Option<Answer> {
    Some(Answer {
        question: data["questionId"].as_str()?.parse().ok()?,
        answer: data.get("answer")?.clone(),
        input: data.get("input").filter(|input| !input.is_null()).cloned(),
    })
}

fn nonempty(text: Option<String>) -> Option<String> {
    // Protobuf's JSON has an empty text where there is none.
    text.filter(|text| !text.is_empty())
}

/// Decodes base64 of either alphabet, padded or not: protobuf's JSON has both.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decode = |alphabet| GeneralPurpose::new(alphabet, config).decode(base64).ok();
    decode(&alphabet::STANDARD).or_else(|| decode(&alphabet::URL_SAFE))
}

/// Refuses media types that no agent reads.
fn check_media_type(media_type: &str, filename: Option<&str>) -> Result<(), Refusal> {
    if types::is_taken(media_type, filename.unwrap_or_default()) {
        return Ok(());
    }
    let shown: String = media_type.chars().take(SHOWN_CHARS).collect();
    let detail = format!(
        "parts of the type {shown} are not accepted; accepted are {}",
        types::TAKEN
    );
    Err(refusal(codes::CONTENT_TYPE_NOT_SUPPORTED, detail))
}

impl Part {
    /// Refuses a part of an unknown kind, or with a media type that is not accepted.
    fn check(&self) -> Result<(), Refusal> {
        if self.text.is_none() && self.raw.is_none() && self.url.is_none() && self.data.is_null() {
            let detail = "a part must have text, raw, url or data";
            return Err(refusal(codes::CONTENT_TYPE_NOT_SUPPORTED, detail));
        }
        let media_type = self.media_type.as_deref().unwrap_or_default();
        check_media_type(media_type, self.filename.as_deref())
    }

    fn file(&self) -> Result<Option<SentFile>, Refusal> {
        let (base64, declared) = match (&self.raw, &self.url) {
            (Some(raw), _) => (raw.as_str(), None),
            (None, None) => return Ok(None),
            (None, Some(url)) => {
                if let Some(id) = rejoin_types::file_ref::id_of_address(url) {
                    return Ok(Some(SentFile::Uploaded(id)));
                }
                let (declared, base64) = rejoin_dialects::ai_sdk::request::data_url(url).ok_or_else(|| {
                    refusal(
                        codes::CONTENT_TYPE_NOT_SUPPORTED,
                        "the url of a part must be a data URL in base64, or the contentUrl of a file uploaded with POST /api/files; files of \
                         other addresses are not fetched",
                    )
                })?;
                check_media_type(declared, self.filename.as_deref())?;
                (base64, Some(declared))
            }
        };
        let content = decoded(base64).ok_or_else(|| refusal("invalid_file", "the content of a part is not base64"))?;
        let media_type = self.media_type.as_deref().or(declared).filter(|kind| !kind.is_empty());
        let name = self.filename.as_deref().filter(|name| !name.is_empty());
        Ok(Some(SentFile::Inline {
            name: name.unwrap_or(UNNAMED).to_owned(),
            media_type: media_type.unwrap_or(UNKNOWN_TYPE).to_owned(),
            content,
            base64: base64.to_owned(),
        }))
    }
}

impl SendMessageRequest {
    /// The maximum number of messages in the returned task. None: all.
    pub fn history_length(&self) -> Result<Option<usize>, Refusal> {
        history_length(self.configuration.history_length)
    }

    /// Reads what it asks for.
    pub fn asked(self) -> Result<Asked, Refusal> {
        let message = self.message;
        if message.message_id.is_empty() || message.message_id.chars().count() > MESSAGE_ID_MAX_CHARS {
            let detail = format!("message.messageId must have 1 to {MESSAGE_ID_MAX_CHARS} characters");
            return Err(refusal("invalid_id", detail));
        }
        if !matches!(message.role.as_str(), "ROLE_USER" | "") {
            return Err(refusal("invalid_role", "message.role must be ROLE_USER"));
        }
        if message.reference_task_ids.len() > REFERENCES_MAX {
            let detail = format!("message.referenceTaskIds can have at most {REFERENCES_MAX} items");
            return Err(refusal("invalid_body", detail));
        }
        let (mut texts, mut files, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for part in message.parts {
            part.check()?;
            if let Some(file) = part.file()? {
                files.push(file);
            } else if let Some(answer) = answer(&part.data) {
                answers.push(answer);
            } else if !part.data.is_null() {
                texts.push(part.data.to_string());
            } else {
                texts.extend(nonempty(part.text));
            }
        }
        let schema = |metadata: Option<Map<String, Value>>| metadata?.remove(OUTPUT_SCHEMA);
        let output_schema = schema(self.metadata).or_else(|| schema(message.metadata));
        let mut kept = json!({ "messageId": message.message_id });
        if !message.reference_task_ids.is_empty() {
            kept["referenceTaskIds"] = json!(message.reference_task_ids);
        }
        Ok(Asked {
            message_id: message.message_id,
            context_id: nonempty(message.context_id),
            task_id: nonempty(message.task_id),
            text: texts.join(PARAGRAPH),
            files,
            answers,
            output_schema,
            kept,
        })
    }
}

/// Reads the maximum length of a history.
pub fn history_length(length: Option<i64>) -> Result<Option<usize>, Refusal> {
    let negative = |_| refusal("invalid_query", "historyLength must not be negative");
    length
        .map(|length| usize::try_from(length).map_err(negative))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(message: Value) -> Result<Asked, &'static str> {
        let request: SendMessageRequest = serde_json::from_value(json!({ "message": message })).unwrap();
        request.asked().map_err(|refusal| refusal.code)
    }

    #[test]
    fn parts_are_a_text_files_and_answers() {
        let (file, question) = (Uuid::now_v7(), Uuid::now_v7());
        let asked = asked(json!({
            "messageId": "m", "role": "ROLE_USER", "taskId": "", "contextId": "letter", "unknown": 1,
            "parts": [
                {"text": "Hello"}, {"text": ""}, {"data": {"a": 1}},
                {"raw": "SGk_", "filename": "a.txt", "mediaType": "text/plain"},
                {"url": "data:text/plain;base64,SGk/"},
                {"url": format!("https://rejoin.example/api/files/{file}/content")},
                {"data": {"questionId": question, "answer": "red"}},
            ],
        }))
        .unwrap();
        assert_eq!(asked.text, "Hello\n\n{\"a\":1}");
        assert_eq!((asked.context_id.as_deref(), asked.task_id), (Some("letter"), None));
        let inline = |name: &str, base64: &str| SentFile::Inline {
            name: name.into(),
            media_type: "text/plain".into(),
            content: b"Hi?".to_vec(),
            base64: base64.into(),
        };
        assert_eq!(
            asked.files,
            [
                inline("a.txt", "SGk_"),
                inline("file", "SGk/"),
                SentFile::Uploaded(file)
            ]
        );
        let answer = Answer {
            question,
            answer: json!("red"),
            input: None,
        };
        assert_eq!(asked.answers, [answer]);
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let parts = json!([{"text": "Hi"}]);
        for (message, code) in [
            (json!({"parts": parts}), "invalid_id"),
            (
                json!({"messageId": "m", "role": "ROLE_AGENT", "parts": parts}),
                "invalid_role",
            ),
            (json!({"messageId": "m", "parts": [{"raw": "*"}]}), "invalid_file"),
            (
                json!({"messageId": "m", "parts": [{"url": "https://example.com/a.png"}]}),
                "content_type_not_supported",
            ),
            (
                json!({"messageId": "m", "parts": [{"kind": "file", "file": {"uri": "https://example.com/a.png"}}]}),
                "content_type_not_supported",
            ),
            (
                json!({"messageId": "m", "parts": [{"raw": "SGk/", "mediaType": "application/x-unknown"}]}),
                "content_type_not_supported",
            ),
            (
                json!({"messageId": "m", "parts": [{"url": "data:video/mp4;base64,SGk/"}]}),
                "content_type_not_supported",
            ),
        ] {
            assert_eq!(asked(message), Err(code));
        }
    }
}
