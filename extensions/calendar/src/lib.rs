//! Calendars of users, which agents read and write for them; some are synced with Google Calendar.
//!
//! - `recurrence`  recurrence rules, bounded
//! - `events`      rows of `kb.calendars` and `kb.calendar_events`
//! - `occurrences` expands events into occurrences within a period
//! - `changes`     changes or deletes one occurrence, this and following, or the series
//! - `ical`        iCalendar files: written, and parsed within bounds
//! - `imports`     imports iCalendar files
//! - `feeds`       secret subscription addresses
//! - `google`      two-way sync with Google Calendar
//! - `links`       links from events to entities of the work graph
//! - `said`        patches of events
//! - `tools`       the seven tools of agents

pub mod changes;
pub mod events;
pub mod extension;
pub mod feeds;
pub mod google;
pub mod ical;
pub mod imports;
pub mod links;
pub mod occurrences;
pub mod recurrence;
pub mod said;
pub mod tools;
