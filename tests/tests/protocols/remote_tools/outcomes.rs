//! What becomes of a call whose program is lost, fails, or is not wanted: the outcome is honest, and an attempt that lost its lease changes
//! nothing.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::of_kind;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Program, asked, events_of, hasty, result_for_model, tool, tool_with};

pub(super) fn is_stale((status, answer): (StatusCode, Value)) {
    assert_eq!(
        (status, &answer["code"]),
        (StatusCode::CONFLICT, &json!("stale_attempt")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_lost_program_leaves_an_unknown_outcome() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    // No heartbeat: it is lost after a second.
    let events = events_of(&app, &posted).await;
    let end = of_kind(&events, "mcp_tool").pop().expect("an end");
    assert_eq!(end["status"], "error");
    let result = result_for_model(&app);
    assert!(result.contains("outcome unknown"), "{result}");
    let status: String = sqlx::query_scalar("select status from kb.agent_run_tool_calls where id = $1::uuid")
        .bind(call["id"].as_str().unwrap())
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(status, "outcome_unknown");
    is_stale(program.complete(&call, json!("late")).await);
    assert_eq!(program.heartbeat(&[&call]).await["lost"], json!([call["id"]]));
    assert!(program.claim(1, 0).await.is_empty(), "it is not handed out again");
}

#[tokio::test]
async fn an_idempotent_call_is_handed_out_again() {
    let app = hasty().await;
    let tools = json!([tool_with("refund", json!({"idempotent": true}))]);
    let first = Program::register(app.client(), tools.clone()).await;
    let second = Program::register(app.client(), tools).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let lost = first.next().await;
    let again = second.next().await;
    assert_eq!((&lost["attempt"], &again["attempt"]), (&json!(1), &json!(2)));
    assert_eq!(lost["idempotencyKey"], again["idempotencyKey"]);
    is_stale(first.complete(&lost, json!("the first")).await);
    is_stale(first.about(&lost, "progress", json!({"message": "still here"})).await);
    is_stale(first.about(&lost, "failure", json!({"error": "no"})).await);
    let (status, _) = second.complete(&again, json!("the second")).await;
    assert_eq!(status, StatusCode::OK);
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""the second""#);
}

#[tokio::test]
async fn a_call_with_a_checkpoint_goes_on_from_it() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let (status, answer) = program
        .about(
            &call,
            "progress",
            json!({"message": "half of it", "checkpoint": {"done": 5}}),
        )
        .await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "running"})));
    let again = program.next().await;
    assert_eq!(
        (&again["attempt"], &again["checkpoint"]),
        (&json!(2), &json!({"done": 5}))
    );
    program.complete(&again, json!({"done": 10})).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#"{"done":10}"#);
}

#[tokio::test]
async fn heartbeats_keep_a_call_until_its_timeout() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool_with("refund", json!({"timeoutS": 3}))])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let mut held = 0;
    let answer = support::wait_for("the end of the lease", async || {
        let answer = program.heartbeat(&[&call]).await;
        held += i32::from(answer["held"] == json!([call["id"]]));
        (answer["lost"] == json!([call["id"]])).then_some(answer)
    })
    .await;
    assert_eq!(answer["held"], json!([]));
    assert!(held > 3, "it was held {held} times");
    events_of(&app, &posted).await;
    let result = result_for_model(&app);
    assert!(result.contains("3 s"), "{result}");
}

#[tokio::test]
async fn a_failure_is_a_result_and_a_retry_is_another_attempt() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let (status, answer) = program
        .about(&call, "failure", json!({"error": "the bank is closed", "retry": true}))
        .await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "waiting"})));
    let again = program.next().await;
    assert_eq!(again["attempt"], 2);
    let (status, answer) = program
        .about(&again, "failure", json!({"error": "no such order"}))
        .await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "error"})));
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), "Error: no such order");
}

