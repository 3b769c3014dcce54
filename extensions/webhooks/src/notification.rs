//! The request of a config's delivery: the task as it was at the delivery's number of the log, and the headers that the config asks for. Called
//! by `send` before each attempt. The fold of the task is the dialect's.

use rejoin_a2a::Context;
use rejoin_a2a::notification::{MEDIA_TYPE, Notification, TOKEN_HEADER, state_alone};
use rejoin_a2a::state::TaskState;
use rejoin_event_log::archive::Archive;
use rejoin_event_log::log;
use rejoin_event_log::reader::{self, ReadError};
use rejoin_secrets::Plaintext;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use sqlx::PgPool;
use uuid::Uuid;

use crate::configs::Sealed;

/// Maximum size of a task that is sent, in bytes. Of a larger one, its state alone is sent.
pub(crate) const TASK_MAX_BYTES: usize = 1024 * 1024;

/// What a delivery is rendered from: its payload, as `kb.add_config_delivery` writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    run_id: Uuid,
    context_id: String,
    log_id: Uuid,
    first_seq: i64,
    /// The state of the run.
    state: String,
    timestamp: String,
}

/// Renders the body: the task, as readers of the run saw it at the number `through`; its state alone, if its events are no longer stored.
///
/// # Errors
/// The database's or the archive's; or the payload is not readable.
pub(crate) async fn body(
    db: &PgPool,
    archive: &dyn Archive,
    origin: &str,
    payload: &str,
    through: i64,
) -> Result<String, sqlx::Error> {
    let turn: Turn = serde_json::from_str(payload).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let about = Context {
        task_id: turn.run_id.to_string(),
        context_id: turn.context_id.clone(),
        origin: origin.to_owned(),
    };
    if let Some(task) = task(db, archive, &turn, about.clone(), through).await?
        && task.len() <= TASK_MAX_BYTES
    {
        return Ok(task);
    }
    // A delivery is added for a run that has started, and that has ended or asks.
    let state = TaskState::of_run(&turn.state, true, true);
    Ok(state_alone(&about, state, &turn.timestamp).to_string())
}

async fn task(
    db: &PgPool,
    archive: &dyn Archive,
    turn: &Turn,
    about: Context,
    through: i64,
) -> Result<Option<String>, sqlx::Error> {
    let mut notification = Notification::new(about);
    let mut cursor = turn.first_seq;
    while cursor < through {
        // An archive that does not answer is an outage: the delivery is tried again.
        let events = reader::read_of_run(db, archive, turn.log_id, turn.run_id, cursor, through).await;
        let events = events.map_err(ReadError::into_outage)?;
        let Some(last) = events.last() else { break };
        cursor = last.seq;
        for event in &events {
            if let Ok(json) = serde_json::from_slice(&event.data) {
                notification.take(event.seq, &json);
            }
        }
    }
    // Asked last: what retention has removed meanwhile is noticed.
    let oldest = log::oldest_seq(db, turn.log_id).await?;
    let is_whole = oldest.is_some_and(|oldest| oldest <= turn.first_seq + 1);
    Ok(is_whole.then(|| notification.task(&turn.timestamp).to_string()))
}

/// Returns the headers: the media type, the token, and the credentials with their scheme.
///
/// # Errors
/// Why the delivery can't be sent, in words for its client.
pub(crate) fn headers(scheme: Option<&str>, secrets: &[Plaintext]) -> Result<HeaderMap, String> {
    let sealed: Sealed = match secrets.first() {
        Some(secret) => serde_json::from_slice(secret.expose()).map_err(|_| "the config's secrets are malformed")?,
        None => Sealed::default(),
    };
    let value = |text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|_| "the config's secrets are not valid in headers")?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if !sealed.token.is_empty() {
        headers.insert(TOKEN_HEADER, value(&sealed.token)?);
    }
    if let Some(scheme) = scheme {
        let credentials = format!("{scheme} {}", sealed.credentials);
        headers.insert(AUTHORIZATION, value(credentials.trim_end())?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_token_and_the_credentials() {
        let secrets = [Plaintext::new(br#"{"token":"mine","credentials":"key"}"#.to_vec())];
        let sent = headers(Some("Bearer"), &secrets).unwrap();
        assert_eq!(sent.get("content-type").unwrap(), "application/a2a+json");
        assert_eq!(sent.get("x-a2a-notification-token").unwrap(), "mine");
        assert_eq!(sent.get("authorization").unwrap(), "Bearer key");
        assert!(sent.get("authorization").unwrap().is_sensitive());
        assert_eq!(headers(None, &[]).unwrap().len(), 1);
        assert!(headers(None, &[Plaintext::new(b"?".to_vec())]).is_err());
    }
}
