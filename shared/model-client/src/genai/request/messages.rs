//! The messages of a request in genai's types: reasoning that its provider expects back, ids of tool calls in its
//! format, files behind the results of tools. Called by the request.

use ::genai::adapter::AdapterKind;
use ::genai::chat::{ChatMessage, ContentPart, CustomPart, MessageContent, ToolResponse};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Target;
use crate::genai::parameters::{Parameter, Parameters};
use crate::genai::parts;
use crate::{Message, Reasoning, ReasoningPart, ToolCall};

/// Maximum length of call ids in Chat Completions, in bytes; the Responses API accepts 64.
pub(super) const CALL_ID_MAX_BYTES: usize = 40;
/// Length of a digest that replaces an id, in bytes.
const CALL_ID_DIGEST_BYTES: usize = 16;

impl Target<'_> {
    pub(super) fn messages(
        &self,
        messages: &[Message],
        bound_to: Option<&str>,
        parameters: &mut Parameters,
    ) -> Vec<ChatMessage> {
        let mut chat: Vec<ChatMessage> = Vec::with_capacity(messages.len());
        // Results of parallel calls belong into one message: Anthropic and Gemini require it; genai's Ollama adapter
        // keeps only the last result of a message, so there each one is a separate message.
        let mut results: Vec<ToolResponse> = Vec::new();
        let mut files = Vec::new();
        let turn = messages
            .iter()
            .rposition(|message| matches!(message, Message::User { .. }));
        for (at, message) in messages.iter().enumerate() {
            if !matches!(message, Message::ToolResult { .. }) {
                if !results.is_empty() {
                    chat.push(ChatMessage::from(std::mem::take(&mut results)));
                }
                chat.extend(parts::behind_results(std::mem::take(&mut files)));
            }
            match message {
                Message::User { text, attachments } => chat.push(parts::user(text.clone(), attachments.clone())),
                Message::Assistant {
                    text,
                    tool_calls,
                    reasoning,
                } => {
                    let reasoning = reasoning
                        .as_ref()
                        .filter(|reasoning| reasoning.fits(self.name, bound_to));
                    let is_of_turn = turn.is_none_or(|turn| at > turn);
                    let mut parts = self.thoughts(reasoning, is_of_turn, parameters);
                    let thoughts = parts.len();
                    if !text.is_empty() {
                        parts.push(ContentPart::Text(text.clone()));
                    }
                    let calls = tool_calls.iter().map(|call| self.call(call, reasoning));
                    parts.extend(calls.map(ContentPart::ToolCall));
                    // A step that was stopped before any output; providers reject an empty message.
                    if parts.len() > thoughts {
                        chat.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                    }
                }
                Message::ToolResult {
                    call_id,
                    tool,
                    content,
                    attachments,
                    ..
                } => {
                    files.extend(attachments.iter().cloned());
                    results.push(ToolResponse::new(self.call_id(call_id), content.clone()).with_fn_name(tool.clone()));
                    if self.adapter == AdapterKind::Ollama {
                        chat.push(ChatMessage::from(std::mem::take(&mut results)));
                    }
                }
            }
        }
        if !results.is_empty() {
            chat.push(ChatMessage::from(results));
        }
        chat.extend(parts::behind_results(files));
        chat
    }

    /// Returns the reasoning that the provider expects back, before a message's text and calls.
    fn thoughts(
        &self,
        reasoning: Option<&Reasoning>,
        is_of_turn: bool,
        parameters: &mut Parameters,
    ) -> Vec<ContentPart> {
        let mut parts = Vec::new();
        for part in reasoning.iter().flat_map(|reasoning| &reasoning.parts) {
            match part {
                ReasoningPart::Signed { call: Some(_), .. } => {}
                ReasoningPart::Signed { signature, text, .. } => {
                    parts.push(ContentPart::ThoughtSignature(signature.clone()));
                    parts.extend(text.clone().map(ContentPart::ReasoningContent));
                }
                ReasoningPart::Block { data } => parts.push(ContentPart::Custom(CustomPart {
                    model_iden: None,
                    data: data.clone(),
                })),
                // DeepSeek, Kimi and similar servers expect the reasoning of this turn verbatim. OpenAI has no such
                // field.
                ReasoningPart::Text { text } => {
                    if self.is_own_server && is_of_turn && !self.refuses(Parameter::ReasoningContent) {
                        parameters.add(Parameter::ReasoningContent);
                        parts.push(ContentPart::ReasoningContent(text.clone()));
                    }
                }
            }
        }
        parts
    }

    pub(super) fn call(&self, call: &ToolCall, reasoning: Option<&Reasoning>) -> ::genai::chat::ToolCall {
        let parts = reasoning.iter().flat_map(|reasoning| &reasoning.parts);
        let signatures: Vec<String> = parts
            .filter_map(|part| match part {
                ReasoningPart::Signed {
                    signature,
                    call: Some(id),
                    ..
                } if *id == call.id => Some(signature.clone()),
                ReasoningPart::Signed { .. } | ReasoningPart::Text { .. } | ReasoningPart::Block { .. } => None,
            })
            .collect();
        ::genai::chat::ToolCall {
            call_id: self.call_id(&call.id),
            fn_name: call.name.clone(),
            // Providers reject arguments that are not an object, and with them every later step of the run.
            fn_arguments: match &call.arguments {
                Value::Object(map) => Value::Object(map.clone()),
                Value::Null => json!({}),
                other => json!({ "invalid_arguments": other }),
            },
            thought_signatures: (!signatures.is_empty()).then_some(signatures),
        }
    }

    /// Returns a call's id in this provider's format. The id may come from another provider of the same run.
    pub(super) fn call_id(&self, id: &str) -> String {
        let is_plain = |id: &str| {
            (1..=CALL_ID_MAX_BYTES).contains(&id.len())
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        let takes_any = match self.adapter {
            // Its own ids are sent back unchanged, and genai's placeholder as none.
            AdapterKind::Gemini => true,
            AdapterKind::Vertex => !self.is_claude(),
            AdapterKind::OpenAI | AdapterKind::Ollama => self.is_own_server,
            _ => false,
        };
        if takes_any || is_plain(id) {
            return id.to_owned();
        }
        let digest = Sha256::digest(id.as_bytes());
        let hex: String = digest
            .iter()
            .take(CALL_ID_DIGEST_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("call_{hex}")
    }
}
