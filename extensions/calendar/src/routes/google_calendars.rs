//! `/api/calendars/{id}/google`: sync with Google Calendar. Users authorize at Google and return to the page, which
//! sends the code here with the user's own session. Only workers call Google.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::origin::Origin;
use rejoin_http::probe::Probe;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{CalendarState, Routes};
use crate::google::links::{self, Link};
use crate::google::oauth_states::{self, CODE_MAX_BYTES, Outcome};

/// The page to which Google redirects users.
const BACK: &str = "/calendar/google";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(begin_google, show_google, choose_google, unlink_google))
        .routes(routes!(sync_google))
        .routes(routes!(come_back_from_google))
}

/// Sync status of a calendar and its Google calendar
#[derive(Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum GoogleState {
    /// The Google calendar has not been chosen yet
    Choosing,
    Linked,
    /// Google access was revoked
    Revoked,
}

/// Where to send the browser
#[derive(Debug, Serialize, ToSchema)]
pub struct GoogleConsentBody {
    /// Google's consent page, which redirects to `/calendar/google` of the web app with `state`, and `code` or `error`
    pub url: String,
}

/// Parameters of Google's redirect
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GoogleAnswer {
    #[schema(max_length = 200)]
    pub state: String,
    #[schema(max_length = 4000)]
    pub code: Option<String>,
    /// Why there is no code, such as `access_denied`
    #[schema(max_length = 200)]
    pub error: Option<String>,
}

/// A calendar with access to Google
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleEntered {
    pub calendar_id: Uuid,
    pub link: GoogleLinkBody,
}

/// One of the user's Google calendars
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleChoice {
    pub id: String,
    pub name: String,
    pub time_zone: String,
    /// Changes made here would not be sent
    pub is_read_only: bool,
    pub is_primary: bool,
}

/// The chosen calendar
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleCalendarBody {
    pub id: String,
    pub name: String,
    pub is_read_only: bool,
}

/// A note for the calendar's user
#[derive(Debug, Serialize, ToSchema)]
pub struct GoogleNote {
    pub at: DateTime<Utc>,
    pub text: String,
}

/// A calendar and its Google calendar
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleLinkBody {
    #[schema(value_type = GoogleState)]
    pub state: String,
    /// The user's Google calendars
    pub choices: Vec<GoogleChoice>,
    pub google_calendar: Option<GoogleCalendarBody>,
    /// When both were last in sync
    pub synced_at: Option<DateTime<Utc>>,
    pub is_syncing: bool,
    /// Number of local changes that have not been sent to Google
    pub waiting: i64,
    /// Why the last sync failed
    pub problem: Option<String>,
    /// Notes, newest last, such as local changes that were overwritten by Google's
    pub notes: Vec<GoogleNote>,
}

impl From<Link> for GoogleLinkBody {
    fn from(link: Link) -> Self {
        let is_read_only = link.is_read_only;
        let chosen = link
            .google_id
            .filter(|_| link.state != "choosing")
            .map(|id| GoogleCalendarBody {
                name: link.google_name.unwrap_or_else(|| id.clone()),
                id,
                is_read_only,
            });
        let choices = link.choices.into_iter().map(|choice| GoogleChoice {
            id: choice.id,
            name: choice.name,
            time_zone: choice.time_zone,
            is_read_only: choice.is_read_only,
            is_primary: choice.is_primary,
        });
        let notes = link.notes.into_iter().map(|note| GoogleNote {
            at: note.at,
            text: note.text,
        });
        Self {
            state: link.state,
            choices: choices.collect(),
            google_calendar: chosen,
            synced_at: link.synced_at,
            is_syncing: link.is_syncing,
            waiting: link.waiting,
            problem: link.problem,
            notes: notes.collect(),
        }
    }
}

/// The Google calendar to link
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChosenGoogleCalendar {
    /// One of `choices`
    #[schema(max_length = 1000)]
    pub google_calendar_id: String,
}

