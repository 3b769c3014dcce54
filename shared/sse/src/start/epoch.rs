//! The epoch of the database in which a reader got its events, and whether its cursor still belongs to the log.

use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::Response;
use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::epochs;
use rejoin_http::problem::Problem;
use serde_json::json;
use tokio::time::timeout;
use tracing::debug;
use uuid::Uuid;

use super::{QUERY_LIMIT, StreamParams, StreamState};

/// The header of a stream that names the current epoch.
const EPOCH: &str = "x-log-epoch";
/// Timeout of asking for the epoch of a reader that sent none: its stream begins without it.
const ASK_LIMIT: Duration = Duration::from_secs(1);

impl StreamParams {
    /// Returns the epoch that the reader has sent.
    pub(super) fn epoch(&self) -> Result<Option<Uuid>, Problem> {
        match self.epoch.as_deref() {
            None | Some("") => Ok(None),
            Some(epoch) => match epoch.parse() {
                Ok(epoch) => Ok(Some(epoch)),
                Err(_) => Err(Problem::bad_request(
                    "invalid_query",
                    format!(
                        "epoch={epoch} is not supported; use the value of the header {EPOCH} of the stream that you read last"
                    ),
                )),
            },
        }
    }
}

/// Returns the current epoch, in which a reader begins. None: it is unknown at the moment.
pub(super) async fn begin(state: &StreamState) -> Option<Uuid> {
    let epoch = match state.hub.recent_epoch() {
        Some(epoch) => Some(epoch),
        None => ask(state).await,
    };
    if let Some(epoch) = epoch {
        state.hub.begin_in(epoch);
    }
    epoch
}

async fn ask(state: &StreamState) -> Option<Uuid> {
    match timeout(ASK_LIMIT, epochs::current(&state.db.pool_pg)).await {
        Ok(Ok(epoch)) => {
            state.hub.note_epoch(epoch);
            Some(epoch)
        }
        Ok(Err(error)) => {
            debug!(error = %ErrorChain(&error), "the epoch of the database could not be read");
            None
        }
        Err(_) => None,
    }
}

/// Returns whether the events of the log up to `cursor`, which it has, are those that its reader got in the epoch `of_reader`.
pub(super) async fn is_same_past(
    state: &StreamState,
    log_id: Uuid,
    cursor: i64,
    of_reader: Uuid,
) -> Result<bool, Problem> {
    let pool = &state.db.pool_pg;
    let asked = async {
        // Not the one that was asked for recently: it may have ended since.
        let epoch = epochs::current(pool).await?;
        state.hub.note_epoch(epoch);
        if epoch == of_reader {
            return Ok(true);
        }
        Ok::<_, Problem>(epochs::has_same_past(pool, log_id, cursor, of_reader).await?)
    };
    timeout(QUERY_LIMIT, asked)
        .await
        .unwrap_or_else(|_| Err(Problem::database_away()))
}

/// The response to a cursor of another history of the log.
pub(super) fn rewound(cursor: i64, last_seq: i64, snapshot_url: &str) -> Problem {
    let detail = format!(
        "the log was taken back before the event {cursor}: the database was restored, or a failover lost its last commits. Discard \
         what you have, and read the snapshot"
    );
    Problem::bad_request("cursor_rewound", detail)
        .with("lastSeq", json!(last_seq))
        .with("snapshotUrl", json!(snapshot_url))
}

/// Names the epoch in the head of a stream.
pub(super) fn name(response: &mut Response, epoch: Option<Uuid>) {
    if let Some(value) = epoch.and_then(|epoch| HeaderValue::try_from(epoch.to_string()).ok()) {
        response.headers_mut().insert(EPOCH, value);
    }
}
