//! Prefetches what the next answer of a conversation needs.

use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_runs::contexts::{self, location};
use uuid::Uuid;

use crate::state::AppState;

/// Prefetches the model's context of a conversation. False: there is no project in focus.
pub async fn warm(state: &AppState, caller: &Caller, conversation_id: Uuid) -> Result<bool, Problem> {
    let mut db = caller.begin(state).await?;
    let (context, _) = contexts::of_conversation(&mut *db, conversation_id).await?;
    let Some(mut focus) = context.and_then(|context| context.focus) else {
        return Ok(false);
    };
    location::warm(&mut db, caller.workspace_id, &mut focus).await?;
    db.commit().await?;
    Ok(true)
}
