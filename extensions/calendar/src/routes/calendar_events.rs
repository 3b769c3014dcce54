//! `/api/calendars/{id}/events` and `/api/calendar-events/{id}`: events that callers create, change and delete, as
//! their agents do.
//!
//! Invariant: a change may name the version that it is based on: it is refused if the event has another one.

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{CalendarState, Routes};
use crate::edit_series::{self, Extent};
use crate::event_patch::EventPatch;
use crate::events::{self, Event};
use crate::expand::{self, CalendarError};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create))
        .routes(routes!(get, change, delete))
}

/// Fields of an event; in an update, absent fields stay unchanged
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventRequest {
    #[schema(max_length = 200)]
    pub title: Option<String>,
    #[schema(max_length = 8000)]
    pub description: Option<String>,
    #[schema(max_length = 500)]
    pub location: Option<String>,
    /// In the time zone `timeZone` (`2026-03-01T10:00`), with an offset, or a date
    pub start: Option<String>,
    /// In the same format; for an all-day event the day after its last day
    pub end: Option<String>,
    pub all_day: Option<bool>,
    /// IANA time zone; for a new event the default is the calendar's
    pub time_zone: Option<String>,
    /// Recurrence rule as in RFC 5545, daily at most, such as `FREQ=WEEKLY;BYDAY=MO`; empty: does not repeat
    pub rrule: Option<String>,
}

impl From<EventRequest> for EventPatch {
    fn from(request: EventRequest) -> Self {
        Self {
            title: request.title,
            description: request.description,
            location: request.location,
            start: request.start,
            end: request.end,
            all_day: request.all_day,
            time_zone: request.time_zone,
            rrule: request.rrule,
        }
    }
}

/// An event; for a repeating event, its first occurrence
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventBody {
    pub id: Uuid,
    pub calendar_id: Uuid,
    pub title: String,
    pub description: String,
    pub location: String,
    pub start: String,
    pub end: String,
    pub all_day: bool,
    pub time_zone: String,
    pub rrule: Option<String>,
    /// The repeating event of which it replaces an occurrence
    pub series_id: Option<Uuid>,
    /// The original start of that occurrence
    pub replaces_occurrence: Option<DateTime<Utc>>,
    /// Version number, incremented by each change
    pub version: i32,
}

impl From<Event> for EventBody {
    fn from(event: Event) -> Self {
        let shown = expand::occurrence(&event, event.content.start);
        Self {
            id: event.id,
            calendar_id: event.calendar_id,
            title: event.content.title,
            description: event.content.description,
            location: event.content.location,
            start: shown.start,
            end: shown.end,
            all_day: shown.all_day,
            time_zone: shown.time_zone,
            rrule: event.content.rrule,
            series_id: event.replaces.map(|(series, _)| series),
            replaces_occurrence: event.replaces.map(|(_, at)| at),
            version: event.version,
        }
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExtentParams {
    /// Part of a repeating event: `this` occurrence, `following` (it and all later ones), or `all` (default)
    pub scope: Option<String>,
    /// With `this` and `following`: the time at which the occurrence begins
    pub occurrence: Option<DateTime<Utc>>,
}

impl ExtentParams {
    fn extent(&self) -> Result<Extent, Problem> {
        match (self.scope.as_deref(), self.occurrence) {
            (None | Some("all"), None) => Ok(Extent::All),
            (Some("this"), Some(at)) => Ok(Extent::This(at)),
            (Some("following"), Some(at)) => Ok(Extent::Following(at)),
            (_, _) => Err(Problem::bad_request(
                "invalid_query",
                "scope must be this, following or all; this and following require `occurrence`, the time at which the \
                occurrence begins",
            )),
        }
    }
}

type EventResponse = ([(HeaderName, String); 1], Json<EventBody>);

fn event_response(event: Event) -> EventResponse {
    let etag = format!("\"{}\"", event.version);
    ([(ETAG, etag)], Json(event.into()))
}

fn problem(error: CalendarError) -> Problem {
    match error {
        CalendarError::Wrong(detail) => Problem::bad_request("invalid_event", detail),
        CalendarError::Database(error) => error.into(),
    }
}

/// Locks and returns the caller's event; checks its version, if given.
async fn expected(db: &mut PgConnection, caller: &Caller, id: Uuid, headers: &HeaderMap) -> Result<Event, Problem> {
    let event = events::locked(db, caller.owner(), id).await?;
    let event = event
        .filter(|event| !event.is_deleted)
        .ok_or_else(|| Problem::not_found("event_not_found", "The event"))?;
    let Some(wanted) = headers.get(IF_MATCH) else {
        return Ok(event);
    };
    let text = wanted.to_str().unwrap_or_default().trim();
    let version: i32 = match text {
        "*" => return Ok(event),
        text => text.trim_matches('"').parse().map_err(|_| {
            Problem::bad_request(
                "invalid_if_match",
                "If-Match must be one version, as given by ETag, or *",
            )
        })?,
    };
    if version == event.version {
        Ok(event)
    } else {
        let detail = format!("the event was changed meanwhile; it is at version {}", event.version);
        Err(Problem::conflict("version_conflict", detail).with("version", event.version.into()))
    }
}

/// Create an event in a calendar
#[utoipa::path(post, path = "/api/calendars/{id}/events", tag = "calendar events", request_body = EventRequest,
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 201, description = "The event was created", body = EventBody, headers(("Location" = String, description = "URL \
        of the event"))),
        Refused, BodyRefused))]
