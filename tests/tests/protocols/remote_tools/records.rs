//! Steps and outputs of several calls in one request: each counts alone.

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_types::ids;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::durable::{done, is_refused};
use super::{Program, events_of, hasty, tool, tool_with};

/// The record of a step of a call.
fn step(call: &Value, step: Value) -> Value {
    json!({"callId": call["id"], "attempt": call["attempt"], "step": step})
}

/// The record of a call's output.
fn output(call: &Value, output: Value) -> Value {
    json!({"callId": call["id"], "attempt": call["attempt"], "output": output})
}

impl Program {
    /// The state of the call or the code of the problem, for each record.
    async fn record_all(&self, records: Value) -> Vec<String> {
        let (status, answer) = self.send("records", json!({ "records": records })).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let answers = answer["records"].as_array().expect("answers");
        let what = |answer: &Value| answer.get("status").unwrap_or(&answer["problem"]["code"]).clone();
        answers
            .iter()
            .map(|answer| what(answer).as_str().expect("a text").to_owned())
            .collect()
    }
}

/// An agent whose model calls these tools at once, for the orders 0, 1, …
async fn asked_for(app: &TestApp, tools: &[&str]) -> Value {
    let agent = app.agent("clerk", &["refund", "pay"]).await;
    let calls = tools.iter().enumerate();
    let calls = calls.map(|(nth, tool)| (*tool, json!({"order": nth.to_string()})));
    app.model.script([Reply::tools(calls), Reply::text("Done.")]);
    app.client()
        .post_message(json!({"agentDefinitionId": agent, "message": "refund all orders"}))
        .await
}

/// These calls, in the order of their orders.
async fn claimed(program: &Program, count: usize) -> Vec<Value> {
    let mut calls = Vec::new();
    while calls.len() < count {
        calls.extend(program.claim(4, 20).await);
    }
    calls.sort_by_key(|call| call["input"]["order"].as_str().expect("an order").to_owned());
    calls
}

/// What the model was given as the results of its calls.
fn results_for_model(app: &TestApp) -> Vec<String> {
    let requests = app.model.requests();
    let messages = requests.last().expect("a request")["messages"].as_array().cloned();
    let results = messages.expect("messages").into_iter();
    results
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().expect("a text").to_owned())
        .collect()
}

fn quick(name: &str) -> Value {
    tool_with(name, json!({"readOnly": true}))
}

