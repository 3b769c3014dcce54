//! Calendars of users, which agents read and write for them; some are kept the same as ones at Google.
//!
//! - `recurrence`  rules by which events come back, bounded
//! - `events`      rows of `kb.calendars` and `kb.calendar_events`
//! - `occurrences` what happens when: events within a time, those that come back expanded
//! - `changes`     an event changed or removed: once, from then on, or always
//! - `ical`        iCalendar files: written, and read in bounds
//! - `imports`     what such a file says, put into a calendar
//! - `feeds`       addresses that show a calendar to whoever knows them
//! - `google`      calendars that are kept the same as ones at Google
//! - `links`       which entities of the work graph events belong to
//! - `said`        what somebody says of an event, and the event that this makes
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
