//! Files of messages as content parts: after a user's text, and after tool results. No provider accepts files in every
//! result, and all accept them in a user message.

use ::genai::chat::{Binary, ChatMessage, ContentPart, MessageContent};

use crate::Attached;

/// The text before files produced by tools.
const OF_TOOLS: &str = "These files belong to the results above.";

/// Converts a user message with files. Files that were not loaded are omitted: the text mentions them.
pub(super) fn user(text: String, attachments: Vec<Attached>) -> ChatMessage {
    let mut files = of(attachments).peekable();
    if files.peek().is_none() {
        return ChatMessage::user(text);
    }
    let words = (!text.is_empty()).then(|| ContentPart::Text(text));
    let parts: Vec<ContentPart> = words.into_iter().chain(files).collect();
    ChatMessage::user(MessageContent::from_parts(parts))
}

/// Returns the message after a group of results whose tools have produced files.
pub(super) fn behind_results(attachments: Vec<Attached>) -> Option<ChatMessage> {
    let has_files = attachments.iter().any(|attached| attached.content.is_some());
    has_files.then(|| user(OF_TOOLS.to_owned(), attachments))
}

/// Each file after its name.
fn of(attachments: Vec<Attached>) -> impl Iterator<Item = ContentPart> {
    attachments
        .into_iter()
        .filter_map(|attached| Some((attached.file, attached.content?)))
        .flat_map(|(file, content)| {
            let heading = format!("File `{}`:", file.name);
            let binary = Binary::from_base64(file.media_type, content.0, Some(file.name));
            [ContentPart::Text(heading), ContentPart::Binary(binary)]
        })
}

#[cfg(test)]
mod tests {
    use rejoin_types::file_ref::FileRef;
    use uuid::Uuid;

    use super::*;
    use crate::Base64;

    #[test]
    fn files_come_behind_the_words_and_only_if_they_were_loaded() {
        let file = |content: Option<&str>| Attached {
            file: FileRef {
                file_id: Uuid::nil(),
                name: "a.png".to_owned(),
                media_type: "image/png".to_owned(),
                size_bytes: 3,
                sha256: String::new(),
            },
            content: content.map(|content| Base64(content.into())),
        };
        let parts = user("Look.".to_owned(), vec![file(Some("AAAA")), file(None)])
            .content
            .into_parts();
        assert!(
            matches!(&parts[..], [ContentPart::Text(words), ContentPart::Text(name), ContentPart::Binary(_)]
                if words == "Look." && name == "File `a.png`:"),
            "{parts:?}"
        );
        assert!(user("Look.".to_owned(), vec![file(None)]).content.is_text_only());
        assert!(behind_results(vec![file(None)]).is_none());
        assert!(behind_results(vec![file(Some("AAAA"))]).is_some());
    }
}
