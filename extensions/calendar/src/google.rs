//! Two-way sync with Google Calendar (docs/guide/calendar.md). The API uses settings and rows; only a worker's job
//! calls Google.
//!
//! - `settings`  the OAuth client and Google's addresses
//! - `oauth_states` pending OAuth authorizations
//! - `links`     links between local and Google calendars (`kb.google_links`)
//! - `mappings`  mappings between local and Google events (`kb.google_events`)
//! - `snapshot`  comparable snapshots of an event, and their merge
//! - `wire`      Google's event format
//! - `client`    requests to Google, and its errors
//! - `oauth_exchange` exchanges an authorization code for a token, and lists calendars
//! - `sync`      one job: `pull` and `push`, and handling of failures (`error`)
//! - `pull`      Google's list of changes, page by page; `apply_remote` applies one of them
//! - `push`      sends local changes, event by event
//!
//! Invariants: a crash at any point duplicates no event, since an event's id at Google derives from its local id, and
//! vice versa; on conflicting changes Google's version wins, and the calendar's user is notified.

mod apply_remote;
pub mod client;
mod error;
pub mod links;
mod mappings;
pub mod oauth_exchange;
pub mod oauth_states;
mod pull;
mod push;
pub mod settings;
pub mod snapshot;
pub mod sync;
pub mod wire;

pub use settings::{Google, GoogleArgs};
