//! The web: agents search it and visit pages, where a workspace lets them. The workers' pools give agents the tools; what a workspace has
//! switched on is in `rejoin_integrations::web_settings`.
//!
//! # Layout
//! - `web`     the process's side: providers, limits, the kept pages
//! - `tools`   `web_search` and `web_visit`, as agents see them
//! - `search` `search/`   what search providers have in common; one file a provider
//! - `visit` `pages`      a page, fetched or cached; the cache
//! - `routes`  HTTP endpoints of a workspace's settings
//! - `text`    what of a page is text for a model

pub mod extension;
pub mod pages;
pub mod routes;
pub mod search;
pub mod text;
pub mod tools;
pub mod visit;
pub mod web;

pub use web::{Web, WebArgs};