#[tokio::test]
async fn cancelling_a_run_reaches_the_program() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    assert_eq!(program.heartbeat(&[&call]).await["held"], json!([call["id"]]));
    let run = posted["runId"].as_str().unwrap();
    let (status, _) = app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert!(status.is_success(), "{status}");
    assert_eq!(program.heartbeat(&[&call]).await["cancelled"], json!([call["id"]]));
    is_stale(program.complete(&call, json!("too late")).await);
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "cancelled");
    let end = of_kind(&events, "mcp_tool").pop().expect("an end");
    assert_eq!(end["status"], "error", "what was started has an end");
}

#[tokio::test]
async fn a_cancelled_call_is_not_handed_out() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    support::wait_for("the call", async || {
        let waiting: i64 = sqlx::query_scalar("select count(*) from kb.remote_calls where status = 'waiting'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        (waiting == 1).then_some(())
    })
    .await;
    let run = posted["runId"].as_str().unwrap();
    app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert!(program.claim(1, 0).await.is_empty());
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "cancelled");
}

/// Also one that may be repeated: its run does not wait for ever.
#[tokio::test]
async fn a_call_without_a_program_ends_after_its_time() {
    let app = TestApp::with(AppOptions {
        api: |config| config.remote_tools.remote_lease_s = 1,
        worker: |config| config.remote_tools.remote_calls_wait_h = 1.0 / 3_600.0,
        ..AppOptions::default()
    })
    .await;
    let tools = json!([tool_with("refund", json!({"idempotent": true}))]);
    let program = Program::register(app.client(), tools).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    program.next().await;
    events_of(&app, &posted).await;
    let result = result_for_model(&app);
    assert!(
        result.contains("outcome unknown") && result.contains("no other one took it"),
        "{result}"
    );

    app.model.on(
        "again",
        [Reply::tool("refund", json!({"order": "B-8"})), Reply::text("Done.")],
    );
    let agent = app.agent("second", &["refund"]).await;
    let posted = app
        .client()
        .post_message(json!({"agentDefinitionId": agent, "message": "again"}))
        .await;
    events_of(&app, &posted).await;
    let result = result_for_model(&app);
    assert!(result.contains("it was not executed"), "{result}");
}

#[tokio::test]
async fn a_draining_program_gets_no_calls() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (status, _) = program.send("heartbeats", json!({"draining": true})).await;
    assert_eq!(status, StatusCode::OK);
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    assert!(program.claim(1, 2).await.is_empty());
    let other = Program::register(app.client(), json!([tool("refund")])).await;
    let call = other.next().await;
    other.complete(&call, json!("refunded")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn a_user_confirms_a_call_before_it_is_handed_out() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool_with("refund", json!({"confirm": true}))])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let question = support::wait_for("the question", async || {
        let (_, questions) = app.client().get("/api/questions?status=pending").await;
        questions["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await;
    assert!(program.claim(1, 0).await.is_empty(), "not before the user has agreed");
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let changed = json!({"answer": "edit", "input": {"order": "B-8"}});
    let (status, answer) = app.client().post(&path, changed).await;
    assert!(status.is_success(), "{answer}");
    let call = program.next().await;
    assert_eq!(call["input"], json!({"order": "B-8"}));
    program.complete(&call, json!("refunded")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn an_output_that_does_not_match_its_schema_is_an_error() {
    let app = TestApp::start().await;
    let schema = json!({"type": "object", "properties": {"refunded": {"type": "number"}}, "required": ["refunded"]});
    let program = Program::register(
        app.client(),
        json!([tool_with("refund", json!({"outputSchema": schema}))]),
    )
    .await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let (status, answer) = program.complete(&call, json!({"refunded": "twelve"})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "error"})));
    events_of(&app, &posted).await;
    let result = result_for_model(&app);
    assert!(result.contains("does not match its schema"), "{result}");
}

#[tokio::test]
async fn a_program_that_leaves_loses_its_calls_at_once() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let path = format!("/api/workers/default/registrations/{}", program.id);
    let (status, _) = app.client().delete(&path).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
    assert!(result_for_model(&app).contains("outcome unknown"));
    is_stale(program.complete(&call, json!("late")).await);
}
