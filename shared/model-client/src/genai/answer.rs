//! Converts a provider's stream to our chunks.
//!
//! Invariant: it ends with [`Chunk::End`] only if the provider reported a complete answer, and otherwise with exactly
//! one error. genai is less strict: for Gemini it invents an end when the connection closes, so the stop reason is
//! checked here.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ::genai::adapter::AdapterKind;
use ::genai::chat::{ChatStreamEvent, ContentPart, StopReason, StreamEnd};
use futures::StreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use super::errors::ErrorContext;
use super::openrouter::Blocks;
use super::wire::Upstream;
use crate::{Chunk, Finish, Message, ModelError, Reasoning, ReasoningPart, ToolCall, Usage};

/// An answer in progress. `upstream` is dropped (which closes the connection) with the last item.
pub(super) struct Answer {
    upstream: Option<Upstream>,
    ready: VecDeque<Chunk>,
    said_something: bool,
    /// Ids of the run's earlier tool calls; providers without ids would repeat theirs.
    used_ids: HashSet<String>,
    adapter: AdapterKind,
    idle_timeout: Duration,
    /// What its reasoning is tied to.
    bound_to: Option<String>,
    /// Reasoning that genai does not collect.
    blocks: Blocks,
    context: Arc<ErrorContext>,
}

