//! A fork of a conversation's run as a branch of the conversation: a conversation with copies of the messages before the forked one. Called by
//! [`ForkRun`](super::ForkRun).
//!
//! Invariant: a copy names its original in `metadata.copyOf`, also if that is a copy itself.

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::wire_time;
use rejoin_event_log::log;
use rejoin_runs::messages::{self, ChatMessage, NewMessage, Role};
use rejoin_runs::runs::Run;
use rejoin_types::events::{Event, Kind, MessageBody};
use rejoin_types::ids;

/// Maximum number of earlier messages that a branch begins with: the newest ones.
const COPIED_MAX: i64 = 200;

/// Returns the user's message that a run answers. That of a fork was sent to its run.
pub(super) async fn asked(db: &mut PgConnection, run: &Run) -> Result<Option<Uuid>, sqlx::Error> {
    match (run.message_id, run.conversation_id) {
        (Some(id), _) => Ok(Some(id)),
        (None, Some(conversation_id)) => messages::sent_to(db, conversation_id, run.id).await,
        (None, None) => Ok(None),
    }
}

/// Copies the messages before `asked` to a new conversation, with their events. Returns the number of the last one's event; 0: there are none.
pub(super) async fn copy_history(db: &mut PgConnection, from: Uuid, asked: Uuid, to: Uuid) -> Result<i64, sqlx::Error> {
    let earlier = messages::before(&mut *db, from, asked, COPIED_MAX).await?;
    if earlier.is_empty() {
        return Ok(0);
    }
    let copies: Vec<(Uuid, ChatMessage)> = earlier.into_iter().map(|message| (ids::new(), message)).collect();
    let events: Vec<Event> = copies.iter().map(|(id, message)| event(*id, message)).collect();
    let last = log::append(db, to, None, &events).await?;
    let first = last - i64::try_from(copies.len()).unwrap_or_default() + 1;
    for (seq, (id, message)) in (first..).zip(&copies) {
        let mut metadata = message.metadata.clone();
        if metadata["copyOf"].is_null() {
            metadata["copyOf"] = json!(message.id);
        }
        let copy = NewMessage {
            id: *id,
            conversation_id: to,
            role: message.role.parse().unwrap_or(Role::System),
            content: &message.content,
            citations: message.citations.as_ref(),
            retrieval_context: message.retrieval_context.as_ref(),
            metadata: &metadata,
            seq,
        };
        messages::insert(db, copy).await?;
        rejoin_files::name_in(db, *id, &rejoin_files::of_metadata(&metadata)).await?;
    }
    Ok(last)
}

fn event(id: Uuid, message: &ChatMessage) -> Event {
    Event {
        kind: Kind::Message {
            message: MessageBody {
                id,
                role: message.role.clone(),
                content: message.content.clone(),
                created_at: wire_time(message.created_at),
                attached_context: message.metadata.get("attachedContext").cloned(),
                attachments: rejoin_files::of_metadata(&message.metadata),
                citations: message.citations.clone(),
            },
        },
        // The run that wrote it is not one of this conversation.
        run_id: None,
        agent: None,
        parent_run_id: None,
        source: None,
        step_number: None,
    }
}
