//! Calendars that are kept the same as ones at Google (docs/guide/calendar.md). Settings and rows are for the API, too; whatever asks
//! Google is called by a worker's job alone.
//!
//! - `settings`  who we are to Google, and where it is
//! - `consents`  users who were sent to Google, and come back
//! - `links`     calendars and their likes: rows of `kb.google_links`
//! - `pairs`     events and their likes: rows of `kb.google_events`
//! - `side`      what an event is on one side, comparable; and both sides merged
//! - `wire`      events as Google writes them
//! - `client`    requests to Google, and what its refusals mean
//! - `entering`  a user's code taken to Google: the token, and which calendars there are
//! - `sync`      one job: `pull` and `push`, and what becomes of its failures (`error`)
//! - `pull`      Google's list of changes, page by page; `taking` puts one of them into the calendar
//! - `push`      what was changed here, event by event
//!
//! Invariants: a crash anywhere in between makes no event twice, since an event's id at Google follows from its id here, and the other way
//! round; where both sides changed the same, Google's word counts, and the calendar's user is told.

pub mod client;
pub mod consents;
pub mod entering;
mod error;
pub mod links;
mod pairs;
mod pull;
mod push;
pub mod settings;
pub mod side;
pub mod sync;
mod taking;
pub mod wire;

pub use settings::{Google, GoogleArgs};
