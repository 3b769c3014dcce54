//! Output: the complete response, and typed events.
//! <https://developers.openai.com/api/reference/resources/responses/streaming-events>

use serde_json::{Value, json};

use crate::answer::{Answer, Reasoning, argument_parts, pieces};
use crate::chat::CREATED;
use crate::turn::Stop;

/// Returns an answer's items as stored, and as in `output`.
pub(crate) fn output(answer: &Answer) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    items.extend(answer.reasoning.as_ref().map(reasoning_item));
    if !answer.text.is_empty() {
        items.push(message_item(answer, "completed", json!([text_part(&answer.text)])));
    }
    for call in &answer.calls {
        items.push(json!({
            "id": call.item,
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments.to_string(),
        }));
    }
    items
}

fn reasoning_item(reasoning: &Reasoning) -> Value {
    let summary = if reasoning.shown.is_empty() {
        json!([])
    } else {
        json!([{"type": "summary_text", "text": reasoning.shown}])
    };
    let mut item = json!({"id": reasoning.id, "type": "reasoning", "summary": summary});
    if let Some(encrypted) = &reasoning.signature {
        item["encrypted_content"] = json!(encrypted);
    }
    item
}

/// The id of the answer's text.
pub(crate) fn message_id(answer: &Answer) -> String {
    format!("msg_{:048x}", answer.number)
}

fn message_item(answer: &Answer, status: &str, content: Value) -> Value {
    json!({"id": message_id(answer), "type": "message", "status": status, "role": "assistant", "content": content})
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(crate) fn response_id(answer: &Answer) -> String {
    format!("resp_{:048x}", answer.number)
}

pub(crate) fn whole(answer: &Answer, body: &Value) -> Value {
    let mut response = response(answer, body, status(answer), Value::Array(output(answer)));
    response["usage"] = usage(answer);
    response
}

fn status(answer: &Answer) -> &'static str {
    if answer.stop.is_some() {
        "incomplete"
    } else {
        "completed"
    }
}

fn response(answer: &Answer, body: &Value, status: &str, output: Value) -> Value {
    let incomplete = match (status, answer.stop) {
        ("incomplete", Some(Stop::Length)) => json!({"reason": "max_output_tokens"}),
        ("incomplete", Some(Stop::Filtered)) => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let or = |value: &Value, other: Value| if value.is_null() { other } else { value.clone() };
    json!({
        "id": response_id(answer),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": body["instructions"],
        "max_output_tokens": body["max_output_tokens"],
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": or(&body["parallel_tool_calls"], json!(true)),
        "previous_response_id": body["previous_response_id"],
        "reasoning": {"effort": body["reasoning"]["effort"], "summary": body["reasoning"]["summary"]},
        "store": or(&body["store"], json!(true)),
        "temperature": or(&body["temperature"], json!(1.0)),
        "text": or(&body["text"], json!({"format": {"type": "text"}})),
        "tool_choice": or(&body["tool_choice"], json!("auto")),
        "tools": or(&body["tools"], json!([])),
        "top_p": or(&body["top_p"], json!(1.0)),
        "truncation": "disabled",
        "usage": null,
        "user": null,
        "metadata": or(&body["metadata"], json!({})),
    })
}

fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": tokens.input + tokens.output,
    })
}

/// Typed events with sequence numbers.
struct Events {
    frames: Vec<String>,
}

impl Events {
    fn push(&mut self, name: &str, data: Value) {
        let mut data = data;
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.frames.len());
        self.frames.push(format!("event: {name}\ndata: {data}\n\n"));
    }
}

/// The events of the stream.
/// <https://developers.openai.com/api/reference/resources/responses/streaming-events>
pub(crate) fn frames(answer: &Answer, body: &Value) -> Vec<String> {
    let mut events = Events { frames: Vec::new() };
    let begun = response(answer, body, "in_progress", json!([]));
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    let mut index = 0;
    if let Some(reasoning) = &answer.reasoning {
        reasoning_events(&mut events, reasoning, index);
        index += 1;
    }
    if !answer.text.is_empty() {
        let id = message_id(answer);
        let at = json!({"item_id": id, "output_index": index, "content_index": 0});
        let with = |more: Value| merged(&at, more);
        events.push(
            "response.output_item.added",
            json!({"output_index": index, "item": message_item(answer, "in_progress", json!([]))}),
        );
        events.push("response.content_part.added", with(json!({"part": text_part("")})));
        for word in answer.words() {
            events.push(
                "response.output_text.delta",
                with(json!({"delta": word, "logprobs": []})),
            );
        }
        events.push(
            "response.output_text.done",
            with(json!({"text": answer.text, "logprobs": []})),
        );
        events.push(
            "response.content_part.done",
            with(json!({"part": text_part(&answer.text)})),
        );
        events.push(
            "response.output_item.done",
            json!({"output_index": index, "item": message_item(answer, "completed", json!([text_part(&answer.text)]))}),
        );
        index += 1;
    }
    for call in &answer.calls {
        let item = |status: &str, arguments: &str| {
            json!({
                "id": call.item,
                "type": "function_call",
                "status": status,
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments,
            })
        };
        let arguments = call.arguments.to_string();
        let at = json!({"item_id": call.item, "output_index": index});
        events.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item("in_progress", "")}),
        );
        for part in argument_parts(&call.arguments) {
            events.push(
                "response.function_call_arguments.delta",
                merged(&at, json!({"delta": part})),
            );
        }
        events.push(
            "response.function_call_arguments.done",
            merged(&at, json!({"arguments": arguments, "name": call.name})),
        );
        events.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item("completed", &arguments)}),
        );
        index += 1;
    }
    let last = format!("response.{}", status(answer));
    events.push(&last, json!({"response": whole(answer, body)}));
    events.frames
}

fn reasoning_events(events: &mut Events, reasoning: &Reasoning, index: usize) {
    let begun = json!({"id": reasoning.id, "type": "reasoning", "summary": []});
    events.push(
        "response.output_item.added",
        json!({"output_index": index, "item": begun}),
    );
    if !reasoning.shown.is_empty() {
        let at = json!({"item_id": reasoning.id, "output_index": index, "summary_index": 0});
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        events.push(
            "response.reasoning_summary_part.added",
            merged(&at, json!({"part": part("")})),
        );
        for word in pieces(&reasoning.shown) {
            events.push(
                "response.reasoning_summary_text.delta",
                merged(&at, json!({"delta": word})),
            );
        }
        events.push(
            "response.reasoning_summary_text.done",
            merged(&at, json!({"text": reasoning.shown})),
        );
        events.push(
            "response.reasoning_summary_part.done",
            merged(&at, json!({"part": part(&reasoning.shown)})),
        );
    }
    events.push(
        "response.output_item.done",
        json!({"output_index": index, "item": reasoning_item(reasoning)}),
    );
}

fn merged(base: &Value, more: Value) -> Value {
    let mut all = base.clone();
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

/// An error in the middle of a stream; the same page, `error`.
pub(crate) fn error_event() -> String {
    let data = json!({
        "type": "error",
        "code": "server_error",
        "message": "The server had an error while processing your request.",
        "param": null,
        "sequence_number": 0,
    });
    format!("event: error\ndata: {data}\n\n")
}
