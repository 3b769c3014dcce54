//! Answers a request of a session whose own response was cut off, such as by the end of its process: the client reads on after the last event
//! that it has, and gets the result of the run that its request began.

use axum::response::Response;
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_runs::runs::Run;
use rejoin_sse::resumable::{self, Place};
use rmcp::ErrorData;
use rmcp::model::CallToolResponse;
use serde_json::{Value, json};

use super::{Follow, Turn, key};
use crate::mcp::elicitation::Way;
use crate::mcp::{Asked, refused};

/// Returns the run that a request of a session began. None: it began none.
async fn run(asked: &Asked, session: &str, request: &Value) -> Result<Option<Run>, Problem> {
    let Ok(request) = serde_json::from_value(request.clone()) else {
        return Ok(None);
    };
    let mut db = asked.caller.begin(&asked.state).await?;
    let found = rejoin_commands::run_of_key(&mut db, asked.caller.owner(), &key(session, &request)).await?;
    drop(db);
    match found {
        Some(run_id) => visible::run(&asked.state, &asked.caller, run_id).await.map(Some),
        None => Ok(None),
    }
}

/// Follows a run to its end. Its questions are part of the result.
async fn result(asked: &Asked, run: &Run) -> Result<Value, ErrorData> {
    let follow = Follow::of(asked, Turn::of(run), None, Way::None);
    let CallToolResponse::Complete(mut result) = follow.until_done().await? else {
        return Err(ErrorData::internal_error("the run has no result", None));
    };
    // Versions with sessions do not have it.
    result.result_type = None;
    Ok(json!(result))
}

pub async fn read_on(asked: Asked, session: &str, place: Place) -> Response {
    let id = place.request.clone();
    let run = match run(&asked, session, &id).await.map_err(refused) {
        Ok(Some(run)) => run,
        found => {
            let lost = ErrorData::internal_error("the server has stopped during this request; send it again", None);
            let error = found.err().unwrap_or(lost);
            return resumable::refused(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    let (draining, heartbeat) = (asked.state.draining.clone(), asked.state.config.streams.heartbeat());
    let message = async move {
        match result(&asked, &run).await {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        }
    };
    place.answered(message, draining, heartbeat)
}
