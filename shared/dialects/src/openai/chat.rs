//! The renderer of Chat Completions. A stream of it can't be continued: its chunks have no numbers.

use rejoin_chat::WordsMode;
use rejoin_sse::dialects::Renderer;
use serde_json::{Value, json};

use super::changes::{Change, End};
use super::errors;
use super::fold::Fold;
use super::ids::{self, ResponseId};
use super::responses::DONE;

/// Between a text and what follows it that is not part of the same text.
const PARAGRAPH: &str = "\n\n";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Stream {
        includes_usage: bool,
    },
    /// The completion, or the error, as one document at the end.
    Document,
}

/// Renders one completion.
#[derive(Debug)]
pub struct Chat {
    id: ResponseId,
    form: Form,
    fold: Fold,
    /// The text of the answer.
    text: String,
    /// Its length before the text that is being written.
    text_before: usize,
    calls: Vec<Value>,
    finish: Option<&'static str>,
    has_failed: bool,
}

impl Chat {
    pub fn new(id: ResponseId, words: WordsMode, form: Form) -> Self {
        Self {
            id,
            form,
            fold: Fold::new(id, words),
            text: String::new(),
            text_before: 0,
            calls: Vec::new(),
            finish: None,
            has_failed: false,
        }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>, out: &mut Vec<u8>) {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish, "logprobs": null});
        self.send(&json!([choice]), &Value::Null, out);
    }

    fn send(&self, choices: &Value, usage: &Value, out: &mut Vec<u8>) {
        let Form::Stream { includes_usage } = self.form else {
            return;
        };
        let mut chunk = json!({
            "id": self.completion_id(),
            "object": "chat.completion.chunk",
            "created": self.id.created_at(),
            "model": self.fold.settings().model,
            "choices": choices,
        });
        if includes_usage {
            chunk["usage"] = usage.clone();
        }
        out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
    }

    fn completion_id(&self) -> String {
        format!("chatcmpl-{}", self.id.digits())
    }

    fn usage(&self) -> Value {
        let used = self.fold.usage();
        json!({
            "prompt_tokens": used.input,
            "completion_tokens": used.output,
            "total_tokens": used.input + used.output,
            "prompt_tokens_details": {"cached_tokens": used.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": used.reasoning, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
        })
    }

    fn change(&mut self, change: Change<'_>, out: &mut Vec<u8>) {
        match change {
            Change::Created => self.chunk(&json!({"role": "assistant", "content": "", "refusal": null}), None, out),
            Change::Text(text) => {
                self.text.push_str(&text);
                self.chunk(&json!({"content": text}), None, out);
            }
            Change::TextDone(_) => self.text_before = self.text.len(),
            Change::TextAbandoned(_) => {
                self.text.truncate(self.text_before);
                self.chunk(&json!({"content": PARAGRAPH}), None, out);
            }
            Change::Rewritten(text) => {
                self.chunk(&json!({"content": format!("{PARAGRAPH}{text}")}), None, out);
                self.text_before = text.len();
                text.clone_into(&mut self.text);
            }
            Change::Function {
                question,
                name,
                arguments,
            } => {
                let call = json!({"id": ids::call(question), "type": "function",
                    "function": {"name": name, "arguments": arguments}});
                let mut delta = call.clone();
                delta["index"] = json!(self.calls.len());
                self.calls.push(call);
                self.chunk(&json!({"tool_calls": [delta]}), None, out);
            }
            Change::Question(words) | Change::Approval { arguments: words, .. } => {
                // The protocol has neither: the user's next message is the answer in the conversation.
                let separator = if self.text.is_empty() { "" } else { PARAGRAPH };
                let words = format!("{separator}{words}");
                self.text.push_str(&words);
                self.text_before = self.text.len();
                self.chunk(&json!({"content": words}), None, out);
            }
            Change::Waits => self.end(if self.calls.is_empty() { "stop" } else { "tool_calls" }, out),
            Change::Ended(End::Failed) => self.fail(out),
            Change::Ended(End::Paused) => self.end("length", out),
            Change::Ended(End::Completed | End::Cancelled) => self.end("stop", out),
            Change::InProgress
            | Change::Reasoning(_)
            | Change::ReasoningDone
            | Change::CallStarted(_)
            | Change::CallDone { .. } => {}
        }
    }

    fn end(&mut self, finish: &'static str, out: &mut Vec<u8>) {
        self.finish = Some(finish);
        self.chunk(&json!({}), Some(finish), out);
        if self.form == (Form::Stream { includes_usage: true }) {
            self.send(&json!([]), &self.usage(), out);
        }
    }

    fn fail(&mut self, out: &mut Vec<u8>) {
        self.has_failed = true;
        if self.form != Form::Document {
            out.extend_from_slice(format!("data: {}\n\n", self.error()).as_bytes());
        }
    }

    fn error(&self) -> Value {
        let failure = self.fold.failure();
        let (code, message) = failure.map_or(("run_failed", "the run failed"), |failure| {
            (&*failure.code, &*failure.message)
        });
        errors::body(errors::status_of_failure(code), code, message, None)
    }

    fn completion(&self) -> Value {
        if self.has_failed {
            return self.error();
        }
        let mut message = json!({"role": "assistant", "content": self.text, "refusal": null, "annotations": []});
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls);
            if self.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.completion_id(),
            "object": "chat.completion",
            "created": self.id.created_at(),
            "model": self.fold.settings().model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish, "logprobs": null}],
            "usage": self.usage(),
        })
    }
}

