//! Several tool calls of one step: in parallel if all are read-only, else sequentially; recorded in the model's order.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use rejoin_tests::tools::Meeting;
use rejoin_tools::registry::Registry;
use serde_json::{Value, json};

fn three(names: [&str; 3]) -> Reply {
    Reply::tools(names.into_iter().enumerate().map(|(n, name)| (name, json!({ "n": n }))))
}

async fn app(tools: Registry) -> TestApp {
    TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await
}

/// Returns the tool results given to the model, in order.
fn told(app: &TestApp) -> Vec<String> {
    let requests = app.model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn read_only_calls_run_in_parallel_and_are_recorded_in_order() {
    // None of them ends before all three have begun.
    let (tool, most) = Meeting::shared("look", true, 3);
    let app = app(Registry::new([tool])).await;
    let agent = app.agent("reader", &["look"]).await;
    app.model.script([three(["look", "look", "look"]), Reply::text("done")]);
    let events = json_of(&app.client().ask(Some(agent), "look around").await);
    assert_eq!(*most.lock().unwrap(), 3);
    assert_eq!(told(&app), ["0", "1", "2"]);
    let calls = of_kind(&events, "mcp_tool");
    let ended: Vec<&Value> = calls
        .iter()
        .filter(|call| call["status"] == "completed")
        .map(|call| &call["result"])
        .collect();
    assert_eq!(ended, [&json!(0), &json!(1), &json!(2)]);
    assert_eq!(calls.iter().filter(|call| call["status"] == "started").count(), 3);
}

#[tokio::test]
async fn one_call_that_writes_makes_all_of_the_step_go_in_turn() {
    let (reads, most_reads) = Meeting::shared("look", true, 1);
    let (writes, most_writes) = Meeting::shared("write", false, 1);
    let app = app(Registry::new([reads, writes])).await;
    let agent = app.agent("writer", &["*"]).await;
    app.model
        .script([three(["look", "write", "look"]), Reply::text("done")]);
    let events = json_of(&app.client().ask(Some(agent), "look and write").await);
    assert_eq!((*most_reads.lock().unwrap(), *most_writes.lock().unwrap()), (1, 1));
    let statuses: Vec<&Value> = of_kind(&events, "mcp_tool")
        .iter()
        .map(|call| &call["status"])
        .collect();
    let (started, completed) = (json!("started"), json!("completed"));
    assert_eq!(
        statuses,
        [&started, &completed, &started, &completed, &started, &completed]
    );
    assert_eq!(told(&app), ["0", "1", "2"]);
}

#[tokio::test]
async fn a_wrong_call_among_them_is_an_error_and_the_others_run() {
    let (tool, _) = Meeting::shared("look", true, 2);
    let app = app(Registry::new([tool])).await;
    let agent = app.agent("reader", &["look"]).await;
    let calls = [
        ("look", json!({"n": 0})),
        ("look", json!({"n": "one"})),
        ("look", json!({"n": 2})),
    ];
    app.model.script([Reply::tools(calls), Reply::text("done")]);
    app.client().ask(Some(agent), "look around").await;
    let told = told(&app);
    assert_eq!((told[0].as_str(), told[2].as_str()), ("0", "2"));
    assert!(told[1].contains("wrong arguments"), "{told:?}");
}

#[tokio::test]
async fn calls_side_by_side_all_end_when_their_run_is_cancelled() {
    // A fourth never comes.
    let (tool, most) = Meeting::shared("look", true, 4);
    let app = app(Registry::new([tool])).await;
    let agent = app.agent("reader", &["look"]).await;
    app.model.script([three(["look", "look", "look"])]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "look around", "agentDefinitionId": agent}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    wait_for("all three to be under way", async || {
        (*most.lock().unwrap() == 3).then_some(())
    })
    .await;
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    let calls = of_kind(&events, "mcp_tool");
    assert_eq!(calls.iter().filter(|call| call["status"] == "started").count(), 3);
    assert_eq!(
        calls.iter().filter(|call| call["status"] == "error").count(),
        3,
        "each that began also ended"
    );
}
