//! The knowledge graph of a workspace, for users and programs (agents have their tools).
//!
//! - `objects`        list, create, change, delete, restore; versions and edges
//! - `relationships`  relationships between objects
//! - `packs`          template packs and their installation
//! - `explore`        search, types, traversals
//! - `transfer`       NDJSON import and export, streamed
//!
//! Invariant: every handler checks that the path's workspace is the caller's before it asks the database.

pub mod explore;
pub mod objects;
pub mod packs;
pub mod relationships;
pub mod transfer;

use rejoin_db::rls;
use rejoin_graph::{Actor, ActorKind};
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .merge(objects::routes())
        .merge(relationships::routes())
        .merge(packs::routes())
        .merge(explore::routes())
        .merge(transfer::routes())
}

/// Begins a change of a project's graph, if the project is the caller's.
async fn begin_change(
    state: &AppState,
    caller: &Caller,
    workspace_id: Uuid,
) -> Result<Transaction<'static, Postgres>, Problem> {
    caller.in_workspace(workspace_id)?;
    Ok(rls::begin(&state.db.pool_sqlx, rls::Scope::Workspace(workspace_id)).await?)
}

fn actor(caller: &Caller) -> Actor {
    Actor {
        kind: ActorKind::User,
        id: Some(caller.user_id),
    }
}
