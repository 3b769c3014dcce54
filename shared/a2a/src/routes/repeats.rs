//! Which messages are one message that was sent again: decision 0064. Called by `send`.
//!
//! Invariant: a message that is sent again, byte for byte, is stored once.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rejoin_chat::ChatState;
use rejoin_commands::Idempotency;
use rejoin_http::caller::Caller;
use rejoin_http::idempotency;
use rejoin_http::problem::Problem;
use rejoin_runs::runs::by_change::{self, Changed};
use serde_json::{Value, json};

use super::Call;
use crate::request::Asked;

/// The fields of a message that name its place.
const PLACES: [&str; 2] = ["context_id", "task_id"];

/// Where a message's id names one message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    Task(&'a str),
    Context(&'a str),
    /// The context that the message begins. A client that sends the message again does not know it, so there the content belongs to the name.
    New,
}

/// Returns the idempotency key of a message: the client's header or, without one, the message's id within its place.
///
/// # Errors
/// The header is malformed, or the id has a NUL character.
pub(super) fn key(call: &Call, asked: &Asked, place: Place<'_>) -> Result<Option<Idempotency>, Problem> {
    let whole = whole(call.agent.as_deref(), asked);
    if let Some(by_header) = idempotency::of(&call.headers, None, &whole)? {
        return Ok(Some(by_header));
    }
    by_id(whole, &asked.message_id, place)
}

/// Returns the task that was begun by a message with the same id and content, which named neither task nor context.
///
/// # Errors
/// As [`key`]; or the database is unavailable.
pub(super) async fn begun_by(
    state: &ChatState,
    caller: &Caller,
    call: &Call,
    asked: &Asked,
) -> Result<Option<Changed>, Problem> {
    let whole = whole(call.agent.as_deref(), asked);
    if idempotency::of(&call.headers, None, &whole)?.is_some() {
        return Ok(None);
    }
    let Some(known) = by_id(whole, &asked.message_id, Place::New)? else {
        return Ok(None);
    };
    let mut db = caller.begin(state).await?;
    match rejoin_commands::run_of_key(&mut db, caller.owner(), &known.key).await? {
        Some(run) => Ok(by_change::get(&mut *db, caller.owner(), run).await?),
        None => Ok(None),
    }
}

/// All that a message says, and where.
fn whole(agent: Option<&str>, asked: &Asked) -> Value {
    json!({ "agent": agent, "asked": asked })
}

fn by_id(whole: Value, message_id: &str, place: Place<'_>) -> Result<Option<Idempotency>, Problem> {
    let mut content = whole;
    for name in PLACES {
        content["asked"][name] = Value::Null;
    }
    let place = match place {
        Place::Task(id) => json!({ "task": id }),
        Place::Context(id) => json!({ "context": id }),
        Place::New => json!({ "content": content }),
    };
    // Names of contexts are longer than keys may be.
    let digest = URL_SAFE_NO_PAD.encode(idempotency::body_hash(&place));
    let key = format!("a2a:{message_id}:{digest}");
    idempotency::of(&HeaderMap::new(), Some(&key), &content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::SendMessageRequest;

    fn named(text: &str, more: &Value, place: Place<'_>) -> Idempotency {
        let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }]});
        for (name, value) in more.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        let request: SendMessageRequest = serde_json::from_value(json!({ "message": message })).unwrap();
        let asked = request.asked().unwrap();
        by_id(whole(Some("writer"), &asked), &asked.message_id, place)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_message_is_named_by_its_id_within_its_place() {
        let nowhere = json!({});
        let new = named("Hi", &nowhere, Place::New);
        assert_eq!(new.key, named("Hi", &nowhere, Place::New).key);
        assert_ne!(new.key, named("Ho", &nowhere, Place::New).key, "another message");
        // Sent again with the context that it began.
        let again = named("Hi", &json!({"contextId": "c"}), Place::New);
        assert_eq!((again.key, again.body_hash), (new.key.clone(), new.body_hash.clone()));

        let in_context = |text: &str, name: &str| named(text, &json!({ "contextId": name }), Place::Context(name));
        let (hi, ho) = (in_context("Hi", "c"), in_context("Ho", "c"));
        assert_eq!(hi.key, ho.key, "one id in one context");
        assert_ne!(hi.body_hash, ho.body_hash, "so the second one is refused");
        assert_ne!(hi.key, in_context("Hi", "d").key, "another context");
        let in_task = named("Hi", &json!({"taskId": "c"}), Place::Task("c"));
        assert_ne!(hi.key, in_task.key, "a task is not a context");
    }

    #[test]
    fn a_key_of_the_longest_id_is_short_enough() {
        let id = "ä".repeat(crate::request::MESSAGE_ID_MAX_CHARS);
        assert!(by_id(json!({"asked": {}}), &id, Place::Context("c")).is_ok());
    }
}
