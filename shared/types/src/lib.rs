//! Types that every process shares, without I/O: the API writes them to clients, workers store them.
//!
//! # Layout
//! - `events`   the events of the wire
//! - `ids`      ids of rows
//! - `owner`    the owner of rows: a user in a workspace
//! - `access`   scopes: what an API key or a token may do
//! - `focus`    the focus of a conversation in the work graph
//! - `file_ref` references to files
//! - `digest`   digests and their text
//! - `text`     cutting and comparing texts
//! - `text_enum` enums whose values have texts

pub mod access;
pub mod digest;
pub mod events;
pub mod file_ref;
pub mod focus;
pub mod ids;
pub mod owner;
pub mod text;
pub mod text_enum;
