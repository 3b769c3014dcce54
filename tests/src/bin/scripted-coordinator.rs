//! The scripted model of `examples/dag`: serves OpenAI's protocol at the address in its argument, splits any request
//! into five tasks, and returns a scripted answer for each. No language model, no rules about graphs.

use anyhow::Context as _;
use rejoin_tests::model_server::{ModelServer, Reply, last_user_message};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args()
        .nth(1)
        .context("an address is needed, as 127.0.0.1:7430")?;
    let model = ModelServer::start_on(&address).await?;
    model.answer_by(answer);
    std::future::pending().await
}

fn answer(request: &Value) -> Option<Reply> {
    let asked = last_user_message(request);
    let offers_tasks = request["tools"].to_string().contains("create_tasks");
    let has_result = request["messages"]
        .as_array()?
        .iter()
        .any(|message| message["role"] == "tool");
    Some(match (offers_tasks, has_result) {
        (true, false) => Reply::tool("create_tasks", json!({ "name": asked, "tasks": tasks(&asked) })),
        (true, true) => {
            Reply::text("Five tasks are done: four side by side, and one that waited for them. (This is a script.)")
        }
        (false, _) => Reply::text(format!("Done: {}", asked.lines().next().unwrap_or_default())).words_every(50),
    })
}

fn tasks(question: &str) -> Vec<Value> {
    let ids = ["first", "second", "third", "fourth"];
    let mut tasks: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "title": format!("The {id} part of: {question}"), "agent": "graph-query-agent"}))
        .collect();
    tasks.push(json!({"id": "join", "title": "Put it together", "after": ids, "agent": "graph-query-agent"}));
    tasks
}