async fn create(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(calendar_id): Segments<Uuid>,
    Body(request): Body<EventRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<EventBody>), Problem> {
    let mut db = caller.begin(&state).await?;
    let found = expand::asked(&mut db, caller.owner(), Some(calendar_id)).await?;
    let calendar = found
        .first()
        .ok_or_else(|| Problem::not_found("calendar_not_found", "The calendar"))?;
    let content = EventPatch::from(request)
        .new_content(calendar)
        .map_err(|detail| Problem::bad_request("invalid_event", detail))?;
    let id = ids::new();
    events::add(&mut db, id, calendar.id, &content, None).await?;
    let event = expected(&mut db, &caller, id, &HeaderMap::new()).await?;
    db.commit().await?;
    let location = format!("/api/calendar-events/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(event.into())))
}

/// Get an event
#[utoipa::path(get, path = "/api/calendar-events/{id}", tag = "calendar events",
    params(("id" = Uuid, Path, description = "The event")),
    responses((status = 200, description = "It", body = EventBody, headers(("ETag" = String, description = "Its version"))), Refused))]
async fn get(
    State(state): State<CalendarState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<EventResponse, Problem> {
    let mut db = caller.begin(&state).await?;
    Ok(event_response(expected(&mut db, &caller, id, &HeaderMap::new()).await?))
}

/// Update an event, or a part of a repeating event
///
/// Returns the changed event: for one occurrence, or for the following ones, this is a separate event.
#[utoipa::path(patch, path = "/api/calendar-events/{id}", tag = "calendar events", request_body = EventRequest,
    params(ExtentParams, ("id" = Uuid, Path, description = "The event"),
        ("If-Match" = Option<String>, Header, description = "The version that the change is based on")),
    responses((status = 200, description = "The updated event", body = EventBody, headers(("ETag" = String, description = "Its version"))),
        (status = 409, description = "The event has another version (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn change(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<ExtentParams>,
    headers: HeaderMap,
    Body(request): Body<EventRequest>,
) -> Result<EventResponse, Problem> {
    let (extent, patch) = (params.extent()?, EventPatch::from(request));
    let mut db = caller.begin(&state).await?;
    let event = expected(&mut db, &caller, id, &headers).await?;
    let changed = edit_series::update(&mut db, caller.owner(), event.id, extent, ids::new(), |content| {
        patch.apply_to(content)
    });
    let changed = changed.await.map_err(problem)?;
    db.commit().await?;
    Ok(event_response(changed))
}

/// Delete an event, or a part of a repeating event
#[utoipa::path(delete, path = "/api/calendar-events/{id}", tag = "calendar events",
    params(ExtentParams, ("id" = Uuid, Path, description = "The event"),
        ("If-Match" = Option<String>, Header, description = "The version to delete")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "The event has another version (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn delete(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<ExtentParams>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let extent = params.extent()?;
    let mut db = caller.begin(&state).await?;
    let event = expected(&mut db, &caller, id, &headers).await?;
    edit_series::delete(&mut db, caller.owner(), event.id, extent)
        .await
        .map_err(problem)?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
