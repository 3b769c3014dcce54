//! The requests of both protocols, and what they ask of us.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::errors::Invalid;
use super::ids;
use super::input::{self, Answer, Input, Item, Past, Reply, Role};
use super::settings::Settings;

/// Maximum number of a client's functions.
pub const TOOLS_MAX: usize = 128;
/// Maximum length of a function's name, in characters.
const NAME_MAX_CHARS: usize = 64;
/// Maximum number of pairs of metadata, and maximum lengths of their keys and values, in characters.
const METADATA_MAX: usize = 16;
const METADATA_KEY_MAX_CHARS: usize = 64;
const METADATA_VALUE_MAX_CHARS: usize = 512;

/// A function that the client executes.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub name: String,
    pub description: String,
    pub parameters: Value,
}

/// What a request asks of us.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub input: Input,
    pub functions: Vec<Function>,
    pub instructions: Option<String>,
    /// The JSON Schema that the answer must match.
    pub output_schema: Option<Value>,
    pub settings: Settings,
}

/// The request of a response. Fields that set a model's parameters (`temperature`, `top_p`, `max_output_tokens`, …) are accepted, but the
/// agent's own settings apply
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OpenAiResponseRequest)]
pub struct ResponseRequest {
    /// The name or the id of an agent, or the model of the default agent
    pub model: String,
    /// A text, or a list of items
    #[schema(value_type = Object)]
    #[serde(default)]
    pub input: Value,
    pub instructions: Option<String>,
    #[serde(default)]
    pub stream: Option<bool>,
    /// Answer at once, with the response's id
    #[serde(default)]
    pub background: Option<bool>,
    pub previous_response_id: Option<String>,
    /// `conv_…`, or an object with such an `id`
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub conversation: Value,
    /// Functions that the client executes
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(default)]
    pub tools: Option<Vec<Value>>,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub tool_choice: Value,
    pub parallel_tool_calls: Option<bool>,
    /// `{format: {type: "json_schema", schema}}`
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub text: Value,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub reasoning: Value,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Value,
    /// A prompt kept by the server, which this one does not support
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub prompt: Value,
}

impl ResponseRequest {
    pub fn wants_stream(&self) -> bool {
        self.stream.unwrap_or_default()
    }

    /// The id of the requested conversation, as sent.
    pub fn conversation_id(&self) -> Option<&str> {
        self.conversation.as_str().or(self.conversation["id"].as_str())
    }

    pub fn ask(&self) -> Result<Ask, Invalid> {
        if !self.prompt.is_null() {
            let message = "stored prompts are not supported; the agent that `model` names has its own";
            return Err(Invalid::unsupported("prompt", message));
        }
        if self.conversation_id().is_some() && self.previous_response_id.is_some() {
            let message = "previous_response_id and conversation cannot be used together; send one of them";
            return Err(Invalid::new("previous_response_id", message));
        }
        let mut tools = self.tools.clone().unwrap_or_default();
        if !takes_tools(&self.tool_choice)? {
            tools.clear();
        }
        let functions = functions(tools.iter().map(|tool| (tool, tool)))?;
        let output_schema = output_schema(&self.text["format"], &self.text["format"], "text.format")?;
        Ok(Ask {
            input: input::of_responses(&self.input)?,
            functions,
            instructions: self.instructions.clone(),
            output_schema,
            settings: Settings {
                model: self.model.clone(),
                instructions: self.instructions.clone(),
                tools: tools.into_iter().map(completed).collect(),
                metadata: metadata(&self.metadata)?,
                previous_response_id: self.previous_response_id.clone(),
                background: self.background.unwrap_or_default(),
                in_conversation: self.conversation_id().is_some(),
                text: self.text.clone(),
                reasoning: self.reasoning.clone(),
                parallel_tool_calls: self.parallel_tool_calls.unwrap_or(true),
                temperature: None,
            },
        })
    }
}

/// The request of a chat completion. Its messages are the whole history: each request begins a conversation, unless it ends with the outputs
/// of functions that a run waits for
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OpenAiChatRequest)]
pub struct ChatRequest {
    /// The name or the id of an agent, or the model of the default agent
    pub model: String,
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Value>,
    #[serde(default)]
    pub stream: Option<bool>,
    /// `{include_usage: true}`: a last chunk with the usage
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub stream_options: Value,
    /// Functions that the client executes
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(default)]
    pub tools: Option<Vec<Value>>,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub tool_choice: Value,
    pub parallel_tool_calls: Option<bool>,
    /// `{type: "json_schema", json_schema: {schema}}`
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub response_format: Value,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Value,
    /// The number of answers: 1
    pub n: Option<i64>,
    #[serde(default)]
    pub logprobs: Option<bool>,
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    pub modalities: Option<Vec<String>>,
}

impl ChatRequest {
    pub fn wants_stream(&self) -> bool {
        self.stream.unwrap_or_default()
    }

    pub fn includes_usage(&self) -> bool {
        self.stream_options["include_usage"].as_bool().unwrap_or_default()
    }

