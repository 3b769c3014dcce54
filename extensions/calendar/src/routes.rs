//! The endpoints of calendars: one file per noun, each with its DTOs and handlers. `api` merges them with the others.
//!
//! - `calendars`      callers' calendars and their occurrences
//! - `calendar_events`  events created and changed by users
//! - `calendar_files`   calendars as iCalendar files
//! - `calendar_feeds`   secret subscription addresses of calendars
//! - `google_calendars` sync with Google Calendar

pub mod calendar_events;
pub mod calendar_feeds;
pub mod calendar_files;
pub mod calendars;
pub mod google_calendars;

use std::sync::Arc;

use rejoin_http::{HttpState, authorization, contains_http_state};

use crate::google::GoogleArgs;

/// The state of the handlers.
#[derive(Clone)]
pub struct CalendarState {
    pub http: HttpState,
    pub google: Arc<GoogleArgs>,
}

contains_http_state!(CalendarState);

/// Routes with this state.
pub type Routes = authorization::Routes<CalendarState>;

pub fn routes() -> Routes {
    Routes::new()
        .merge(calendars::routes())
        .merge(calendar_events::routes())
        .merge(calendar_files::routes())
        .merge(calendar_feeds::routes())
        .merge(google_calendars::routes())
}
