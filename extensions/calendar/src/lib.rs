//! Calendars of users, which agents read and write for them; some are synced with Google Calendar.
//!
//! - `recurrence`  recurrence rules, bounded
//! - `events`      rows of `kb.calendars` and `kb.calendar_events`
//! - `expand` expands events into occurrences within a period
//! - `edit_series` changes or deletes one occurrence, this and following, or the series
//! - `ical`        iCalendar files: written, and parsed within bounds
//! - `imports`     imports iCalendar files
//! - `feeds`       secret subscription addresses
//! - `google`      two-way sync with Google Calendar
//! - `entity_links` links from events to entities of the work graph
//! - `event_patch` patches of events
//! - `tools`       the seven tools of agents
//! - `routes`      HTTP endpoints

pub mod edit_series;
pub mod entity_links;
pub mod event_patch;
pub mod events;
pub mod expand;
pub mod extension;
pub mod feeds;
pub mod google;
pub mod ical;
pub mod imports;
pub mod recurrence;
pub mod routes;
pub mod tools;