    pub fn ask(&self) -> Result<Ask, Invalid> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(Invalid::unsupported(
                "n",
                "one answer per request is supported: n must be 1",
            ));
        }
        if self.logprobs == Some(true) {
            return Err(Invalid::unsupported("logprobs", "log probabilities are not supported"));
        }
        if self.modalities.iter().flatten().any(|modality| modality != "text") {
            return Err(Invalid::unsupported("modalities", "answers are text"));
        }
        let mut tools = self.tools.clone().unwrap_or_default();
        if !takes_tools(&self.tool_choice)? {
            tools.clear();
        }
        let functions = functions(tools.iter().map(|tool| (tool, &tool["function"])))?;
        let format = &self.response_format;
        let output_schema = output_schema(format, &format["json_schema"], "response_format")?;
        // Kept in the form of Responses, by which a response to the same run may be read.
        let kept = functions.iter().map(|function| {
            completed(
                json!({"type": "function", "name": function.name, "description": function.description,
                "parameters": function.parameters}),
            )
        });
        Ok(Ask {
            input: self.input()?,
            instructions: None,
            output_schema,
            settings: Settings {
                model: self.model.clone(),
                tools: kept.collect(),
                metadata: metadata(&self.metadata)?,
                parallel_tool_calls: self.parallel_tool_calls.unwrap_or(true),
                ..Settings::default()
            },
            functions,
        })
    }

    fn input(&self) -> Result<Input, Invalid> {
        if self.messages.len() > input::ITEMS_MAX {
            let message = format!("a request has at most {} messages", input::ITEMS_MAX);
            return Err(Invalid::new("messages", message));
        }
        let mut items = Vec::with_capacity(self.messages.len());
        for (at, message) in self.messages.iter().enumerate() {
            let param = format!("messages[{at}]");
            let (text, files) = input::content(&message["content"], &format!("{param}.content"))?;
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
                let answer = ids::parse_call(&id).map(|question| Answer {
                    question,
                    reply: Reply::Output(text.clone()),
                });
                items.push(Item::Answered {
                    id,
                    answer,
                    words: text,
                });
                continue;
            }
            let role = input::role(message, &param)?;
            // A message that only calls functions has no words.
            if role != Role::Assistant || !text.is_empty() {
                items.push(Item::Message(Past { role, text }, files));
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                let word = |name: &str| function[name].as_str().unwrap_or_default();
                items.push(Item::Called {
                    id: call["id"].as_str().unwrap_or_default().to_owned(),
                    words: format!("Called {}({})", word("name"), word("arguments")),
                });
            }
        }
        Ok(Input::of(items))
    }
}

/// Returns whether the model may call the client's functions.
fn takes_tools(choice: &Value) -> Result<bool, Invalid> {
    match choice.as_str() {
        None if choice.is_null() => Ok(true),
        Some("auto") => Ok(true),
        Some("none") => Ok(false),
        Some(_) | None => Err(Invalid::unsupported(
            "tool_choice",
            "calls cannot be forced: tool_choice must be auto or none",
        )),
    }
}

/// Reads functions: pairs of the tool, and the object that describes its function.
fn functions<'a>(tools: impl Iterator<Item = (&'a Value, &'a Value)>) -> Result<Vec<Function>, Invalid> {
    let mut functions = Vec::new();
    for (at, (tool, described)) in tools.enumerate() {
        let param = format!("tools[{at}]");
        if at == TOOLS_MAX {
            return Err(Invalid::new("tools", format!("at most {TOOLS_MAX} tools can be given")));
        }
        if tool["type"] != "function" {
            let message = format!(
                "tools of type {} are not supported; give functions, or give the tool to the agent",
                tool["type"].as_str().unwrap_or("(none)")
            );
            return Err(Invalid::unsupported(format!("{param}.type"), message));
        }
        let name = described["name"].as_str().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_MAX_CHARS || !name.chars().all(is_name) {
            let message = format!("a function's name has 1 to {NAME_MAX_CHARS} letters, digits, _ or -");
            return Err(Invalid::new(format!("{param}.name"), message));
        }
        let parameters = match &described["parameters"] {
            Value::Null => json!({"type": "object", "properties": {}}),
            object @ Value::Object(_) => object.clone(),
            _ => {
                return Err(Invalid::new(
                    format!("{param}.parameters"),
                    "parameters must be a JSON Schema",
                ));
            }
        };
        functions.push(Function {
            name: name.to_owned(),
            description: described["description"].as_str().unwrap_or_default().to_owned(),
            parameters,
        });
    }
    Ok(functions)
}

/// The fields of a function that the protocol requires in a response.
fn completed(mut tool: Value) -> Value {
    for (name, default) in [
        ("strict", json!(false)),
        ("parameters", Value::Null),
        ("description", Value::Null),
    ] {
        if tool.get(name).is_none() {
            tool[name] = default;
        }
    }
    tool
}

/// Returns the schema of a format, which is in `holder`.
fn output_schema(format: &Value, holder: &Value, param: &str) -> Result<Option<Value>, Invalid> {
    match format["type"].as_str() {
        None if format.is_null() => Ok(None),
        Some("text") => Ok(None),
        Some("json_schema") if holder["schema"].is_object() => Ok(Some(holder["schema"].clone())),
        Some("json_schema") => Err(Invalid::new(
            format!("{param}.schema"),
            "schema must be a JSON Schema of an object",
        )),
        Some(_) | None => Err(Invalid::unsupported(
            format!("{param}.type"),
            "the format must be text or json_schema; for JSON of any shape, give a json_schema",
        )),
    }
}

/// Checks metadata: pairs of texts.
pub fn metadata(value: &Value) -> Result<Value, Invalid> {
    let fits = |pairs: &Map<String, Value>| {
        pairs.len() <= METADATA_MAX
            && pairs.iter().all(|(key, value)| {
                key.chars().count() <= METADATA_KEY_MAX_CHARS
                    && value
                        .as_str()
                        .is_some_and(|text| text.chars().count() <= METADATA_VALUE_MAX_CHARS)
            })
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Object(pairs) if fits(pairs) => Ok(value.clone()),
        _ => Err(Invalid::new(
            "metadata",
            format!(
                "metadata must be an object of at most {METADATA_MAX} texts: keys of at most {METADATA_KEY_MAX_CHARS} characters, values of \
                 at most {METADATA_VALUE_MAX_CHARS}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
