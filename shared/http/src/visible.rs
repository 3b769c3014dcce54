//! Visibility checks: conversations and runs by id, else 404.

use rejoin_runs::conversations::{self, Conversation};
use rejoin_runs::runs::{self, Run};
use uuid::Uuid;

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::HttpState;

pub fn conversation_not_found() -> Problem {
    Problem::not_found("conversation_not_found", "The conversation")
}

pub fn run_not_found() -> Problem {
    Problem::not_found("run_not_found", "The run")
}

/// Returns the caller's conversation with this id.
pub async fn conversation(state: &HttpState, caller: &Caller, id: Uuid) -> Result<Conversation, Problem> {
    let mut db = caller.begin(state).await?;
    conversations::get(&mut db, caller.owner(), id)
        .await?
        .ok_or_else(conversation_not_found)
}

/// Returns the run with this id, if the caller may see it.
pub async fn run(state: &HttpState, caller: &Caller, id: Uuid) -> Result<Run, Problem> {
    let mut db = caller.begin(state).await?;
    runs::get_visible(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(run_not_found)
}
