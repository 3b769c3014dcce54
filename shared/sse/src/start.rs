//! Where a reader begins, and responses without a stream: 204 at the end of a finished run, 400 for an invalid cursor,
//! 410 for one that retention has overtaken.
//!
//! - `epoch`  whether a cursor still belongs to the log
//! - `pages`  what a log has after a position, without a stream

mod epoch;
mod pages;

pub use pages::{EventPage, fold_so_far, open_from, page, read_page, wait};

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use rejoin_commands::Posted;
use rejoin_db::rls;
use rejoin_event_log::archive::SharedArchive;
use rejoin_event_log::log::LogEnds;
use rejoin_event_log::snapshot;
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_http::{HttpState, contains_http_state};
use rejoin_runs::conversations;
use rejoin_runs::runs::{self, Span};
use rejoin_types::owner::Owner;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use utoipa::IntoParams;
use uuid::Uuid;

use super::delivery::Handover;
use super::dialects::{Dialect, Renderer};
use super::fan_out::Hub;
use super::frame;
use super::reader::{Filter, Reader};
use super::streams::Permit;
use pages::check_archive;

/// The cursor that a browser sends when it reconnects.
const LAST_EVENT_ID: &str = "last-event-id";
/// Timeout of reading a log's ends.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// What opening a stream takes.
#[derive(Clone)]
pub struct StreamState {
    pub http: HttpState,
    /// The live ends of followed logs.
    pub hub: Arc<Hub>,
    /// Old events.
    pub archive: SharedArchive,
}

contains_http_state!(StreamState);

/// Options for reading a log.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// The number of the last event that the reader received, or `now`; the header `Last-Event-ID` takes precedence
    #[param(pattern = "^([0-9]{1,18}|now)$")]
    pub after: Option<String>,
    /// `snapshot`: start with a snapshot of the current state instead of all events
    #[param(pattern = "^snapshot$")]
    pub from: Option<String>,
    /// `event`: if the events after the cursor are no longer stored, stream a `gap` and a snapshot and continue,
    /// instead of responding with 410
    #[param(pattern = "^event$")]
    pub on_gap: Option<String>,
    /// The header `X-Log-Epoch` of the stream in which the reader received its last event. If the database has since gone back to an earlier state, so
    /// that the log has other events with these numbers, the response is `cursor_rewound`, or with `on_gap=event` a `rewound` and a snapshot
    pub epoch: Option<String>,
    /// A single-use ticket instead of an API key
    pub ticket: Option<String>,
}

/// The start position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Beginning,
    After(i64),
    Now,
    Snapshot,
}

impl StreamParams {
    pub fn start(&self, headers: &HeaderMap) -> Result<Start, Problem> {
        let malformed = || Problem::bad_request("cursor_malformed", "a cursor must be the number of an event");
        if let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) {
            return Ok(Start::After(
                cursor(value.to_str().map_err(|_| malformed())?).ok_or_else(malformed)?,
            ));
        }
        match (self.from.as_deref(), self.after.as_deref()) {
            (Some("snapshot"), _) => Ok(Start::Snapshot),
            (Some(other), _) => Err(Problem::bad_request(
                "invalid_query",
                format!("from={other} is not supported; use `snapshot`"),
            )),
            (None, None) => Ok(Start::Beginning),
            (None, Some("now")) => Ok(Start::Now),
            (None, Some(number)) => Ok(Start::After(cursor(number).ok_or_else(malformed)?)),
        }
    }

    fn on_gap(&self) -> Result<OnGap, Problem> {
        match self.on_gap.as_deref() {
            None => Ok(OnGap::Refuse),
            Some("event") => Ok(OnGap::Tell),
            Some(other) => Err(Problem::bad_request(
                "invalid_query",
                format!("on_gap={other} is not supported; use `event`"),
            )),
        }
    }
}

/// The response if events after the cursor were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnGap {
    Refuse,
    Tell,
}

