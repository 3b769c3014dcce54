//! What an MCP server answers, as a tool's result: words and data for the model, without what no model can read. Called by `connection`.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, Tool};
use serde_json::{Value, json};

use rejoin_shared::mcp::offers::Found;

/// Of the words in an error [characters].
const ERROR_MAX_CHARS: usize = 4_000;

/// Words of an error, as many as are told. Secrets are hidden before: no half of one is left.
pub fn cut(words: String) -> String {
    match words.char_indices().nth(ERROR_MAX_CHARS) {
        Some((end, _)) => words[..end].to_owned(),
        None => words,
    }
}

/// Err: the tool says that it failed, in its words.
pub fn of(result: CallToolResult) -> Result<Value, String> {
    if result.is_error == Some(true) {
        let words: Vec<&str> = result.content.iter().filter_map(text).collect();
        let words = match words.is_empty() {
            true => "the tool failed and did not say why".to_owned(),
            false => words.join("\n"),
        };
        return Err(words);
    }
    // What is structured is said again in words, for clients that know no better.
    if let Some(structured) = result.structured_content {
        let others: Vec<Value> = result
            .content
            .iter()
            .filter(|block| text(block).is_none())
            .map(block)
            .collect();
        return Ok(match others.is_empty() {
            true => structured,
            false => json!({"result": structured, "content": others}),
        });
    }
    Ok(match result.content.as_slice() {
        [] => Value::Null,
        [one] => match text(one) {
            Some(words) => Value::String(words.to_owned()),
            None => block(one),
        },
        several => json!({"content": several.iter().map(block).collect::<Vec<_>>()}),
    })
}

fn text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

fn block(block: &ContentBlock) -> Value {
    // Three quarters of base64 are data.
    let bytes = |data: &str| data.len() / 4 * 3;
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text.text}),
        ContentBlock::Image(image) => {
            json!({"type": "image", "mimeType": image.mime_type, "bytes": bytes(&image.data)})
        }
        ContentBlock::Audio(audio) => {
            json!({"type": "audio", "mimeType": audio.mime_type, "bytes": bytes(&audio.data)})
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                json!({"type": "resource", "uri": uri, "text": text})
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                json!({"type": "resource", "uri": uri, "bytes": bytes(blob)})
            }
            _ => json!({"type": "resource"}),
        },
        ContentBlock::ResourceLink(link) => json!({"type": "resource_link", "uri": link.uri, "name": link.name}),
        _ => json!({"type": "unknown"}),
    }
}

/// What is pinned of a tool.
pub fn found(tool: Tool) -> Found {
    let mut definition = json!({
        "description": tool.description,
        "inputSchema": tool.input_schema,
    });
    if let Some(annotations) = tool.annotations {
        definition["annotations"] = json!(annotations);
    }
    Found {
        name: tool.name.into_owned(),
        definition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn words_stay_words_and_data_stays_data() {
        let one = json!({"content": [{"type": "text", "text": "4"}]});
        assert_eq!(of(result(one)), Ok(json!("4")));
        let structured = json!({"content": [{"type": "text", "text": "{\"sum\":4}"}], "structuredContent": {"sum": 4}});
        assert_eq!(of(result(structured)), Ok(json!({"sum": 4})));
        let picture = json!({"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]});
        assert_eq!(
            of(result(picture)).unwrap()["content"][1],
            json!({"type": "image", "mimeType": "image/png", "bytes": 3})
        );
        assert_eq!(of(result(json!({"content": []}))), Ok(Value::Null));
    }

    #[test]
    fn a_failure_is_told_in_the_tools_own_words() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(of(result(failed)), Err("no such file".to_owned()));
        assert!(of(result(json!({"content": [], "isError": true}))).is_err());
        assert_eq!(cut("é".repeat(ERROR_MAX_CHARS + 1)), "é".repeat(ERROR_MAX_CHARS));
        assert_eq!(cut("short".to_owned()), "short");
    }
}
