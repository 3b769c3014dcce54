//! Converts the events of an answer to genai's. <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html>
//!
//! Invariant: an answer ends only after `messageStop`; the token counts follow it, in `metadata`.

use std::collections::VecDeque;

use ::genai::chat::{
    ChatStreamEvent, ContentPart, MessageContent, PromptTokensDetails, StopReason, StreamChunk, StreamEnd, ToolCall,
    Usage,
};
use ::genai::{Error as GenaiError, ModelIden, Result as GenaiResult};
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use super::frames::{Frame, Frames};
use crate::genai::wire::{Bytes, Upstream, broken_off};

struct Reader {
    bytes: Bytes,
    model: ModelIden,
    frames: Frames,
    ready: VecDeque<GenaiResult<ChatStreamEvent>>,
    answer: Answer,
    is_over: bool,
}

/// The parts that have arrived.
#[derive(Default)]
struct Answer {
    reasoning: Reasoning,
    /// The call that is arriving: id, name, and the arguments so far.
    call: Option<(String, String, String)>,
    parts: Vec<ContentPart>,
    calls: Vec<ContentPart>,
    stop: Option<String>,
    usage: Option<Usage>,
}

/// A block of reasoning.
#[derive(Default)]
struct Reasoning {
    text: String,
    signature: String,
    redacted: String,
}

pub(super) fn read(bytes: Bytes, model: ModelIden) -> Upstream {
    let reader = Reader {
        bytes,
        model,
        frames: Frames::default(),
        ready: VecDeque::from([Ok(ChatStreamEvent::Start)]),
        answer: Answer::default(),
        is_over: false,
    };
    stream::unfold(reader, |mut reader| async move {
        reader.next().await.map(|item| (item, reader))
    })
    .boxed()
}

impl Reader {
    async fn next(&mut self) -> Option<GenaiResult<ChatStreamEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            match self.frames.next() {
                Ok(Some(frame)) => self.take(&frame),
                Ok(None) => match self.bytes.next().await {
                    Some(Ok(bytes)) => self.frames.extend(&bytes),
                    Some(Err(error)) => self.fail(broken_off(error, &self.model)),
                    // Without token counts: the connection closed after the answer.
                    None if self.answer.stop.is_some() => self.end(),
                    None => self.is_over = true,
                },
                Err(what) => self.fail(self.broken(json!({"error": {"message": what}}))),
            }
        }
    }

    fn broken(&self, body: Value) -> GenaiError {
        GenaiError::ChatResponse {
            model_iden: self.model.clone(),
            body,
        }
    }

    fn fail(&mut self, error: GenaiError) {
        self.is_over = true;
        self.ready.push_back(Err(error));
    }

    fn end(&mut self) {
        self.is_over = true;
        let end = std::mem::take(&mut self.answer).end();
        self.ready.push_back(Ok(ChatStreamEvent::End(end)));
    }

    fn take(&mut self, frame: &Frame) {
        let payload: Value = match serde_json::from_slice(&frame.payload) {
            Ok(payload) => payload,
            Err(serde_error) => {
                return self.fail(GenaiError::StreamParse {
                    model_iden: self.model.clone(),
                    serde_error,
                });
            }
        };
        if frame.is_exception {
            let body = json!({"error": {"type": frame.name, "message": payload["message"]}});
            return self.fail(self.broken(body));
        }
        if let Some(event) = self.answer.take(&frame.name, &payload) {
            self.ready.push_back(Ok(event));
        }
        if frame.name == "metadata" && self.answer.stop.is_some() {
            self.end();
        }
    }
}

impl Answer {
    fn take(&mut self, event: &str, payload: &Value) -> Option<ChatStreamEvent> {
        let text = |path: &str| payload.pointer(path).and_then(Value::as_str).map(str::to_owned);
        match event {
            "contentBlockStart" => {
                let id = text("/start/toolUse/toolUseId");
                if let (Some(id), Some(name)) = (id, text("/start/toolUse/name")) {
                    self.call = Some((id, name, String::new()));
                }
            }
            "contentBlockDelta" => {
                if let Some(content) = text("/delta/text") {
                    return Some(ChatStreamEvent::Chunk(StreamChunk { content }));
                }
                if let (Some(part), Some((_, _, arguments))) = (text("/delta/toolUse/input"), &mut self.call) {
                    arguments.push_str(&part);
                }
                if let Some(signature) = text("/delta/reasoningContent/signature") {
                    self.reasoning.signature.push_str(&signature);
                }
                if let Some(redacted) = text("/delta/reasoningContent/redactedContent") {
                    self.reasoning.redacted.push_str(&redacted);
                }
                if let Some(content) = text("/delta/reasoningContent/text") {
                    self.reasoning.text.push_str(&content);
                    return Some(ChatStreamEvent::ReasoningChunk(StreamChunk { content }));
                }
            }
            "contentBlockStop" => self.close(),
            "messageStop" => self.stop = text("/stopReason"),
            "metadata" => self.usage = Some(usage(&payload["usage"])),
            // `messageStart` has no content; unknown events are ignored.
            _ => {}
        }
        None
    }

    /// The end of a block.
    fn close(&mut self) {
        let Reasoning {
            text,
            signature,
            redacted,
        } = std::mem::take(&mut self.reasoning);
        if !signature.is_empty() {
            self.parts.push(ContentPart::ThoughtSignature(signature));
            self.parts.push(ContentPart::ReasoningContent(text));
        } else if !redacted.is_empty() {
            self.parts.push(ContentPart::ThoughtSignature(redacted));
        }
        if let Some((call_id, fn_name, arguments)) = self.call.take() {
            // Arguments that are not JSON stay as they are: the tool's validation reports them to the model.
            let fn_arguments = match arguments.trim() {
                "" => Value::Null,
                text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            };
            self.calls.push(ContentPart::ToolCall(ToolCall {
                call_id,
                fn_name,
                fn_arguments,
                thought_signatures: None,
            }));
        }
    }

    fn end(mut self) -> StreamEnd {
        self.parts.append(&mut self.calls);
        let stop = self.stop.map(|word| match word.as_str() {
            "content_filtered" | "guardrail_intervened" => StopReason::ContentFilter(word),
            _ => StopReason::from(word),
        });
        StreamEnd {
            captured_usage: self.usage,
            captured_stop_reason: stop,
            captured_content: (!self.parts.is_empty()).then(|| MessageContent::from_parts(self.parts)),
            captured_reasoning_content: None,
            captured_response_id: None,
        }
    }
}

/// Counts like OpenAI: tokens read from or written to a cache are part of the prompt. Bedrock's `inputTokens` exclude them.
/// <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>
fn usage(counted: &Value) -> Usage {
    let tokens = |name: &str| counted[name].as_i64().and_then(|tokens| i32::try_from(tokens).ok());
    let (read, written) = (tokens("cacheReadInputTokens"), tokens("cacheWriteInputTokens"));
    let all = [tokens("inputTokens"), read, written].into_iter().flatten();
    Usage {
        prompt_tokens: Some(all.fold(0, i32::saturating_add)),
        prompt_tokens_details: Some(PromptTokensDetails {
            cache_creation_tokens: written,
            cached_tokens: read,
            ..PromptTokensDetails::default()
        }),
        completion_tokens: tokens("outputTokens"),
        total_tokens: tokens("totalTokens"),
        ..Usage::default()
    }
}