impl Answer {
    pub(super) fn new(
        upstream: Upstream,
        adapter: AdapterKind,
        messages: &[Message],
        idle_timeout: Duration,
        (bound_to, blocks): (Option<String>, Blocks),
        context: Arc<ErrorContext>,
    ) -> Self {
        Self {
            blocks,
            upstream: Some(upstream),
            ready: VecDeque::new(),
            said_something: false,
            used_ids: used_call_ids(messages),
            adapter,
            idle_timeout,
            bound_to,
            context,
        }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Chunk, ModelError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            let upstream = self.upstream.as_mut()?;
            let event = match tokio::time::timeout(self.idle_timeout, upstream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return self.fail(self.context.classify(&error)),
                Ok(None) => return self.fail(self.context.cut()),
                Err(_) => return self.fail(self.context.silent(self.idle_timeout)),
            };
            if let Err(error) = self.take(event) {
                return self.fail(error);
            }
        }
    }

    /// Processes an event of the stream; queues its chunks.
    pub(super) fn take(&mut self, event: ChatStreamEvent) -> Result<(), ModelError> {
        match event {
            ChatStreamEvent::Chunk(piece) if !piece.content.is_empty() => {
                self.said_something = true;
                self.ready.push_back(Chunk::Text(piece.content));
            }
            ChatStreamEvent::ReasoningChunk(piece) if !piece.content.is_empty() => {
                self.ready.push_back(Chunk::Reasoning(piece.content));
            }
            ChatStreamEvent::End(end) => {
                self.finish(end)?;
                self.upstream = None;
            }
            // Partial tool calls and signatures: genai returns complete ones at the end.
            ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::Chunk(_)
            | ChatStreamEvent::ReasoningChunk(_)
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::Heartbeat
            | ChatStreamEvent::Start => {}
        }
        Ok(())
    }

    fn fail(&mut self, error: ModelError) -> Option<Result<Chunk, ModelError>> {
        self.upstream = None;
        Some(Err(error))
    }

    /// Queues the tool calls and the end, or explains why the answer is incomplete.
    fn finish(&mut self, end: StreamEnd) -> Result<(), ModelError> {
        // genai ends these streams when the connection closes.
        let made_up =
            matches!(self.adapter, AdapterKind::Gemini | AdapterKind::Vertex) && end.captured_stop_reason.is_none();
        if made_up {
            return Err(self.context.cut());
        }
        let usage = end.captured_usage.as_ref().map(usage).unwrap_or_default();
        let (mut parts, mut calls) = (Vec::new(), Vec::new());
        for part in end
            .captured_content
            .into_iter()
            .flat_map(|content| content.into_parts())
        {
            match part {
                ContentPart::ThoughtSignature(signature) => parts.push(ReasoningPart::Signed {
                    signature,
                    text: None,
                    call: None,
                }),
                // genai puts the signed content after its signature.
                ContentPart::ReasoningContent(reasoning) => match parts.last_mut() {
                    Some(ReasoningPart::Signed { text, .. }) if text.is_none() => *text = Some(reasoning),
                    Some(_) | None => parts.push(ReasoningPart::Text { text: reasoning }),
                },
                ContentPart::Custom(custom) => parts.push(ReasoningPart::Block { data: custom.data }),
                ContentPart::ToolCall(call) => calls.push(call),
                ContentPart::Text(_) | ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
            }
        }
        if parts.is_empty()
            && let Some(text) = end.captured_reasoning_content.filter(|text| !text.is_empty())
            && matches!(self.adapter, AdapterKind::OpenAI | AdapterKind::Ollama)
        {
            parts.push(ReasoningPart::Text { text });
        }
        parts.extend(self.blocks.take().into_iter().map(|data| ReasoningPart::Block { data }));
        let calls = self.tool_calls(calls, &mut parts)?;
        let finish = match end.captured_stop_reason {
            Some(StopReason::MaxTokens(_)) => Finish::Length,
            Some(StopReason::ContentFilter(_)) => Finish::ContentFilter,
            Some(StopReason::ToolCall(_)) if calls.is_empty() => {
                return Err(self.context.protocol("it stopped for a tool call but named no tool"));
            }
            Some(StopReason::Other(word)) if calls.is_empty() && !self.said_something => {
                return Err(self
                    .context
                    .protocol(&format!("it stopped with `{word}` and returned no content")));
            }
            Some(
                StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) | StopReason::Other(_),
            )
            | None => {
                if calls.is_empty() {
                    Finish::Stop
                } else {
                    Finish::ToolCalls
                }
            }
        };
        self.ready.extend(calls.into_iter().map(Chunk::ToolCall));
        self.ready.push_back(Chunk::End {
            usage,
            finish,
            reasoning: Reasoning::of(self.context.name.to_string(), parts).map(|reasoning| Reasoning {
                bound_to: self.bound_to.take(),
                ..reasoning
            }),
        });
        Ok(())
    }

    /// Returns the calls with ids that are unique in their run; their signatures are added to the reasoning.
    fn tool_calls(
        &mut self,
        mut calls: Vec<::genai::chat::ToolCall>,
        parts: &mut Vec<ReasoningPart>,
    ) -> Result<Vec<ToolCall>, ModelError> {
        if matches!(self.adapter, AdapterKind::OpenAI | AdapterKind::OpenRouter) {
            // If a server counts its calls from 1, genai fills the gap with a copy of the next call's first part.
            let ids: Vec<String> = calls.iter().map(|call| call.call_id.clone()).collect();
            let mut position = 0;
            calls.retain(|call| {
                position += 1;
                call.call_id.is_empty() || ids.get(position) != Some(&call.call_id)
            });
        }
        let of_message: HashSet<String> = parts
            .iter()
            .filter_map(|part| match part {
                ReasoningPart::Signed { signature, .. } => Some(signature.clone()),
                ReasoningPart::Text { .. } | ReasoningPart::Block { .. } => None,
            })
            .collect();
        let mut made = Vec::with_capacity(calls.len());
        for call in calls {
            if call.fn_name.is_empty() {
                return Err(self.context.protocol("a tool call has no name"));
            }
            let id = self.unique_id(call.call_id, &call.fn_name);
            // genai repeats the message's signatures at its first call.
            let own = call.thought_signatures.into_iter().flatten();
            parts.extend(
                own.filter(|signature| !of_message.contains(signature))
                    .map(|signature| ReasoningPart::Signed {
                        signature,
                        text: None,
                        call: Some(id.clone()),
                    }),
            );
            made.push(ToolCall {
                id,
                arguments: match call.fn_arguments {
                    // A call without arguments: some providers send nothing instead of `{}`.
                    Value::Null => json!({}),
                    Value::String(text) if text.trim().is_empty() => json!({}),
                    other => other,
                },
                name: call.fn_name,
            });
        }
        Ok(made)
    }

    fn unique_id(&mut self, id: String, tool: &str) -> String {
        let id = if !id.is_empty() && !self.used_ids.contains(&id) {
            id
        } else {
            match self.adapter {
                // genai's placeholder for "Gemini gave no id", which it does not send back. The number makes it unique.
                AdapterKind::Gemini | AdapterKind::Vertex => (self.used_ids.len()..)
                    .map(|number| format!("call#{tool}#{number}"))
                    .find(|id| !self.used_ids.contains(id))
                    .unwrap_or(id),
                _ => format!("call_{}", Uuid::now_v7().simple()),
            }
        };
        self.used_ids.insert(id.clone());
        id
    }
}

/// genai counts like OpenAI: cached tokens are part of the prompt, reasoning of the answer.
fn usage(counted: &::genai::chat::Usage) -> Usage {
    let tokens = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    let of_prompt = counted.prompt_tokens_details.as_ref();
    let of_answer = counted.completion_tokens_details.as_ref();
    let reasoning_tokens = tokens(of_answer.and_then(|details| details.reasoning_tokens));
    Usage {
        input_tokens: tokens(counted.prompt_tokens),
        // An answer that consists of reasoning only is counted as that.
        output_tokens: tokens(counted.completion_tokens).max(reasoning_tokens),
        cached_tokens: tokens(of_prompt.and_then(|details| details.cached_tokens)),
        cache_write_tokens: tokens(of_prompt.and_then(|details| details.cache_creation_tokens)),
        reasoning_tokens,
    }
}

fn used_call_ids(messages: &[Message]) -> HashSet<String> {
    messages
        .iter()
        .flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            Message::User { .. } | Message::ToolResult { .. } => &[],
        })
        .map(|call| call.id.clone())
        .collect()
}
