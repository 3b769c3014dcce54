//! What a log has after a position, for readers that ask again rather than follow a stream.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::log::LogEnds;
use rejoin_event_log::reader::ReadError;
use rejoin_event_log::rows::StoredEvent;
use rejoin_http::problem::Problem;
use rejoin_types::owner::Owner;
use tokio::time::timeout;
use tracing::warn;
use uuid::Uuid;

use super::{QUERY_LIMIT, Start, StreamSource, StreamState, Target, cursor_ahead, cursor_gone, find, respond};
use crate::dialects::{Dialect, Renderer};
use crate::frame::{self, Frame};
use crate::reader::{Filter, Reader};
use crate::streams::Permit;

/// The events after a position, as many as are read at once.
#[derive(Debug)]
pub struct EventPage {
    /// The conversation, or the run.
    pub id: Uuid,
    /// The position.
    pub after: i64,
    /// Their numbers and their JSON, in order.
    pub events: Vec<(i64, Bytes)>,
    /// The position after them: the number of the last event that was read, shown or not.
    pub next: i64,
    /// Whether the log had no more.
    pub is_up_to_date: bool,
    /// Whether none will follow, because the run has ended.
    pub is_closed: bool,
}

impl StreamSource {
    fn id(self) -> Uuid {
        match self {
            StreamSource::Conversation(id) | StreamSource::Run(id) => id,
        }
    }
}

/// Returns the position at which a reader begins, if the log has what follows it.
fn position(start: Start, target: &Target, ends: LogEnds) -> Result<i64, Problem> {
    let cursor = match start {
        Start::Beginning | Start::Snapshot => target.first_seq(),
        Start::After(seq) if seq > ends.last_seq => return Err(cursor_ahead(seq, target, ends)),
        Start::After(seq) => seq.max(target.first_seq()),
        Start::Now => match target {
            Target::Run(run) if run.has_ended => run.done_seq.unwrap_or(ends.last_seq),
            Target::Run(_) | Target::Conversation(_) => ends.last_seq,
        },
    };
    if cursor < ends.oldest_seq - 1 && !target.is_over_at(cursor) {
        return Err(cursor_gone(cursor, target, ends));
    }
    Ok(cursor)
}

/// Reads a page of a log after `cursor`: none at the end of the log.
///
/// # Errors
/// The database or the archive does not answer; the request may be repeated.
pub async fn read_page(state: &StreamState, log_id: Uuid, cursor: i64) -> Result<Vec<StoredEvent>, Problem> {
    let read = timeout(QUERY_LIMIT, state.hub.source.page(log_id, cursor)).await;
    read.map_err(|_| Problem::database_away())?.map_err(|error| {
        warn!(error = %ErrorChain(&*error), "reading past events failed");
        match error.downcast_ref::<ReadError>() {
            Some(ReadError::Archive(_)) => Problem::archive_unavailable(),
            Some(ReadError::Database(_) | ReadError::Statement(_)) | None => Problem::database_away(),
        }
    })
}

/// Checks that archived events after `cursor` can be read, before a stream of them begins: later, it can only wait.
pub(super) async fn check_archive(
    state: &StreamState,
    target: &Target,
    ends: LogEnds,
    cursor: i64,
) -> Result<(), Problem> {
    if cursor < ends.archived_seq {
        read_page(state, target.log_id(), cursor).await?;
    }
    Ok(())
}

/// Reads the frames after `cursor`: at least one, unless the log ends there.
async fn frames(
    state: &StreamState,
    target: &Target,
    ends: LogEnds,
    cursor: i64,
) -> Result<impl Iterator<Item = Frame> + use<>, Problem> {
    let read = read_page(state, target.log_id(), cursor).await?;
    if read.is_empty() {
        return Err(cursor_gone(cursor, target, ends));
    }
    Ok(read.into_iter().map(|event| Frame::of(&event)))
}

/// Returns the events after `start`: none only at the end of the log.
pub async fn page(state: &StreamState, owner: Owner, source: StreamSource, start: Start) -> Result<EventPage, Problem> {
    let (target, ends) = find(state, owner, source).await?;
    let after = position(start, &target, ends)?;
    let filter = target.filter();
    let mut page = EventPage {
        id: source.id(),
        after,
        events: Vec::new(),
        next: after,
        is_up_to_date: false,
        is_closed: target.is_over_at(after),
    };
    while page.events.is_empty() && !page.is_closed && page.next < ends.last_seq {
        for frame in frames(state, &target, ends, page.next).await? {
            page.next = frame.seq;
            if filter.shows(&frame) {
                page.events.push((frame.seq, Bytes::copy_from_slice(frame.data())));
            }
            if filter.ends_with(&frame) {
                page.is_closed = true;
                break;
            }
        }
    }
    page.is_up_to_date = page.is_closed || page.next >= ends.last_seq;
    Ok(page)
}

/// Waits until there is an event after this position, for at most `limit`; or until the server stops.
pub async fn wait(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    source: StreamSource,
    after: i64,
    limit: Duration,
) -> Result<(), Problem> {
    let (target, ends) = find(state, owner, source).await?;
    let subscription = state.hub.subscribe(target.log_id(), ends.last_seq);
    let mut reader = Reader::new(subscription, permit, target.filter(), Dialect::Native, after);
    reader.opening = None;
    // A frame that only says that the connection is alive is no event.
    let event = async { while matches!(reader.next().await, Some(Ok(chunk)) if chunk == frame::HEARTBEAT) {} };
    // Late: there is none.
    let _ = timeout(limit, event).await;
    Ok(())
}

/// Streams what follows `start` to a renderer that needs no earlier events. `closed` makes the whole response for a reader at the end of a run.
pub async fn open_from(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    source: StreamSource,
    start: Start,
    renderer: Box<dyn Renderer>,
    closed: fn(i64) -> Vec<u8>,
) -> Result<Response, Problem> {
    let (target, ends) = find(state, owner, source).await?;
    let cursor = position(start, &target, ends)?;
    if target.is_over_at(cursor) {
        let mut response = (StatusCode::OK, Body::from(closed(cursor))).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
        return Ok(response);
    }
    check_archive(state, &target, ends, cursor).await?;
    let dialect = Dialect::Rendered {
        renderer,
        silent_through: cursor,
    };
    let subscription = state.hub.subscribe(target.log_id(), ends.last_seq);
    let mut reader = Reader::new(subscription, permit, target.filter(), dialect, cursor);
    reader.caught_up_at = Some(ends.last_seq);
    Ok(respond(reader))
}

/// Renders a run's events so far, without waiting for more.
pub async fn fold_so_far(
    state: &StreamState,
    owner: Owner,
    run_id: Uuid,
    renderer: &mut (dyn Renderer + '_),
) -> Result<Vec<u8>, Problem> {
    let (target, ends) = find(state, owner, StreamSource::Run(run_id)).await?;
    let mut cursor = position(Start::Beginning, &target, ends)?;
    let (filter, mut out): (Filter, _) = (target.filter(), Vec::new());
    while cursor < ends.last_seq {
        for frame in frames(state, &target, ends, cursor).await? {
            cursor = frame.seq;
            if !filter.shows(&frame) {
                continue;
            }
            if let Some(event) = frame.json() {
                renderer.render(frame.seq, &event, &mut out);
            }
            if filter.ends_with(&frame) {
                return Ok(out);
            }
        }
    }
    Ok(out)
}