#[tokio::test]
async fn each_record_of_a_request_counts_alone() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([quick("refund")])).await;
    let posted = asked_for(&app, &["refund", "refund", "refund"]).await;
    let calls = claimed(&program, 3).await;
    let mut late = calls[1].clone();
    late["attempt"] = json!(7);
    let none = json!({"id": ids::new(), "attempt": 1});
    let records = json!([
        step(&calls[0], done(1, "look up", "12.50")),
        output(&late, json!("late")),
        output(&none, json!("nothing")),
        step(&calls[1], done(1, "x".repeat(201).as_str(), "")),
        step(&calls[0], done(1, "log in", "")),
        step(&calls[1], json!({"number": 1, "name": "pay", "status": "begun"})),
        output(&calls[0], json!("first")),
        {"callId": calls[1]["id"], "attempt": 1},
        output(&calls[2], Value::Null),
    ]);
    let expected = [
        "running",
        "stale_attempt",
        "call_not_found",
        "invalid_step",
        "step_changed",
        "running",
        "completed",
        "invalid_record",
        "completed",
    ];
    assert_eq!(program.record_all(records.clone()).await, expected);
    // Repeated, as after a lost response: a step is refused if its call has ended since; all else has the same answer.
    let repeated = program.record_all(records).await;
    assert_eq!((&repeated[0][..], &repeated[4][..]), ("stale_attempt", "stale_attempt"));
    assert_eq!(repeated[5..], expected[5..]);
    assert_eq!(
        program.record_all(json!([output(&calls[1], json!({"n": 2}))])).await,
        ["completed"]
    );
    events_of(&app, &posted).await;
    assert_eq!(results_for_model(&app), [r#""first""#, r#"{"n":2}"#, "null"]);
}

#[tokio::test]
async fn steps_of_different_calls_are_recorded_as_alone() {
    let app = hasty().await;
    // One that may be repeated, and one that may not before its first step.
    let program = Program::register(app.client(), json!([quick("refund"), tool("pay")])).await;
    let posted = asked_for(&app, &["refund", "pay"]).await;
    let calls = claimed(&program, 2).await;
    let both = |first: Value, second: Value| json!([step(&calls[0], first), step(&calls[1], second)]);
    let begun = |number: i32| json!({"number": number, "name": "pay", "status": "begun"});
    let failed = json!({"number": 2, "name": "pay", "status": "error", "error": "no money"});
    for (first, second) in [
        (done(1, "look up", "12.50"), done(1, "log in", "")),
        (begun(2), begun(2)),
        (done(2, "pay", "paid"), failed.clone()),
        // After a lost response.
        (done(2, "pay", "paid"), failed.clone()),
    ] {
        assert_eq!(program.record_all(both(first, second)).await, ["running", "running"]);
    }
    let changed = both(done(3, "ship", ""), done(1, "look up", ""));
    assert_eq!(program.record_all(changed).await, ["running", "step_changed"]);
    let steps = |found: Vec<Value>| -> Vec<[Value; 4]> {
        let fields = ["number", "status", "output", "error"];
        found
            .iter()
            .map(|step| fields.map(|field| step[field].clone()))
            .collect()
    };
    let first = [
        [json!(1), json!("completed"), json!("12.50"), Value::Null],
        [json!(2), json!("completed"), json!("paid"), Value::Null],
        [json!(3), json!("completed"), json!(""), Value::Null],
    ];
    assert_eq!(steps(program.steps(&calls[0]).await), first);
    let second = [
        [json!(1), json!("completed"), json!(""), Value::Null],
        [json!(2), json!("error"), Value::Null, json!("no money")],
    ];
    assert_eq!(steps(program.steps(&calls[1]).await), second);

    // Both lose their lease: each is handed out again, as it has steps.
    let again = claimed(&program, 2).await;
    assert_eq!((&again[0]["attempt"], &again[1]["attempt"]), (&json!(2), &json!(2)));
    let late = both(done(4, "late", ""), done(3, "late", ""));
    assert_eq!(program.record_all(late).await, ["stale_attempt", "stale_attempt"]);
    let outputs = json!([output(&again[0], json!(1)), output(&again[1], json!(2))]);
    assert_eq!(program.record_all(outputs).await, ["completed", "completed"]);
    events_of(&app, &posted).await;
    assert_eq!(results_for_model(&app), ["1", "2"]);
}

#[tokio::test]
async fn an_output_with_a_schema_is_checked_among_others() {
    let app = TestApp::start().await;
    let schema = json!({"readOnly": true, "outputSchema": {"type": "object", "required": ["paid"]}});
    let program = Program::register(app.client(), json!([quick("refund"), tool_with("pay", schema)])).await;
    let posted = asked_for(&app, &["pay", "refund", "pay"]).await;
    let calls = claimed(&program, 3).await;
    let found = program
        .record_all(json!([
            // The end of a call follows its steps, also if only the end has to be checked.
            step(&calls[0], done(1, "look up", "12.50")),
            output(&calls[0], json!({"paid": true})),
            output(&calls[1], json!("refunded")),
            output(&calls[2], json!({"paid?": "no"})),
            step(&calls[2], done(1, "after its end", "")),
        ]))
        .await;
    assert_eq!(found, ["running", "completed", "completed", "error", "stale_attempt"]);
    events_of(&app, &posted).await;
    let results = results_for_model(&app);
    assert_eq!(results[..2], [r#"{"paid":true}"#, r#""refunded""#]);
    assert!(results[2].contains("does not match its schema"), "{results:?}");
}

#[tokio::test]
async fn records_of_an_attempt_that_was_lost_change_nothing() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([quick("refund")])).await;
    let posted = asked_for(&app, &["refund", "refund"]).await;
    let calls = claimed(&program, 2).await;
    // Only the second one is renewed.
    let again = loop {
        let held = program.heartbeat(&[&calls[1]]).await;
        assert_eq!(held["held"], json!([calls[1]["id"]]));
        if let Some(again) = program.claim(1, 0).await.pop() {
            break again;
        }
    };
    assert_eq!((&again["id"], &again["attempt"]), (&calls[0]["id"], &json!(2)));
    let records = json!([
        step(&calls[0], done(1, "look up", "")),
        output(&calls[0], json!("late")),
        output(&calls[1], json!("in time")),
    ]);
    assert_eq!(
        program.record_all(records).await,
        ["stale_attempt", "stale_attempt", "completed"]
    );
    assert!(program.steps(&again).await.is_empty());
    assert_eq!(
        program.record_all(json!([output(&again, json!("second"))])).await,
        ["completed"]
    );
    events_of(&app, &posted).await;
    assert_eq!(results_for_model(&app), [r#""second""#, r#""in time""#]);
}

#[tokio::test]
async fn a_request_has_one_to_a_hundred_records() {
    let app = TestApp::start().await;
    let body = json!({"name": "billing", "version": "1", "language": "none", "slots": 4, "tools": [tool("refund")]});
    let (_, registration) = app.client().post("/api/workers/default/registrations", body).await;
    assert_eq!(registration["recordsMax"], 100);
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let record = json!({"callId": ids::new(), "attempt": 1, "output": null});
    for count in [0, 101] {
        let records = vec![record.clone(); count];
        let refused = program.send("records", json!({ "records": records })).await;
        is_refused(refused, StatusCode::BAD_REQUEST, "invalid_records");
    }
    let answers = program.record_all(json!(vec![record; 100])).await;
    assert_eq!(answers, vec!["call_not_found"; 100]);
}