/// Parses a cursor: digits only.
fn cursor(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The requested events.
#[derive(Debug, Clone, Copy)]
pub enum StreamSource {
    Conversation(Uuid),
    Run(Uuid),
}

/// The log to read, visible to the caller.
#[derive(Debug, Clone, Copy)]
enum Target {
    Conversation(Uuid),
    Run(Span),
}

impl Target {
    fn log_id(&self) -> Uuid {
        match self {
            Target::Conversation(id) => *id,
            Target::Run(run) => run.log_id,
        }
    }

    fn run_id(&self) -> Option<Uuid> {
        match self {
            Target::Conversation(_) => None,
            Target::Run(run) => Some(run.run_id),
        }
    }

    /// Returns the number before its first event.
    fn first_seq(&self) -> i64 {
        match self {
            Target::Conversation(_) => 0,
            Target::Run(run) => run.first_seq,
        }
    }

    /// Returns whether no events will follow `cursor`.
    fn is_over_at(&self, cursor: i64) -> bool {
        match self {
            Target::Conversation(_) => false,
            Target::Run(run) => run.has_ended && cursor >= run.done_seq.unwrap_or_default(),
        }
    }

    fn filter(&self) -> Filter {
        match self {
            Target::Conversation(_) => Filter::Log,
            Target::Run(run) => {
                let done_seq = run.done_seq.unwrap_or_default();
                // The `done` of a resumed run belongs to an earlier turn.
                let open_through = if run.has_ended { done_seq - 1 } else { done_seq };
                Filter::Run {
                    id: run.run_id,
                    root: run.root_run_id,
                    open_through,
                }
            }
        }
    }

    fn snapshot_url(&self) -> String {
        match self {
            Target::Conversation(id) => format!("/api/conversations/{id}/events?from=snapshot"),
            Target::Run(run) => format!("/api/runs/{}/events?from=snapshot", run.run_id),
        }
    }
}

/// Returns the log, if visible to the owner, with its ends.
async fn find(state: &StreamState, owner: Owner, source: StreamSource) -> Result<(Target, LogEnds), Problem> {
    let pool = &state.db.pool_pg;
    let looked = async {
        Ok::<_, Problem>(match source {
            StreamSource::Conversation(id) => {
                let ends = conversations::log_ends(pool, owner, id).await?;
                let missing = || Problem::not_found("conversation_not_found", "The conversation");
                (Target::Conversation(id), ends.ok_or_else(missing)?)
            }
            StreamSource::Run(id) => {
                let span = runs::span(pool, owner, id).await?;
                let (span, ends) = span.ok_or_else(|| Problem::not_found("run_not_found", "The run"))?;
                (Target::Run(span), ends)
            }
        })
    };
    timeout(QUERY_LIMIT, looked)
        .await
        .unwrap_or_else(|_| Err(Problem::database_away()))
}

/// Responds to a request for events. Snapshots and gap notices exist in the native dialect only.
pub async fn open(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    source: StreamSource,
    start: Start,
    params: &StreamParams,
    dialect: Dialect,
) -> Result<Response, Problem> {
    let (on_gap, of_reader) = (params.on_gap()?, params.epoch()?);
    // Before the log is read: what is read then is at least of this epoch.
    let epoch = epoch::begin(state).await;
    let (target, ends) = find(state, owner, source).await?;
    let log_id = target.log_id();
    if let Start::After(seq) = start {
        // Never sent by this log: it was restored to an earlier state, or the cursor belongs to another log.
        let is_ahead = seq > ends.last_seq;
        let is_valid = match of_reader {
            Some(of_reader) if !is_ahead => epoch::is_same_past(state, log_id, seq, of_reader).await?,
            Some(_) | None => !is_ahead,
        };
        if !is_valid && on_gap == OnGap::Tell {
            // A reader that knows no epochs does not know `rewound`, either.
            let first = match of_reader {
                Some(_) => frame::rewound(seq, ends.last_seq),
                None => frame::gap(seq, ends.oldest_seq),
            };
            return from_snapshot(state, permit, target, owner, (ends, epoch), first).await;
        }
        if is_ahead {
            return Err(cursor_ahead(seq, &target, ends));
        }
        if !is_valid {
            return Err(epoch::rewound(seq, ends.last_seq, &target.snapshot_url()));
        }
    }
    let cursor = match start {
        Start::Beginning => target.first_seq(),
        Start::After(seq) => seq.max(target.first_seq()),
        Start::Now => ends.last_seq,
        Start::Snapshot => return from_snapshot(state, permit, target, owner, (ends, epoch), Bytes::new()).await,
    };
    if target.is_over_at(cursor) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if cursor < ends.oldest_seq - 1 {
        if on_gap == OnGap::Tell {
            let first = frame::gap(cursor, ends.oldest_seq);
            return from_snapshot(state, permit, target, owner, (ends, epoch), first).await;
        }
        return Err(cursor_gone(cursor, &target, ends));
    }
    check_archive(state, &target, ends, cursor).await?;
    let subscription = state.hub.subscribe(log_id, ends.last_seq);
    let mut reader = Reader::new(subscription, permit, target.filter(), dialect, cursor);
    reader.caught_up_at = Some(ends.last_seq);
    let mut response = respond(reader);
    epoch::name(&mut response, epoch);
    Ok(response)
}

/// Streams the turn of a message that was just stored.
pub fn open_turn(state: &StreamState, permit: Permit, posted: &Posted, dialect: Dialect) -> Response {
    let filter = Filter::Run {
        id: posted.run_id,
        root: posted.run_id,
        open_through: 0,
    };
    let subscription = state.hub.subscribe(posted.conversation_id, posted.cursor);
    let mut response = respond(Reader::new(subscription, permit, filter, dialect, posted.cursor));
    epoch::name(&mut response, state.hub.recent_epoch());
    response
}

/// Waits for the end of a run, and returns what its renderer wrote. None: nothing, because the server stops or the caller's key was revoked
/// before; the run goes on.
pub async fn whole_run(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    run_id: Uuid,
    renderer: Box<dyn Renderer>,
) -> Result<Option<Vec<u8>>, Problem> {
    let mut reader = run_reader(state, permit, owner, run_id, None, renderer).await?;
    reader.opening = None;
    let mut all = Vec::new();
    // A frame that only says that the connection is alive is not the renderer's.
    while let Some(Ok(chunk)) = reader.next().await {
        if chunk != frame::HEARTBEAT {
            all.extend_from_slice(&chunk);
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

/// Streams a run in another program's dialect: what follows `after`, or all of it.
pub async fn open_rendered(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    run_id: Uuid,
    after: Option<i64>,
    renderer: Box<dyn Renderer>,
) -> Result<Response, Problem> {
    let reader = run_reader(state, permit, owner, run_id, after, renderer).await?;
    Ok(respond(reader))
}

/// A reader from the run's first event on, as a renderer needs it.
async fn run_reader(
    state: &StreamState,
    permit: Permit,
    owner: Owner,
    run_id: Uuid,
    after: Option<i64>,
    renderer: Box<dyn Renderer>,
) -> Result<Reader, Problem> {
    let (target, ends) = find(state, owner, StreamSource::Run(run_id)).await?;
    let cursor = target.first_seq();
    if let Some(after) = after.filter(|after| *after > ends.last_seq) {
        return Err(cursor_ahead(after, &target, ends));
    }
    if cursor < ends.oldest_seq - 1 {
        return Err(cursor_gone(cursor, &target, ends));
    }
    check_archive(state, &target, ends, cursor).await?;
    let dialect = Dialect::Rendered {
        renderer,
        silent_through: after.unwrap_or(cursor),
    };
    let subscription = state.hub.subscribe(target.log_id(), ends.last_seq);
    let mut reader = Reader::new(subscription, permit, target.filter(), dialect, cursor);
    reader.caught_up_at = Some(ends.last_seq);
    Ok(reader)
}

fn cursor_ahead(cursor: i64, target: &Target, ends: LogEnds) -> Problem {
    let detail = format!(
        "the cursor {cursor} is ahead of the log, which ends at {}",
        ends.last_seq
    );
    Problem::bad_request("cursor_ahead", detail)
        .with("lastSeq", json!(ends.last_seq))
        .with("snapshotUrl", json!(target.snapshot_url()))
}

fn cursor_gone(cursor: i64, target: &Target, ends: LogEnds) -> Problem {
    let detail = format!(
        "the events after {cursor} are no longer stored; the oldest stored event is {}",
        ends.oldest_seq
    );
    Problem::new(StatusCode::GONE, "cursor_gone", detail)
        .with("oldest", json!(ends.oldest_seq))
        .with("snapshotUrl", json!(target.snapshot_url()))
}

/// Streams `first`, a snapshot, and what follows it.
async fn from_snapshot(
    state: &StreamState,
    permit: Permit,
    target: Target,
    owner: Owner,
    (ends, epoch): (LogEnds, Option<Uuid>),
    first: Bytes,
) -> Result<Response, Problem> {
    let log_id = target.log_id();
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(owner)).await?;
    let loaded = snapshot::load(&mut db, log_id, target.run_id())
        .await?
        .ok_or_else(no_log)?;
    drop(db);
    let snapshot = loaded.fold(&*state.archive).await?;
    // After the snapshot: a run that had ended by then has no further events.
    let target = match target {
        Target::Conversation(_) => target,
        Target::Run(run) => find(state, owner, StreamSource::Run(run.run_id)).await?.0,
    };
    let through = snapshot.through;
    let mut opening = BytesMut::from(frame::RETRY);
    opening.extend_from_slice(&first);
    opening.extend_from_slice(&frame::snapshot(&snapshot));
    let subscription = state.hub.subscribe(log_id, ends.last_seq);
    let mut reader = Reader::new(subscription, permit, target.filter(), Dialect::Native, through);
    reader.opening = Some(opening.freeze());
    reader.ended = target.is_over_at(through);
    reader.caught_up_at = Some(through);
    let mut response = respond(reader);
    epoch::name(&mut response, epoch);
    Ok(response)
}

fn no_log() -> Problem {
    Problem::not_found("not_found", "The log")
}

/// Returns a permit for one more stream of this caller, unless the server is stopping.
pub fn admit(state: &StreamState, caller: &Caller) -> Result<Permit, Problem> {
    if state.draining.is_cancelled() {
        return Err(Problem::draining());
    }
    state.hub.streams.admit(caller)
}

fn respond(reader: Reader) -> Response {
    let handover = Handover::new(reader);
    let mut response = Response::new(Body::from_stream(handover.body()));
    response.extensions_mut().insert(handover);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(after: Option<&str>, from: Option<&str>) -> StreamParams {
        StreamParams {
            after: after.map(str::to_owned),
            from: from.map(str::to_owned),
            ..StreamParams::default()
        }
    }

    #[test]
    fn the_header_goes_before_the_query() {
        let mut headers = HeaderMap::new();
        assert_eq!(params(None, None).start(&headers).unwrap(), Start::Beginning);
        assert_eq!(params(Some("7"), None).start(&headers).unwrap(), Start::After(7));
        assert_eq!(params(Some("now"), None).start(&headers).unwrap(), Start::Now);
        assert_eq!(params(None, Some("snapshot")).start(&headers).unwrap(), Start::Snapshot);
        headers.insert(LAST_EVENT_ID, HeaderValue::from_static("9"));
        assert_eq!(
            params(Some("7"), Some("snapshot")).start(&headers).unwrap(),
            Start::After(9)
        );
    }

    #[test]
    fn a_cursor_is_digits_only() {
        for text in ["", "-1", "+1", "1.5", " 1", "abc", "99999999999999999999"] {
            assert_eq!(cursor(text), None, "{text:?}");
        }
        assert_eq!(
            params(Some("-1"), None).start(&HeaderMap::new()).unwrap_err().code,
            "cursor_malformed"
        );
    }
}