fn no_link() -> Problem {
    Problem::not_found("google_link_not_found", "The calendar's link with Google")
}

async fn link(state: &CalendarState, caller: &Caller, id: Uuid) -> Result<Link, Problem> {
    let mut db = caller.begin(state).await?;
    links::get(&mut *db, caller.owner(), id).await?.ok_or_else(no_link)
}

/// Start linking a calendar to Google: returns the URL of the consent page
#[utoipa::path(post, path = "/api/calendars/{id}/google", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 201, description = "Begun", body = GoogleConsentBody),
        (status = 409, description = "It is already linked, or the operator has not configured Google", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn begin_google(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Origin(origin): Origin,
    Segments(id): Segments<Uuid>,
) -> Result<(StatusCode, Json<GoogleConsentBody>), Problem> {
    let args = &state.google;
    if !args.is_on() {
        let detail = "linking calendars is not configured; the operator must set REJOIN_GOOGLE_CLIENT_ID and \
            REJOIN_GOOGLE_CLIENT_SECRET";
        return Err(Problem::conflict("google_not_configured", detail));
    }
    let mut db = caller.begin(&state).await?;
    let known = links::get(&mut *db, caller.owner(), id).await?;
    if known.is_some_and(|link| link.state == "linked") {
        return Err(Problem::conflict(
            "calendar_linked",
            "the calendar is already linked; unlink it first",
        ));
    }
    let back = match &args.google_redirect_url {
        Some(url) => url.to_string(),
        None => format!("{origin}{BACK}"),
    };
    let url = oauth_states::begin(&mut db, args, caller.owner(), id, &back).await?;
    let url = url.ok_or_else(|| Problem::not_found("calendar_not_found", "The calendar"))?;
    db.commit().await?;
    Ok((StatusCode::CREATED, Json(GoogleConsentBody { url: url.to_string() })))
}

/// Submit Google's authorization code: a worker exchanges it, and the user then chooses a calendar
#[utoipa::path(post, path = "/api/google/consents", tag = "calendars", request_body = GoogleAnswer,
    responses((status = 200, description = "Access was granted", body = GoogleEntered),
        (status = 502, description = "Google failed, or rejected the code", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "No worker has responded yet", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn come_back_from_google(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Body(answer): Body<GoogleAnswer>,
) -> Result<Json<GoogleEntered>, Problem> {
    let unknown = || {
        let detail = "this authorization is unknown, expired or already used; start again";
        Problem::bad_request("consent_unknown", detail)
    };
    let owner = caller.owner();
    let code = answer.code.as_deref().filter(|code| !code.is_empty());
    let Some(code) = code else {
        let mut db = caller.begin(&state).await?;
        if !oauth_states::end(&mut *db, owner, &answer.state).await? {
            return Err(unknown());
        }
        db.commit().await?;
        return Err(match answer.error.as_deref() {
            None | Some("access_denied") => {
                Problem::bad_request("consent_refused", "access was not granted, so nothing was linked")
            }
            Some(error) => {
                let error: String = error.chars().filter(|c| !c.is_control()).take(200).collect();
                Problem::new(
                    StatusCode::BAD_GATEWAY,
                    "google_failed",
                    format!(
                        "Google responded with the error \
                    {error}"
                    ),
                )
            }
        });
    };
    if code.len() > CODE_MAX_BYTES || code.contains('\0') {
        let detail = format!("a code can have at most {CODE_MAX_BYTES} bytes");
        return Err(Problem::bad_request("invalid_code", detail));
    }
    let mut db = caller.begin(&state).await?;
    let calendar_id = oauth_states::redeem(&mut *db, owner, &answer.state, code).await?;
    let calendar_id = calendar_id.ok_or_else(unknown)?;
    db.commit().await?;
    let job = json!({ "calendarId": calendar_id });
    let mut probe = Probe::start(&state, &caller, links::KIND, job, calendar_id).await?;
    loop {
        let mut db = caller.begin(&state).await?;
        match oauth_states::outcome(&mut *db, owner, &answer.state).await? {
            Outcome::Waiting => drop(db),
            Outcome::Failed(failure) => {
                oauth_states::end(&mut *db, owner, &answer.state).await?;
                db.commit().await?;
                return Err(Problem::new(StatusCode::BAD_GATEWAY, "google_failed", failure));
            }
            Outcome::Entered => {
                drop(db);
                let link = link(&state, &caller, calendar_id).await?.into();
                return Ok(Json(GoogleEntered { calendar_id, link }));
            }
        }
        probe.wait(&state).await?;
    }
}

/// Get the sync status of a calendar
#[utoipa::path(get, path = "/api/calendars/{id}/google", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 200, description = "The link", body = GoogleLinkBody), Refused))]
async fn show_google(
    State(state): State<CalendarState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<GoogleLinkBody>, Problem> {
    Ok(Json(link(&state, &caller, id).await?.into()))
}

/// Choose the Google calendar to sync with
#[utoipa::path(put, path = "/api/calendars/{id}/google", tag = "calendars", request_body = ChosenGoogleCalendar,
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 200, description = "Chosen", body = GoogleLinkBody),
        (status = 409, description = "Google access was revoked, or another calendar is linked to it", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn choose_google(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(chosen): Body<ChosenGoogleCalendar>,
) -> Result<Json<GoogleLinkBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let known = links::get(&mut *db, caller.owner(), id).await?.ok_or_else(no_link)?;
    if known.state == "revoked" {
        let detail = "Google access was revoked; grant it again first";
        return Err(Problem::conflict("google_revoked", detail));
    }
    let choice = known
        .choices
        .iter()
        .find(|choice| choice.id == chosen.google_calendar_id);
    let choice = choice.ok_or_else(|| {
        let detail = "googleCalendarId is not one of `choices`; use one of their ids";
        Problem::bad_request("unknown_google_calendar", detail)
    })?;
    if !links::choose(&mut db, id, choice).await? {
        let detail = "another one of your calendars is linked to it; unlink that one first";
        return Err(Problem::conflict("google_calendar_taken", detail));
    }
    let target = format!("calendar:{id}");
    record(&mut db, &caller, Action::CalendarLinked, target, json!({})).await?;
    db.commit().await?;
    start(&state, &caller, id).await?;
    Ok(Json(link(&state, &caller, id).await?.into()))
}

/// Sync a calendar with Google now
#[utoipa::path(post, path = "/api/calendars/{id}/google/sync", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 202, description = "The sync was requested", body = GoogleLinkBody),
        (status = 409, description = "It is not linked", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn sync_google(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<(StatusCode, Json<GoogleLinkBody>), Problem> {
    let known = link(&state, &caller, id).await?;
    let mut db = caller.begin(&state).await?;
    if !links::ask(&mut *db, caller.owner(), id).await? {
        let detail = format!("the calendar is {}, so it cannot be synced", known.state);
        return Err(Problem::conflict("calendar_not_linked", detail));
    }
    db.commit().await?;
    start(&state, &caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(link(&state, &caller, id).await?.into())))
}

/// Unlink a calendar from Google. Its events are kept on both sides
#[utoipa::path(delete, path = "/api/calendars/{id}/google", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 204, description = "Unlinked"), Refused))]
async fn unlink_google(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if !links::remove(&mut *db, caller.owner(), id).await? {
        return Err(no_link());
    }
    let target = format!("calendar:{id}");
    record(&mut db, &caller, Action::CalendarUnlinked, target, json!({})).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts a worker's job immediately; the sweep would do so a moment later.
async fn start(state: &CalendarState, caller: &Caller, id: Uuid) -> Result<(), Problem> {
    let job = links::job(caller.workspace_id, id);
    let mut db = caller.begin(state).await?;
    rejoin_queue::enqueue(&mut db, &job).await?;
    db.commit().await?;
    state.bus.publish(Wake::queue(job.queue));
    Ok(())
}
