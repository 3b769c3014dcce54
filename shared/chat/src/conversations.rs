//! What users do with their conversations besides talking: find, arrange, branch, share, export and rate them. The conversations themselves and
//! their messages are endpoints of `api`.
//!
//! - `bulk`     changes or deletes many at once
//! - `folders`  folders of conversations
//! - `search`   full-text search over messages, and its language
//! - `branches` versions of messages
//! - `export`   one conversation as Markdown or JSON
//! - `shares`   links that share a conversation, for its owner
//! - `shared`   a shared conversation, for readers without a key
//! - `feedback` users' feedback on answers

mod branches;
mod bulk;
mod export;
mod feedback;
mod folders;
mod search;
mod shared;
mod shares;

use crate::state::Routes;
pub use shared::workspace_of_link;

pub fn routes() -> Routes {
    Routes::new()
        .merge(bulk::routes())
        .merge(folders::routes())
        .merge(search::routes())
        .merge(branches::routes())
        .merge(export::routes())
        .merge(shares::routes())
        .merge(shared::routes())
        .merge(feedback::routes())
}
