//! Messages that take turns: Amazon Bedrock's Converse insists that the user and the model alternate, and that no text is blank
//! (<https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html>).

use ::genai::chat::{ChatMessage, ChatRole, ContentPart, MessageContent};

/// Stands in the place of a result without a word.
const NOTHING: &str = "(empty)";

/// The same messages with those of one side in one, results of tools before words.
pub(super) fn alternating(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut turns: Vec<(ChatRole, Vec<ContentPart>)> = Vec::with_capacity(messages.len());
    for message in messages {
        let role = match message.role {
            // Converse has results in the user's messages.
            ChatRole::Tool => ChatRole::User,
            other => other,
        };
        let parts: Vec<ContentPart> = message.content.into_parts().into_iter().filter_map(said).collect();
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

/// None: a text without a word.
fn said(part: ContentPart) -> Option<ContentPart> {
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
