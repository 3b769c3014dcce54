//! Alternating messages: Amazon Bedrock's Converse requires that user and assistant alternate, and that no text is blank
//! (<https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html>).

use ::genai::chat::{ChatMessage, ChatRole, ContentPart, MessageContent};

/// Replaces an empty result.
const NOTHING: &str = "(empty)";

/// Merges successive messages of one side, with tool results before text.
pub(super) fn alternating(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut turns: Vec<(ChatRole, Vec<ContentPart>)> = Vec::with_capacity(messages.len());
    for message in messages {
        let role = match message.role {
            // Converse puts tool results into user messages.
            ChatRole::Tool => ChatRole::User,
            other => other,
        };
        let parts: Vec<ContentPart> = message.content.into_parts().into_iter().filter_map(sendable).collect();
        if parts.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, before)) if *last == role => before.extend(parts),
            Some(_) | None => turns.push((role, parts)),
        }
    }
    let message = |(role, parts): (ChatRole, Vec<ContentPart>)| ChatMessage {
        role,
        content: MessageContent::from_parts(parts),
        options: None,
    };
    turns.into_iter().map(message).collect()
}

/// None: a blank text.
fn sendable(part: ContentPart) -> Option<ContentPart> {
    match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::ToolResponse(mut response) => {
            if response.content.trim().is_empty() {
                NOTHING.clone_into(&mut response.content);
            }
            Some(ContentPart::ToolResponse(response))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use ::genai::chat::ToolResponse;

    use super::*;

    #[test]
    fn results_and_words_are_one_turn() {
        let turns = alternating(vec![
            ChatMessage::user("go"),
            ChatMessage::assistant(" "),
            ChatMessage::from(vec![ToolResponse::new("a", "")]),
            ChatMessage::user("and now sum up"),
        ]);
        let parts: Vec<(ChatRole, usize)> = turns
            .iter()
            .map(|message| (message.role.clone(), message.content.parts().len()))
            .collect();
        assert_eq!(parts, [(ChatRole::User, 3)], "the model has said nothing");
    }
}
