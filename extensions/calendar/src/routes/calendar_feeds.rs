//! `/api/calendars/{id}/feed`: a calendar's secret subscription address, and its content. The address needs no key.

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_db::rls;
use rejoin_http::audit::record;
use rejoin_http::authorization::{Public, routes};
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Segments;
use rejoin_http::origin::Origin;
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::rate_limit::{Counted, ReportedLimit};
use rejoin_identity::audit::Action;
use rejoin_types::digest;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use super::calendar_files::{WITH_CHARSET, found, written};
use super::{CalendarState, Routes};
use crate::feeds;

/// Suffix of a feed's address, for programs that need it.
const ENDING: &str = ".ics";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create_feed, remove_feed))
        .routes(routes!(show_feed))
}

/// A new feed
#[derive(Debug, Serialize, ToSchema)]
pub struct FeedBody {
    /// The secret URL: anyone who has it can read the calendar. It is shown only this once
    pub url: String,
}

/// Create a secret URL that shows a calendar. It replaces the previous URL, which stops working
#[utoipa::path(post, path = "/api/calendars/{id}/feed", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 201, description = "Made", body = FeedBody), Refused))]
async fn create_feed(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Origin(origin): Origin,
    Segments(id): Segments<Uuid>,
) -> Result<(StatusCode, Json<FeedBody>), Problem> {
    let mut db = caller.begin(&state).await?;
    let secret = feeds::create(&mut *db, caller.owner(), id).await?;
    let secret = secret.ok_or_else(|| Problem::not_found("calendar_not_found", "The calendar"))?;
    let target = format!("calendar:{id}");
    record(&mut db, &caller, Action::CalendarFeedMade, target, json!({})).await?;
    db.commit().await?;
    let url = format!("{origin}/api/calendar-feeds/{secret}{ENDING}");
    Ok((StatusCode::CREATED, Json(FeedBody { url })))
}

/// Delete a calendar's feed: its URL stops working
#[utoipa::path(delete, path = "/api/calendars/{id}/feed", tag = "calendars",
    params(("id" = Uuid, Path, description = "The calendar")),
    responses((status = 204, description = "Gone"), Refused))]
async fn remove_feed(
    State(state): State<CalendarState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if !feeds::remove(&mut *db, caller.owner(), id).await? {
        return Err(Problem::not_found("calendar_feed_not_found", "The calendar's feed"));
    }
    let target = format!("calendar:{id}");
    record(&mut db, &caller, Action::CalendarFeedRemoved, target, json!({})).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read a feed: the calendar as an iCalendar file
///
/// The URL is the secret: no key is needed. Requests with `If-None-Match` get 304 if nothing has changed.
#[utoipa::path(get, path = "/api/calendar-feeds/{file}", tag = "calendars",
    params(("file" = String, Path, description = "The feed's secret, followed by .ics"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of the version that the reader has")),
    responses((status = 200, description = "All events of the calendar", body = String, content_type = "text/calendar"),
        (status = 304, description = "Not modified"),
        (status = 404, description = "There is no such feed, or it was removed", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The calendar has too many events for one file", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Requested too often", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json")))]
async fn show_feed(
    State(state): State<CalendarState>,
    _: Public,
    Extension(reported): Extension<ReportedLimit>,
    headers: HeaderMap,
    Segments(file): Segments<String>,
) -> Result<Response, Problem> {
    let not_found = || Problem::not_found("calendar_feed_not_found", "The calendar's feed");
    let secret = file.strip_suffix(ENDING).unwrap_or(&file);
    let feed = feeds::find(&state.db.pool_sqlx, secret).await?.ok_or_else(not_found)?;
    let (rate, counted) = state.rates.count(Counted {
        credential: feed.calendar_id,
        user: feed.owner.user_id,
        workspace: feed.owner.workspace_id,
    });
    reported.report(rate);
    counted?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(feed.owner)).await?;
    let calendar = found(&mut db, feed.owner, feed.calendar_id).await?;
    let text = written(&mut db, &calendar).await?;
    let tag = format!("\"{}\"", digest::hex(&digest::of_json(&[&json!(text)])[..16]));
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| {
        let known = known.to_str().unwrap_or_default();
        known
            .split(',')
            .any(|known| known.trim().trim_start_matches("W/") == tag)
    });
    let head = [
        (CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        (ETAG, HeaderValue::try_from(tag).map_err(|_| Problem::internal())?),
        (CONTENT_TYPE, HeaderValue::from_static(WITH_CHARSET)),
    ];
    Ok(if is_known {
        (StatusCode::NOT_MODIFIED, head).into_response()
    } else {
        (head, text).into_response()
    })
}
