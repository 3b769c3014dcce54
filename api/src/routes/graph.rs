//! The knowledge graph of a workspace, for users and programs (agents have their tools).
//!
//! - `objects`        list, create, change, delete, restore; versions and edges
//! - `relationships`  relationships between objects
//! - `packs`          template packs and their installation
//! - `explore`        search, types, traversals
//! - `transfer`       NDJSON import and export, streamed
//!
//! Invariant: every handler checks first that the path's workspace is the caller's.

pub mod explore;
pub mod objects;
pub mod packs;
pub mod relationships;
pub mod transfer;

use rejoin_graph::{Actor, ActorKind};
use rejoin_http::caller::Caller;

use crate::state::Routes;

pub fn routes() -> Routes {
    Routes::new()
        .merge(objects::routes())
        .merge(relationships::routes())
        .merge(packs::routes())
        .merge(explore::routes())
        .merge(transfer::routes())
}

fn actor(caller: &Caller) -> Actor {
    Actor {
        kind: ActorKind::User,
        id: Some(caller.user_id),
    }
}
