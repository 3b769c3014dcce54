//! What is outside: the web, which agents search and visit for a project that lets them, and calendars of users. Imports `rejoin-shared` alone; the workers' pools
//! give agents the tools. What a project has switched on is in `rejoin_shared::web_settings`.
//!
//! # Layout
//! - `tools`   `web_search` and `web_visit`, as agents see them
//! - `search` `search/`   what search providers have in common; one file a provider
//! - `visit` `pages`      a page, fresh or as it was kept; the kept ones
//! - `fetch` `robots`     the guarded way out: addresses, redirects, sizes, time; what sites ask robots
//! - `calendar` events of users, and the tools over them
//! - `text`    what of a page is text for a model

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
