//! The input of a request: earlier messages, the message to answer with its files, and answers to what a run waits for.

use serde_json::Value;
use uuid::Uuid;

use super::errors::Invalid;
use super::ids;

/// Maximum number of items of an input.
pub const ITEMS_MAX: usize = 2_000;
/// Between the texts of one message, and between messages that are joined.
const PARAGRAPH: &str = "\n\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    System,
}

/// An earlier message.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    pub role: Role,
    pub text: String,
}

/// A file of the message to answer.
#[derive(Debug, Clone, PartialEq)]
pub enum InputFile {
    Uploaded(Uuid),
    /// Sent with the request, in base64.
    Inline {
        name: String,
        media_type: String,
        base64: String,
    },
}

/// The answer to what a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub question: Uuid,
    pub reply: Reply,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The output of the client's function.
    Output(String),
    /// Whether a call is approved.
    Decision { approve: bool },
}

/// The parts of an input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Input {
    /// Before the last message of the user, oldest first.
    pub history: Vec<Past>,
    /// The messages of the user that end the input. None: it ends with answers.
    pub message: Option<String>,
    pub files: Vec<InputFile>,
    /// The answers that end the input.
    pub answers: Vec<Answer>,
}

/// An item of an input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Message(Past, Vec<InputFile>),
    /// A call of an earlier turn, as text.
    Called {
        id: String,
        words: String,
    },
    /// The answer to a call. None: the call is not one of ours.
    Answered {
        id: String,
        answer: Option<Answer>,
        words: String,
    },
    /// Nothing that a model needs.
    Nothing,
}

impl Input {
    /// Puts items together. Answers count as such if nothing of the user follows them; the others are part of the history.
    pub(super) fn of(items: Vec<Item>) -> Self {
        let mut input = Self::default();
        let mut pending: Vec<(Answer, String)> = Vec::new();
        let mut calls: Vec<(String, String)> = Vec::new();
        let tell = |input: &mut Self, text: String| {
            input.history.push(Past {
                role: Role::Assistant,
                text,
            })
        };
        for item in items {
            match item {
                Item::Nothing => {}
                Item::Called { id, words } => calls.push((id, words)),
                Item::Answered { id, answer, words } => {
                    let called = calls
                        .iter()
                        .find(|(call, _)| *call == id)
                        .map(|(_, words)| words.as_str());
                    let summary = format!("{}, which returned: {words}", called.unwrap_or("Called a function"));
                    input.past();
                    match answer {
                        Some(answer) => pending.push((answer, summary)),
                        None => tell(&mut input, summary),
                    }
                }
                Item::Message(past, files) => {
                    for (_, summary) in pending.drain(..) {
                        tell(&mut input, summary);
                    }
                    input.add(past, files);
                }
            }
        }
        input.answers = pending.into_iter().map(|(answer, _)| answer).collect();
        input
    }

    fn add(&mut self, past: Past, files: Vec<InputFile>) {
        if past.role != Role::User {
            self.past();
            self.history.push(past);
            return;
        }
        self.files.extend(files);
        match &mut self.message {
            Some(message) => {
                message.push_str(PARAGRAPH);
                message.push_str(&past.text);
            }
            None => self.message = Some(past.text),
        }
    }

    /// The message before what comes next is history; its files can't be.
    fn past(&mut self) {
        self.files.clear();
        if let Some(text) = self.message.take() {
            self.history.push(Past { role: Role::User, text });
        }
    }

    /// Takes the answers of an input, whose calls wait no longer, as a message.
    pub fn answers_as_message(&mut self) {
        let summary: Vec<String> = self.answers.drain(..).map(|answer| answer.reply.words()).collect();
        self.message = Some(summary.join(PARAGRAPH));
    }
}

impl Reply {
    fn words(&self) -> String {
        match self {
            Self::Output(output) => format!("The function returned: {output}"),
            Self::Decision { approve: true } => "Approved.".to_owned(),
            Self::Decision { approve: false } => "Not approved.".to_owned(),
        }
    }
}

/// Returns the input of a Responses request: a text, or a list of items.
pub fn of_responses(input: &Value) -> Result<Input, Invalid> {
    match input {
        Value::String(text) => Ok(Input {
            message: Some(text.clone()),
            ..Input::default()
        }),
        Value::Array(items) if items.len() > ITEMS_MAX => {
            Err(Invalid::new("input", format!("an input has at most {ITEMS_MAX} items")))
        }
        Value::Array(items) => {
            let items = items
                .iter()
                .enumerate()
                .map(|(at, value)| item(value, &format!("input[{at}]")));
            Ok(Input::of(items.collect::<Result<_, _>>()?))
        }
        _ => Err(Invalid::new("input", "input must be a string or a list of items")),
    }
}

