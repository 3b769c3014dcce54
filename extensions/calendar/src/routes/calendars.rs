//! `/api/calendars`: the caller's calendars and their occurrences. Agents create events there for the caller; other
//! users cannot see them.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header::LOCATION};
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::google_calendars::GoogleState;
use super::{CalendarState, Routes};
use crate::events::{self, Calendar, MAX_CALENDARS};
use crate::expand::{self, CalendarError, Occurrence};
use crate::feeds;
use crate::google::links;

/// Maximum length of a calendar's name, in characters.
const NAME_MAX_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(delete))
        .routes(routes!(happening))
}

/// A calendar
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalendarBody {
    pub id: Uuid,
    pub name: String,
    /// IANA time zone
    pub time_zone: String,
    /// The work-graph project that the calendar belongs to
    pub work_project_id: Option<Uuid>,
    /// Whether the calendar has a feed
    pub has_feed: bool,
    /// Status of its sync with a Google calendar; null: not linked
    #[schema(value_type = Option<GoogleState>)]
    pub google: Option<String>,
}

impl CalendarBody {
    fn of(calendar: Calendar, has_feed: bool, google: Option<String>) -> Self {
        Self {
            has_feed,
            google,
            id: calendar.id,
            name: calendar.name,
            time_zone: calendar.time_zone,
            work_project_id: calendar.work_project,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Calendars {
    pub items: Vec<CalendarBody>,
    /// Whether calendars can be linked to Google calendars
    pub google_available: bool,
}

/// A new calendar
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewCalendar {
    #[schema(pattern = r"\S", max_length = 200)]
    pub name: String,
    /// IANA time zone, such as `Europe/Berlin`
    pub time_zone: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TimeParams {
    /// Start of the time range
    pub from: DateTime<Utc>,
    /// End of the time range, at most two years after its start
    pub to: DateTime<Utc>,
    /// Only events that contain these words
    pub q: Option<String>,
}

/// An occurrence of an event
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OccurrenceBody {
    pub event_id: Uuid,
    pub title: String,
    pub location: String,
    /// In the time zone `timeZone`, with its offset; a date for an all-day event
    pub start: String,
    /// In the same format; for an all-day event the day after its last day
    pub end: String,
    pub all_day: bool,
    pub time_zone: String,
    /// Whether the event repeats
    pub recurring: bool,
}

impl From<Occurrence> for OccurrenceBody {
    fn from(occurrence: Occurrence) -> Self {
        Self {
            event_id: occurrence.event_id,
            title: occurrence.title,
            location: occurrence.location,
            start: occurrence.start,
            end: occurrence.end,
            all_day: occurrence.all_day,
            time_zone: occurrence.time_zone,
            recurring: occurrence.recurring,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Occurrences {
    pub items: Vec<OccurrenceBody>,
    /// There are more occurrences than returned; use a shorter time range
    pub truncated: bool,
}

fn not_found() -> Problem {
    Problem::not_found("calendar_not_found", "The calendar")
}

/// List the caller's calendars, oldest first
#[utoipa::path(get, path = "/api/calendars", tag = "calendars",
    responses((status = 200, description = "All calendars", body = Calendars), Refused))]
async fn list(State(state): State<CalendarState>, caller: Caller<Read>) -> Result<Json<Calendars>, Problem> {
    let mut db = caller.begin(&state).await?;
    let calendars = events::calendars(&mut *db, caller.owner()).await?;
    let feeds = feeds::list(&mut *db, caller.owner()).await?;
    let mut google: HashMap<Uuid, String> = links::states(&mut *db, caller.owner()).await?.into_iter().collect();
    let body = |calendar: Calendar| {
        let has_feed = feeds.contains(&calendar.id);
        let google = google.remove(&calendar.id);
        CalendarBody::of(calendar, has_feed, google)
    };
    let items = calendars.into_iter().map(body).collect();
    Ok(Json(Calendars {
        items,
        google_available: state.google.is_on(),
    }))
}

/// Create a calendar
#[utoipa::path(post, path = "/api/calendars", tag = "calendars", request_body = NewCalendar,
    responses((status = 201, description = "Added", body = CalendarBody, headers(("Location" = String, description = "The \
        occurrences in the time range"))),
        (status = 409, description = "There are too many calendars", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Body(request): Body<NewCalendar>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<CalendarBody>), Problem> {
    let wrong = |detail: String| Problem::bad_request("invalid_calendar", detail);
    let name = request.name.trim();
    if name.is_empty() || name.chars().count() > NAME_MAX_CHARS || name.contains('\0') {
        return Err(wrong(format!(
            "a calendar's name must have 1 to {NAME_MAX_CHARS} characters"
        )));
    }
    if !events::is_time_zone(&request.time_zone) {
        let detail = format!(
            "{:?} is not a time zone; use an IANA name such as Europe/Berlin",
            request.time_zone
        );
        return Err(wrong(detail));
    }
    let calendar = Calendar {
        id: ids::new(),
        name: name.to_owned(),
        time_zone: request.time_zone,
        work_project: None,
    };
    let mut db = caller.begin(&state).await?;
    if !events::add_calendar(&mut db, caller.owner(), &calendar).await? {
        let detail = format!("a user can have at most {MAX_CALENDARS} calendars per project");
        return Err(Problem::conflict("too_many_calendars", detail));
    }
    db.commit().await?;
    let location = format!("/api/calendars/{}/events", calendar.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(CalendarBody::of(calendar, false, None)),
    ))
}

/// Delete a calendar with all its events
#[utoipa::path(delete, path = "/api/calendars/{id}", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "It is linked to a Google calendar", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn delete(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if links::get(&mut *db, caller.owner(), id).await?.is_some() {
        let detail = "the calendar is linked to a Google calendar; unlink it first";
        return Err(Problem::conflict("calendar_linked", detail));
    }
    if !events::delete_calendar(&mut *db, caller.owner(), id).await? {
        return Err(not_found());
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the occurrences of events in a calendar within a time range
#[utoipa::path(get, path = "/api/calendars/{id}/events", tag = "calendars",
    params(TimeParams, ("id" = Uuid, Path, description = "The calendar")),
    responses((status = 200, description = "In chronological order", body = Occurrences), Refused))]
async fn happening(
    State(state): State<CalendarState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
    Params(params): Params<TimeParams>,
) -> Result<Json<Occurrences>, Problem> {
    let mut db = caller.begin(&state).await?;
    let calendars = expand::asked(&mut db, caller.owner(), Some(id)).await?;
    if calendars.is_empty() {
        return Err(not_found());
    }
    let happening = expand::between(&mut db, &calendars, (params.from, params.to), params.q.as_deref());
    let happening = happening.await.map_err(|error| match error {
        CalendarError::Wrong(detail) => Problem::bad_request("invalid_query", detail),
        CalendarError::Database(error) => error.into(),
    })?;
    Ok(Json(Occurrences {
        items: happening.events.into_iter().map(OccurrenceBody::from).collect(),
        truncated: happening.truncated,
    }))
}
