//! Web search and page visits by agents, for projects that enable them, and calendars of users. Imports `rejoin-shared`
//! alone; the workers' pools give agents the tools. A project's settings are in `rejoin_shared::web_settings`.
//!
//! # Layout
//! - `tools`   `web_search` and `web_visit`, as agents see them
//! - `search` `search/`   common code of search providers; one file per provider
//! - `visit` `pages`      a page, fresh or cached; the cache
//! - `fetch` `robots`     the guarded HTTP client: addresses, redirects, sizes, time; robots.txt
//! - `calendar` events of users, and the tools over them
//! - `text`    extracts a page's text for a model

pub mod calendar;
pub mod fetch;
pub mod pages;
pub mod robots;
pub mod search;
pub mod text;
pub mod tools;
pub mod visit;
pub mod web;

pub use web::{Web, WebArgs};