fn item(value: &Value, param: &str) -> Result<Item, Invalid> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    match value["type"].as_str().unwrap_or("message") {
        "message" => message(value, param),
        "function_call" | "custom_tool_call" | "mcp_call" => {
            let arguments = value["arguments"]
                .as_str()
                .or(value["input"].as_str())
                .unwrap_or_default();
            let output = value["output"]
                .as_str()
                .map(|output| format!(", which returned: {output}"));
            Ok(Item::Called {
                id: text("call_id"),
                words: format!("Called {}({arguments}){}", text("name"), output.unwrap_or_default()),
            })
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = text("call_id");
            if id.is_empty() {
                return Err(Invalid::new(format!("{param}.call_id"), "call_id is required"));
            }
            let words = output(&value["output"], &format!("{param}.output"))?;
            let answer = ids::parse_call(&id).map(|question| Answer {
                question,
                reply: Reply::Output(words.clone()),
            });
            Ok(Item::Answered { id, answer, words })
        }
        "mcp_approval_response" => {
            let id = text("approval_request_id");
            let approve = value["approve"].as_bool();
            let approve =
                approve.ok_or_else(|| Invalid::new(format!("{param}.approve"), "approve must be true or false"))?;
            let answer = ids::parse_approval(&id).map(|question| Answer {
                question,
                reply: Reply::Decision { approve },
            });
            let words = Reply::Decision { approve }.words();
            Ok(Item::Answered { id, answer, words })
        }
        // The model gets its own reasoning back from the run's records; the rest are notes of a client.
        "reasoning" | "mcp_approval_request" | "mcp_list_tools" => Ok(Item::Nothing),
        other => Err(Invalid::unsupported(
            param,
            format!(
                "items of type {other} are not supported; send messages, function_call, function_call_output or mcp_approval_response"
            ),
        )),
    }
}

/// The output of a function: a text, or a list of texts.
fn output(value: &Value, param: &str) -> Result<String, Invalid> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part["text"].as_str());
            let texts: Option<Vec<&str>> = texts.collect();
            let texts = texts.ok_or_else(|| Invalid::unsupported(param, "an output can contain text only"))?;
            Ok(texts.join(PARAGRAPH))
        }
        _ => Err(Invalid::new(param, "output must be a string")),
    }
}

pub(super) fn role(value: &Value, param: &str) -> Result<Role, Invalid> {
    match value["role"].as_str() {
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("system" | "developer") => Ok(Role::System),
        _ => Err(Invalid::new(
            format!("{param}.role"),
            "role must be user, assistant, system or developer",
        )),
    }
}

fn message(value: &Value, param: &str) -> Result<Item, Invalid> {
    let role = role(value, param)?;
    let (text, files) = content(&value["content"], &format!("{param}.content"))?;
    Ok(Item::Message(Past { role, text }, files))
}

/// The text and the files of a message's content, in either protocol.
pub(super) fn content(value: &Value, param: &str) -> Result<(String, Vec<InputFile>), Invalid> {
    let parts = match value {
        Value::String(text) => return Ok((text.clone(), Vec::new())),
        // An assistant's message that only calls functions.
        Value::Null => return Ok((String::new(), Vec::new())),
        Value::Array(parts) => parts,
        _ => return Err(Invalid::new(param, "content must be a string or a list of parts")),
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for (at, part) in parts.iter().enumerate() {
        let param = format!("{param}[{at}]");
        match part["type"].as_str().unwrap_or_default() {
            "input_text" | "output_text" | "text" => texts.push(part["text"].as_str().unwrap_or_default()),
            "refusal" => texts.push(part["refusal"].as_str().unwrap_or_default()),
            "input_image" => files.push(file(&part["file_id"], &part["image_url"], "image", &param)?),
            "image_url" => files.push(file(&Value::Null, &part["image_url"]["url"], "image", &param)?),
            "input_file" => files.push(named_file(part, &param)?),
            "file" => files.push(named_file(&part["file"], &param)?),
            other => {
                return Err(Invalid::unsupported(
                    param,
                    format!("parts of type {other} are not supported; send text, images and files"),
                ));
            }
        }
    }
    Ok((texts.join(PARAGRAPH), files))
}

fn named_file(part: &Value, param: &str) -> Result<InputFile, Invalid> {
    if part["file_url"].is_string() {
        let message = "files are not fetched from addresses; upload the file with POST /api/files, or send file_data";
        return Err(Invalid::unsupported(format!("{param}.file_url"), message));
    }
    let name = part["filename"].as_str().unwrap_or("file");
    file(&part["file_id"], &part["file_data"], name, param)
}

/// A file by its id, or by a data URL.
fn file(id: &Value, data: &Value, name: &str, param: &str) -> Result<InputFile, Invalid> {
    if let Some(id) = id.as_str() {
        let id = ids::parse_file(id);
        return id.map(InputFile::Uploaded).ok_or_else(|| {
            Invalid::new(
                format!("{param}.file_id"),
                "file_id is not the id of a file; upload it with POST /api/files",
            )
        });
    }
    let parsed = data.as_str().and_then(|url| {
        let (media_type, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(InputFile::Inline {
            name: name.to_owned(),
            media_type: media_type.split(';').next().unwrap_or_default().to_owned(),
            base64: base64.to_owned(),
        })
    });
    parsed.ok_or_else(|| {
        let message = "an image or a file must be an uploaded file's file_id, or a data URL: data:image/png;base64,… \
            (addresses are not fetched)";
        Invalid::unsupported(param, message)
    })
}

#[cfg(test)]
mod tests;
