//! `/api/calendars/{id}/export.ics` and `…/import`: export and import of the caller's calendars as iCalendar files.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use chrono::{DateTime, TimeDelta};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, Refused};
use rejoin_types::owner::Owner;
use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{CalendarState, Routes};
use crate::events::{self, Calendar, MAX_ROWS};
use crate::expand::{self, CalendarError};
use crate::ical::{self, ImportNote};
use crate::imports::{self, Imported};

/// The media type of iCalendar files (RFC 5545, 8.1).
const KIND: &str = "text/calendar";
pub(super) const WITH_CHARSET: &str = "text/calendar; charset=utf-8";
/// Bounds of everything in a calendar, in days since 1970.
const EVER: (i64, i64) = (-36_500, 100_000);

/// The import path, whose body may be larger than others.
pub const IMPORT_PATH: &str = "/api/calendars/{id}/import";
pub use crate::ical::MAX_BYTES;

pub fn routes() -> Routes {
    let import = Routes::new().routes(routes!(import));
    Routes::new()
        .routes(routes!(export))
        .merge(import.layer(DefaultBodyLimit::max(MAX_BYTES)))
}

/// A remark about a component of a file
#[derive(Debug, Serialize, ToSchema)]
pub struct ToldBody {
    /// The line at which the component begins
    pub line: usize,
    pub uid: Option<String>,
    pub why: String,
}

impl From<ImportNote> for ToldBody {
    fn from(note: ImportNote) -> Self {
        Self {
            line: note.line,
            uid: note.uid,
            why: note.why,
        }
    }
}

/// The result of an import
#[derive(Debug, Serialize, ToSchema)]
pub struct ImportedBody {
    /// New events
    pub added: usize,
    /// Events that were updated
    pub changed: usize,
    /// Events that were already up to date
    pub unchanged: usize,
    /// Components that were not imported; the first 1,000
    pub refused: Vec<ToldBody>,
    /// Events that were imported with changes; the first 1,000
    pub notes: Vec<ToldBody>,
}

impl From<Imported> for ImportedBody {
    fn from(done: Imported) -> Self {
        let bodies = |list: Vec<ImportNote>| list.into_iter().map(ToldBody::from).collect();
        Self {
            added: done.added,
            changed: done.changed,
            unchanged: done.unchanged,
            refused: bodies(done.refused),
            notes: bodies(done.notes),
        }
    }
}

/// Returns a calendar of the owner.
pub(super) async fn found(db: &mut PgConnection, owner: Owner, id: Uuid) -> Result<Calendar, Problem> {
    let mut calendars = expand::asked(db, owner, Some(id)).await?;
    calendars
        .pop()
        .ok_or_else(|| Problem::not_found("calendar_not_found", "The calendar"))
}

/// Writes a whole calendar as a file.
pub(super) async fn written(db: &mut PgConnection, calendar: &Calendar) -> Result<String, Problem> {
    let ever = |days| DateTime::UNIX_EPOCH + TimeDelta::days(days);
    let events = events::within(&mut *db, &[calendar.id], ever(EVER.0), ever(EVER.1)).await?;
    if events.len() >= usize::try_from(MAX_ROWS).unwrap_or(usize::MAX) {
        let detail = format!("a file can have fewer than {MAX_ROWS} events; remove some, or use several calendars");
        return Err(Problem::conflict("calendar_too_large", detail));
    }
    Ok(ical::write(calendar, &events))
}

/// Export a calendar as an iCalendar file
#[utoipa::path(get, path = "/api/calendars/{id}/export.ics", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 200, description = "All events with their recurrence rules and exceptions", body = String, content_type = "text/calendar"),
        (status = 409, description = "The calendar has too many events for one file", body = rejoin_http::problem::ProblemBody,
            content_type = "application/problem+json"),
        Refused))]
async fn export(
    State(state): State<CalendarState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<([(HeaderName, &'static str); 2], String), Problem> {
    let mut db = caller.begin(&state).await?;
    let calendar = found(&mut db, caller.owner(), id).await?;
    let text = written(&mut db, &calendar).await?;
    let headers = [
        (CONTENT_TYPE, WITH_CHARSET),
        (CONTENT_DISPOSITION, "attachment; filename=\"calendar.ics\""),
    ];
    Ok((headers, text))
}

/// Import the events of an iCalendar file into a calendar. Importing the same file again changes nothing
#[utoipa::path(post, path = IMPORT_PATH, tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    request_body(content = String, content_type = "text/calendar", description = "At most 5 MiB and 10,000 components"),
    responses((status = 200, description = "What was imported, and what was not", body = ImportedBody),
        (status = 413, description = "The file is larger than 5 MiB", body = rejoin_http::problem::ProblemBody,
            content_type = "application/problem+json"),
        (status = 415, description = "The body is not text/calendar", body = rejoin_http::problem::ProblemBody,
            content_type = "application/problem+json"),
        Refused))]
async fn import(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ImportedBody>, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(KIND) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body must be text/calendar",
        ));
    }
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("a file can have at most {MAX_BYTES} bytes; import it in parts"),
        ),
        _ => Problem::bad_request("body_unreadable", "the body could not be read"),
    })?;
    let wrong = |detail: String| Problem::bad_request("invalid_icalendar", detail);
    let text = String::from_utf8(body.into()).map_err(|_| wrong("the file is not UTF-8".to_owned()))?;
    let calendar = found(&mut *caller.begin(&state).await?, caller.owner(), id).await?;
    // Expanding rules takes time: not on a thread that serves other callers.
    let (read, calendar) = tokio::task::spawn_blocking(move || (ical::read(&text, &calendar), calendar))
        .await
        .map_err(|_| Problem::internal())?;
    let read = read.map_err(wrong)?;
    let mut db = caller.begin(&state).await?;
    let done = imports::import(&mut db, caller.owner(), &calendar, read).await;
    let done = done.map_err(|error| match error {
        CalendarError::Wrong(detail) => wrong(detail),
        CalendarError::Database(error) => error.into(),
    })?;
    db.commit().await?;
    Ok(Json(done.into()))
}
