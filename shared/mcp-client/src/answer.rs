//! Converts an MCP server's answer to a tool result: text and data for the model. Images, audio and other binary
//! content are stored as files, which the result names. Called by `connection`.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, Tool};
use serde_json::{Value, json};

use rejoin_integrations::mcp::offers::DiscoveredTool;
use rejoin_types::file_ref::FileRef;

/// Maximum number of files stored from one answer.
const FILES_MAX: usize = 20;

/// Binary content of an answer.
pub struct Part {
    /// If the server gives one.
    pub name: Option<String>,
    /// As declared by the server.
    pub media_type: String,
    /// The decoded bytes.
    pub content: Vec<u8>,
}

/// Stores binary content of answers as files.
#[async_trait]
pub trait Keep: Send + Sync {
    /// Stores one part. Err: why it is not stored, in words.
    async fn keep(&self, part: Part) -> Result<FileRef, String>;
}

/// The stored file of a block, if it has binary content.
type Kept = Option<Result<FileRef, String>>;

/// Stores the binary content of an answer, block by block.
pub(crate) async fn keep(result: &CallToolResult, keep: &dyn Keep) -> Vec<Kept> {
    let mut kept = Vec::with_capacity(result.content.len());
    let mut files = 0;
    for block in &result.content {
        kept.push(match encoded(block) {
            None => None,
            Some(_) if files == FILES_MAX => Some(Err(format!("a result can have at most {FILES_MAX} files"))),
            Some((data, media_type, name)) => {
                files += 1;
                match STANDARD.decode(data) {
                    Ok(content) => Some(
                        keep.keep(Part {
                            name,
                            media_type: media_type.to_owned(),
                            content,
                        })
                        .await,
                    ),
                    Err(_) => Some(Err("its content is not base64".to_owned())),
                }
            }
        });
    }
    kept
}

/// Returns the binary content of a block as base64, with its type and name.
fn encoded(block: &ContentBlock) -> Option<(&str, &str, Option<String>)> {
    match block {
        ContentBlock::Image(image) => Some((&image.data, &image.mime_type, None)),
        ContentBlock::Audio(audio) => Some((&audio.data, &audio.mime_type, None)),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => {
                let path = uri.split(['?', '#']).next().unwrap_or_default();
                let name = path.rsplit('/').next().filter(|name| !name.is_empty());
                Some((blob, mime_type.as_deref().unwrap_or_default(), name.map(str::to_owned)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Maximum length of an error's text, in characters.
const ERROR_MAX_CHARS: usize = 4_000;

/// Truncates an error's text. Secrets are redacted before, so that no part of one remains.
pub(crate) fn cut(words: String) -> String {
    match words.char_indices().nth(ERROR_MAX_CHARS) {
        Some((end, _)) => words[..end].to_owned(),
        None => words,
    }
}

/// Converts an answer with its stored files, as returned by [`keep`]; without them, the model gets their sizes. Err:
/// the tool reports a failure, in its words.
pub(crate) fn of(result: CallToolResult, kept: &[Kept]) -> Result<Value, String> {
    if result.is_error == Some(true) {
        let words: Vec<&str> = result.content.iter().filter_map(text).collect();
        let words = if words.is_empty() {
            "the tool failed without an error message".to_owned()
        } else {
            words.join("\n")
        };
        return Err(words);
    }
    // Structured content is repeated as text for older clients.
    if let Some(structured) = result.structured_content {
        let others: Vec<Value> = blocks(&result.content, kept)
            .zip(&result.content)
            .filter(|(_, block)| text(block).is_none())
            .map(|(value, _)| value)
            .collect();
        return Ok(if others.is_empty() {
            structured
        } else {
            json!({"result": structured, "content": others})
        });
    }
    Ok(match result.content.as_slice() {
        [] => Value::Null,
        [one] => match text(one) {
            Some(words) => Value::String(words.to_owned()),
            None => block(one, kept.first().and_then(Option::as_ref)),
        },
        several => json!({"content": blocks(several, kept).collect::<Vec<_>>()}),
    })
}

fn blocks(content: &[ContentBlock], kept: &[Kept]) -> impl Iterator<Item = Value> {
    let kept = kept.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    content.iter().zip(kept).map(|(one, kept)| block(one, kept))
}

fn text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

fn block(block: &ContentBlock, kept: Option<&Result<FileRef, String>>) -> Value {
    let mut value = described(block);
    match kept {
        Some(Ok(file)) => {
            value["fileId"] = json!(file.file_id);
            value["name"] = json!(file.name);
            value["url"] = json!(file.path());
        }
        Some(Err(why)) => value["notKept"] = json!(why),
        None => {}
    }
    value
}

fn described(block: &ContentBlock) -> Value {
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

/// Returns the pinned part of a tool.
pub(crate) fn discovered(tool: Tool) -> DiscoveredTool {
    let mut definition = json!({
        "description": tool.description,
        "inputSchema": tool.input_schema,
    });
    if let Some(annotations) = tool.annotations {
        definition["annotations"] = json!(annotations);
    }
    DiscoveredTool {
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
        let of = |result| of(result, &[]);
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

    /// Stores anything that is not empty.
    struct NotEmpty;

    #[async_trait]
    impl Keep for NotEmpty {
        async fn keep(&self, part: Part) -> Result<FileRef, String> {
            if part.content.is_empty() {
                return Err("the file is empty".to_owned());
            }
            Ok(FileRef {
                file_id: uuid::Uuid::nil(),
                name: part.name.unwrap_or_else(|| "nameless".to_owned()),
                media_type: part.media_type,
                size_bytes: 3,
                sha256: String::new(),
            })
        }
    }

    #[tokio::test]
    async fn bytes_are_kept_as_files_that_the_result_names() {
        let answer = result(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "data": "", "mimeType": "image/png"},
            {"type": "audio", "data": "%%%", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///tmp/report.pdf?x=1", "mimeType": "application/pdf", "blob": "AAAA"}},
        ]}));
        let kept = keep(&answer, &NotEmpty).await;
        let url = "/api/files/00000000-0000-0000-0000-000000000000/content";
        let kept_result = of(answer, &kept).unwrap();
        assert_eq!(kept_result["content"][0], json!({"type": "text", "text": "a"}));
        assert_eq!(
            kept_result["content"][1],
            json!({"type": "image", "mimeType": "image/png", "bytes": 3, "fileId": uuid::Uuid::nil(), "name": "nameless", "url": url})
        );
        assert_eq!(kept_result["content"][2]["notKept"], "the file is empty");
        assert_eq!(kept_result["content"][3]["notKept"], "its content is not base64");
        assert_eq!(kept_result["content"][4]["name"], "report.pdf");
    }

    #[test]
    fn a_failure_has_the_tools_own_message() {
        let of = |result| of(result, &[]);
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(of(result(failed)), Err("no such file".to_owned()));
        assert!(of(result(json!({"content": [], "isError": true}))).is_err());
        assert_eq!(cut("é".repeat(ERROR_MAX_CHARS + 1)), "é".repeat(ERROR_MAX_CHARS));
        assert_eq!(cut("short".to_owned()), "short");
    }
}
