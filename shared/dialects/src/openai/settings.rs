//! What a request set and a response repeats. Kept with the run's message, so that the response is the same whenever it is read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The field of a message's attached context that holds them.
pub const FIELD: &str = "openai";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The requested model: an agent.
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The client's functions, as it described them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_response_id: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Whether the request named a conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_conversation: bool,
    /// The format of the text.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub text: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub reasoning: Value,
    pub parallel_tool_calls: bool,
    /// The agent's sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// The sampling temperature and `top_p` of a model whose agent has none: the protocol's default.
const SAMPLING_DEFAULT: f64 = 1.0;

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: String::new(),
            instructions: None,
            tools: Vec::new(),
            metadata: Value::Null,
            previous_response_id: None,
            background: false,
            in_conversation: false,
            text: Value::Null,
            reasoning: Value::Null,
            parallel_tool_calls: true,
            temperature: None,
        }
    }
}

impl Settings {
    /// Reads those of a native `message` event. None: the message came another way.
    pub fn of_message(event: &Value) -> Option<Self> {
        Self::deserialize(&event["message"]["attachedContext"][FIELD]).ok()
    }

    /// The names of the client's functions.
    pub fn function_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|tool| tool["name"].as_str())
    }

    /// Returns the response's fields that repeat the request, and those of parameters that the agent decides.
    pub(super) fn repeated(&self) -> Value {
        let text = if self.text.is_null() {
            json!({"format": {"type": "text"}})
        } else {
            self.text.clone()
        };
        json!({
            "model": self.model,
            "instructions": self.instructions,
            "tools": self.tools,
            "tool_choice": "auto",
            "parallel_tool_calls": self.parallel_tool_calls,
            "metadata": if self.metadata.is_null() { json!({}) } else { self.metadata.clone() },
            "background": self.background,
            "text": text,
            "reasoning": self.reasoning,
            "temperature": self.temperature.unwrap_or(SAMPLING_DEFAULT),
            "top_p": SAMPLING_DEFAULT,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "top_logprobs": 0,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "truncation": "disabled",
            "service_tier": "default",
            "safety_identifier": null,
            "prompt_cache_key": null,
            "store": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_message_they_came_with() {
        let settings = Settings {
            model: "helper".into(),
            tools: vec![json!({"type": "function", "name": "look"})],
            ..Settings::default()
        };
        let event = json!({"type": "message", "message": {"attachedContext": {FIELD: settings}}});
        let read = Settings::of_message(&event).unwrap();
        assert_eq!(read, settings);
        assert_eq!(read.function_names().collect::<Vec<_>>(), ["look"]);
        assert_eq!(Settings::of_message(&json!({"message": {"role": "user"}})), None);
    }
}
