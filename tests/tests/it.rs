//! stub
#[path = "it/models.rs"]
mod models;
