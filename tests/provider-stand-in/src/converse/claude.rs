//! A request of Converse as Anthropic's Messages: what Claude takes is the same at both.
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html>

use serde_json::{Map, Value, json};

use crate::plan::list;

/// Where a request has no limit: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html>, "the
/// default value is the maximum allowed value for the model"; any value does here.
const MAX_TOKENS: u64 = 4_096;

pub(super) fn translated(model: &str, body: &Value) -> Value {
    let config = &body["inferenceConfig"];
    let mut request = json!({
        "model": model,
        "max_tokens": config["maxTokens"].as_u64().unwrap_or(MAX_TOKENS),
        "messages": list(body, "messages").iter().map(message).collect::<Vec<Value>>(),
    });
    for (ours, theirs) in [
        ("temperature", "temperature"),
        ("topP", "top_p"),
        ("stopSequences", "stop_sequences"),
    ] {
        if !config[ours].is_null() {
            request[theirs] = config[ours].clone();
        }
    }
    if !list(body, "system").is_empty() {
        request["system"] = Value::Array(marked(
            list(body, "system"),
            |block| json!({"type": "text", "text": block["text"]}),
        ));
    }
    let tools = &body["toolConfig"];
    if !list(tools, "tools").is_empty() {
        request["tools"] = Value::Array(marked(list(tools, "tools"), |tool| tool_of(&tool["toolSpec"])));
    }
    let choice = tools["toolChoice"].as_object().into_iter().flatten().next();
    if let Some((kind, value)) = choice {
        request["tool_choice"] = match kind.as_str() {
            "tool" => json!({"type": "tool", "name": value["name"]}),
            other => json!({"type": other}),
        };
    }
    // "Include inference parameters that are not in inferenceConfig": as they are.
    for (name, value) in body["additionalModelRequestFields"].as_object().into_iter().flatten() {
        request[name.as_str()] = value.clone();
    }
    request
}

/// Blocks, where a cache point becomes a mark on the block before it.
/// <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>
fn marked(blocks: &[Value], translate: impl Fn(&Value) -> Value) -> Vec<Value> {
    let mut translated: Vec<Value> = Vec::new();
    for block in blocks {
        match (&block["cachePoint"], translated.last_mut()) {
            (Value::Null, _) => translated.push(translate(block)),
            (point, Some(last)) => {
                last["cache_control"] = json!({"type": "ephemeral"});
                if !point["ttl"].is_null() {
                    last["cache_control"]["ttl"] = point["ttl"].clone();
                }
            }
            // A cache point before anything: Anthropic has no place for it.
            (_, None) => translated.push(json!({"type": "cachePoint"})),
        }
    }
    translated
}

fn tool_of(spec: &Value) -> Value {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), spec["name"].clone());
    tool.insert("input_schema".to_owned(), spec["inputSchema"]["json"].clone());
    if !spec["description"].is_null() {
        tool.insert("description".to_owned(), spec["description"].clone());
    }
    Value::Object(tool)
}

fn message(message: &Value) -> Value {
    json!({"role": message["role"], "content": marked(list(message, "content"), block)})
}

fn block(block: &Value) -> Value {
    let Some((kind, value)) = block.as_object().into_iter().flatten().next() else {
        return Value::Null;
    };
    match kind.as_str() {
        "text" => json!({"type": "text", "text": value}),
        "image" => medium(
            "image",
            &format!("image/{}", value["format"].as_str().unwrap_or_default()),
            value,
        ),
        "document" => medium("document", "application/pdf", value),
        "toolUse" => {
            json!({"type": "tool_use", "id": value["toolUseId"], "name": value["name"], "input": value["input"]})
        }
        "toolResult" => {
            let content: Vec<Value> = list(value, "content")
                .iter()
                .map(|part| match part.get("json") {
                    Some(json) => json!({"type": "text", "text": json.to_string()}),
                    None => self::block(part),
                })
                .collect();
            json!({
                "type": "tool_result",
                "tool_use_id": value["toolUseId"],
                "content": content,
                "is_error": value["status"] == "error",
            })
        }
        "reasoningContent" => match value["redactedContent"].as_str() {
            Some(data) => json!({"type": "redacted_thinking", "data": data}),
            None => json!({
                "type": "thinking",
                "thinking": value["reasoningText"]["text"],
                "signature": value["reasoningText"]["signature"],
            }),
        },
        other => json!({"type": other}),
    }
}

fn medium(kind: &str, media_type: &str, value: &Value) -> Value {
    json!({
        "type": kind,
        "source": {"type": "base64", "media_type": media_type, "data": value["source"]["bytes"]},
    })
}