impl Renderer for Chat {
    fn render(&mut self, _: i64, event: &Value, out: &mut Vec<u8>) {
        let was_over = self.fold.is_over();
        for change in self.fold.apply(event) {
            self.change(change, out);
        }
        if self.fold.is_over() && !was_over {
            match self.form {
                Form::Stream { .. } => out.extend_from_slice(DONE),
                Form::Document => out.extend_from_slice(self.completion().to_string().as_bytes()),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.fold.is_over()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn rendered(events: &[Value], form: Form) -> String {
        let mut chat = Chat::new(ResponseId::of_run(Uuid::now_v7()), WordsMode::Live, form);
        let mut out = Vec::new();
        for event in events {
            chat.render(1, event, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    fn answer() -> Vec<Value> {
        vec![
            json!({"type": "message", "message": {"role": "user", "content": "Hi"}}),
            json!({"type": "meta", "agent": "helper"}),
            json!({"type": "token", "token": "Hel"}),
            json!({"type": "token", "token": "lo"}),
            json!({"type": "usage", "inputTokens": 3, "outputTokens": 2}),
            json!({"type": "message", "message": {"role": "assistant", "content": "Hello"}}),
            json!({"type": "done", "status": "completed"}),
        ]
    }

    #[test]
    fn a_completion_is_streamed_in_chunks_with_the_usage_last() {
        let text = rendered(&answer(), Form::Stream { includes_usage: true });
        let frames: Vec<&str> = text
            .split_terminator("\n\n")
            .map(|frame| frame.strip_prefix("data: ").unwrap())
            .collect();
        let (done, chunks) = frames.split_last().unwrap();
        assert_eq!(*done, "[DONE]");
        let chunks: Vec<Value> = chunks
            .iter()
            .map(|chunk| serde_json::from_str(chunk).unwrap())
            .collect();
        let words: String = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(words, "Hello");
        let (usage, chunks) = chunks.split_last().unwrap();
        assert_eq!(
            (&usage["choices"], &usage["usage"]["total_tokens"]),
            (&json!([]), &json!(5))
        );
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    }

    #[test]
    fn a_completion_without_a_stream_is_one_document() {
        let completion: Value = serde_json::from_str(&rendered(&answer(), Form::Document)).unwrap();
        assert_eq!(completion["choices"][0]["message"]["content"], "Hello");
        assert_eq!(completion["model"], "helper");
        let mut failed = answer();
        failed.truncate(2);
        failed.push(json!({"type": "error", "error": "no key", "code": "model_key_missing"}));
        failed.push(json!({"type": "done", "status": "failed"}));
        let document = rendered(&failed, Form::Document);
        assert_eq!(errors::status_of_document(document.as_bytes()), Some(500));
    }

    #[test]
    fn calls_of_functions_end_a_completion() {
        let question = Uuid::now_v7();
        let events = [
            json!({"type": "message", "message": {"role": "user", "content": "Hi"}}),
            json!({"type": "question", "questionId": question, "interactionType": "client_tool", "tool": "look", "input": {}}),
            json!({"type": "agent_state", "state": "waiting_on_user", "details": {"questions": 1}}),
        ];
        let completion: Value = serde_json::from_str(&rendered(&events, Form::Document)).unwrap();
        let choice = &completion["choices"][0];
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["content"]),
            (&json!("tool_calls"), &Value::Null)
        );
        assert_eq!(choice["message"]["tool_calls"][0]["id"], ids::call(question));
    }
}
