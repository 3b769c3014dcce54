//! The model of a chaos run: follows the plan in the user's message, for any worker.

use anyhow::Result;
use rejoin_tests::model_server::{ModelServer, Reply, last_user_message};
use serde_json::Value;

use crate::plan::Plan;

/// Starts it on 127.0.0.1.
pub async fn start() -> Result<ModelServer> {
    let server = ModelServer::start().await?;
    server.answer_by(answer);
    Ok(server)
}

fn answer(request: &Value) -> Option<Reply> {
    let plan = Plan::of(&last_user_message(request))?;
    let step = steps_done(request);
    let mut reply = Reply::text(plan.says(step)).words_every(plan.pace_ms);
    if let Some(call) = plan.steps.get(step).and_then(|step| step.call.as_ref()) {
        reply = reply.then_tool(&call.tool, plan.arguments(step));
    }
    Some(reply)
}

/// Counts the model's answers since the user's last message.
fn steps_done(request: &Value) -> usize {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages
        .iter()
        .rev()
        .take_while(|message| message["role"] != "user")
        .filter(|message| message["role"] == "assistant")
        .count()
}
