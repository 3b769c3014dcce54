//! Two-way sync with Google Calendar (docs/guide/calendar.md). The API uses settings and rows; only a worker's job
//! calls Google.
//!
//! - `settings`  the OAuth client and Google's addresses
//! - `consents`  pending OAuth authorizations
//! - `links`     links between local and Google calendars (`kb.google_links`)
//! - `pairs`     mappings between local and Google events (`kb.google_events`)
//! - `side`      comparable snapshots of an event, and their merge
//! - `wire`      Google's event format
//! - `client`    requests to Google, and its errors
//! - `entering`  exchanges an authorization code for a token, and lists calendars
//! - `sync`      one job: `pull` and `push`, and handling of failures (`error`)
//! - `pull`      Google's list of changes, page by page; `taking` applies one of them
//! - `push`      sends local changes, event by event
//!
//! Invariants: a crash at any point duplicates no event, since an event's id at Google derives from its local id, and
//! vice versa; on conflicting changes Google's version wins, and the calendar's user is notified.

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
