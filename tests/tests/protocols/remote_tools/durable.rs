//! Durable functions: a program records steps and hands a call back to wait; the program that gets it next goes on from there.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::of_kind;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::outcomes::is_stale;
use super::{Program, asked, events_of, hasty, result_for_model, tool};

impl Program {
    pub(super) async fn record(&self, call: &Value, step: Value) -> (StatusCode, Value) {
        self.about(call, "steps", step).await
    }

    /// Hands a call back until these steps have ended.
    pub(super) async fn suspend(&self, call: &Value, steps: Value) -> (StatusCode, Value) {
        self.about(call, "suspension", json!({"steps": steps})).await
    }

    /// The recorded steps of a call.
    pub(super) async fn steps(&self, call: &Value) -> Vec<Value> {
        let path = format!(
            "/api/workers/{}/calls/{}/steps",
            self.queue,
            call["id"].as_str().unwrap()
        );
        let (status, page) = self.client.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page["items"].as_array().expect("steps").clone()
    }
}

pub(super) fn done(number: i32, name: &str, output: &str) -> Value {
    json!({"number": number, "name": name, "status": "completed", "output": output})
}

pub(super) fn wait(number: i32, name: &str, wait: Value) -> Value {
    json!({"number": number, "name": name, "wait": wait})
}

pub(super) fn is(response: (StatusCode, Value), status: &str) {
    assert_eq!(response, (StatusCode::OK, json!({ "status": status })));
}

pub(super) fn is_refused(response: (StatusCode, Value), status: StatusCode, code: &str) {
    assert_eq!(
        (response.0, &response.1["code"]),
        (status, &json!(code)),
        "{}",
        response.1
    );
}

/// The question that a user is asked now.
async fn question(app: &TestApp) -> Value {
    support::wait_for("the question", async || {
        let (_, questions) = app.client().get("/api/questions?status=pending").await;
        questions["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await
}

async fn answer(app: &TestApp, question: &Value, answer: &str) {
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, body) = app.client().post(&path, json!({ "answer": answer })).await;
    assert!(status.is_success(), "{body}");
}

#[tokio::test]
async fn a_lost_function_begins_again_with_its_recorded_steps() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    assert_eq!(call["steps"], 0);
    is(program.record(&call, done(1, "look up", "12.50")).await, "running");
    let begun = json!({"number": 2, "name": "pay", "status": "begun"});
    is(program.record(&call, begun).await, "running");
    // Repeating it has the same response; its worker is lost then.
    is(program.record(&call, done(1, "look up", "12.50")).await, "running");

    let again = program.next().await;
    assert_eq!((&again["attempt"], &again["steps"]), (&json!(2), &json!(2)));
    is_stale(program.record(&call, done(2, "pay", "late")).await);
    let steps = program.steps(&again).await;
    assert_eq!(
        (&steps[0]["status"], &steps[0]["output"], &steps[1]["status"]),
        (&json!("completed"), &json!("12.50"), &json!("begun"))
    );
    let other = program.record(&again, done(1, "log in", "")).await;
    is_refused(other, StatusCode::CONFLICT, "step_changed");
    let failed = json!({"number": 2, "name": "pay", "status": "error", "error": "unknown"});
    is(program.record(&again, failed).await, "running");
    program.complete(&again, json!("refunded")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn a_sleeping_function_is_handed_out_when_its_time_has_come() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let mut call = program.next().await;
    let asked_at = tokio::time::Instant::now();
    let sleep = json!([wait(1, "a while", json!({"kind": "sleep", "seconds": 1.5}))]);
    is(program.suspend(&call, sleep.clone()).await, "waiting");
    is(program.suspend(&call, sleep).await, "waiting");
    // The attempt is over, and no lease expires meanwhile.
    assert_eq!(program.heartbeat(&[&call]).await["lost"], json!([call["id"]]));
    is_stale(program.complete(&call, json!("early")).await);
    assert!(program.claim(1, 0).await.is_empty());
    call = program.next().await;
    assert!(asked_at.elapsed().as_secs_f64() > 1.4);
    assert_eq!(program.steps(&call).await[0]["status"], "completed");
    // As often as it waits, it may lose its worker as often as before.
    for number in 2..8 {
        let short = wait(number, "a moment", json!({"kind": "sleep", "seconds": 0}));
        is(program.suspend(&call, json!([short])).await, "waiting");
        call = program.next().await;
    }
    let retry = json!({"error": "the bank is closed", "retry": true});
    is(program.about(&call, "failure", retry).await, "waiting");
    call = program.next().await;
    assert_eq!((&call["attempt"], &call["steps"]), (&json!(9), &json!(7)));
    program.complete(&call, json!("refunded")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn a_signal_reaches_the_function_that_waits_for_it() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let path = format!("/api/runs/{}/signals", posted["runId"].as_str().unwrap());
    let signal = async |name: &str, data: Value| app.client().post(&path, json!({"name": name, "data": data})).await;
    let event = |number: i32, event: &str, timeout_s: Option<f64>| {
        json!([wait(
            number,
            event,
            json!({"kind": "event", "event": event, "timeoutS": timeout_s})
        )])
    };
    // One that comes before the function waits is kept.
    let (status, sent) = signal("approved", json!(1)).await;
    assert_eq!((status, sent), (StatusCode::OK, json!({"delivered": false})));
    is(program.suspend(&call, event(1, "approved", None)).await, "waiting");
    let call = program.next().await;
    is(program.suspend(&call, event(2, "paid", Some(3_600.0))).await, "waiting");
    assert!(program.claim(1, 0).await.is_empty());
    let (_, sent) = signal("refused", json!(2)).await;
    assert_eq!(sent, json!({"delivered": false}));
    let (_, sent) = signal("paid", json!({"by": "card"})).await;
    assert_eq!(sent, json!({"delivered": true}));
    let call = program.next().await;
    is(program.suspend(&call, event(3, "shipped", Some(0.5))).await, "waiting");
    let call = program.next().await;
    let steps = program.steps(&call).await;
    let outputs: Vec<&Value> = steps.iter().map(|step| &step["output"]).collect();
    assert_eq!(
        outputs,
        [&json!({"data": 1}), &json!({"data": {"by": "card"}}), &Value::Null],
        "nothing came in time for the last one"
    );
    program.complete(&call, json!("refunded")).await;
    events_of(&app, &posted).await;
    let (status, problem) = signal("late", Value::Null).await;
    is_refused((status, problem), StatusCode::CONFLICT, "signal_refused");
    let unknown = format!("/api/runs/{}/signals", call["id"].as_str().unwrap());
    let (status, _) = app.client().post(&unknown, json!({"name": "paid"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_function_asks_the_user_of_its_run() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let options = json!([{"label": "Yes", "value": "yes"}, {"label": "No", "value": "no"}]);
    let sure = json!({"kind": "question", "question": "Are you sure?", "options": options});
    is(
        program.suspend(&call, json!([wait(1, "sure", sure)])).await,
        "suspended",
    );
    let asked = question(&app).await;
    assert_eq!(
        (&asked["question"], &asked["interactionType"]),
        (&json!("Are you sure?"), &json!("buttons"))
    );
    assert!(program.claim(1, 0).await.is_empty());
    answer(&app, &asked, "yes").await;
    let call = program.next().await;
    assert_eq!(program.steps(&call).await[0]["output"], json!({"answer": "yes"}));
    program.complete(&call, json!("refunded")).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "question").len(), 1);
    assert_eq!(of_kind(&events, "mcp_tool").len(), 2, "one start and one end");
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn a_function_starts_agents_and_gets_what_they_did() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    app.agent("auditor", &[]).await;
    app.model.on("look at A", [Reply::text("A is fine.")]);
    app.model.on("look at B", [Reply::text("B is not.")]);
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let agent = |agent: &str, task: &str| json!({"kind": "agent", "agent": agent, "task": task});
    let steps = json!([
        wait(1, "a", agent("auditor", "look at A")),
        wait(2, "b", agent("auditor", "look at B")),
        wait(3, "c", agent("inspector", "look at C")),
    ]);
    is(program.suspend(&call, steps).await, "suspended");
    let call = program.next().await;
    let steps = program.steps(&call).await;
    assert_eq!(
        (&steps[0]["output"]["summary"], &steps[0]["output"]["status"]),
        (&json!("A is fine."), &json!("completed"))
    );
    assert_eq!(steps[1]["output"]["summary"], "B is not.");
    assert_eq!(steps[2]["status"], "error");
    let why = steps[2]["error"].as_str().unwrap();
    assert!(
        why.contains("there is no agent inspector") && why.contains("auditor"),
        "{why}"
    );
    program.complete(&call, json!("refunded")).await;
    let events = events_of(&app, &posted).await;
    let started = of_kind(&events, "sub_agent");
    assert_eq!(started.iter().filter(|event| event["status"] == "started").count(), 2);
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

/// While one call of a step is at work, the run does for the other one what it waits for.
#[tokio::test]
async fn a_call_is_answered_while_another_one_is_at_work() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund"), tool("notify")])).await;
    let agent = app.agent("clerk", &["refund", "notify"]).await;
    app.model.script([
        Reply::tools([("refund", json!({"order": "1"})), ("notify", json!({"order": "2"}))]),
        Reply::text("Done."),
    ]);
    let message = json!({"agentDefinitionId": agent, "message": "both"});
    let posted = app.client().post_message(message).await;
    let mut calls = Vec::new();
    while calls.len() < 2 {
        calls.extend(program.claim(10, 20).await);
    }
    calls.sort_by_key(|call| call["input"]["order"].to_string());
    let ask = json!({"kind": "question", "question": "How much?"});
    is(
        program.suspend(&calls[0], json!([wait(1, "how much", ask)])).await,
        "suspended",
    );
    answer(&app, &question(&app).await, "12.50").await;
    let again = program.next().await;
    assert_eq!(again["id"], calls[0]["id"]);
    assert_eq!(program.heartbeat(&[&calls[1]]).await["held"], json!([calls[1]["id"]]));
    program.complete(&again, json!("refunded")).await;
    program.complete(&calls[1], json!("notified")).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
}

#[tokio::test]
async fn a_cancelled_run_ends_what_its_function_waits_for() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let ask = json!({"kind": "question", "question": "Are you sure?"});
    is(program.suspend(&call, json!([wait(1, "sure", ask)])).await, "suspended");
    question(&app).await;
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    app.client().post(&cancel, json!({})).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "cancelled");
    let left: (i64, i64) = sqlx::query_as(
        "select (select count(*) from queue.jobs where kind = 'remote_call'),
                (select count(*) from kb.remote_calls where status <> 'cancelled')",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(left, (0, 0));
}

#[tokio::test]
async fn a_waiting_function_outlives_the_api_and_the_workers() {
    let mut app = TestApp::start().await;
    let mut program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    app.crash_workers();
    let ask = json!({"kind": "question", "question": "Are you sure?"});
    is(program.suspend(&call, json!([wait(1, "sure", ask)])).await, "suspended");
    app.restart_api().await;
    program.client = app.client();
    app.add_worker();
    answer(&app, &question(&app).await, "yes").await;
    let call = program.next().await;
    program.complete(&call, json!("refunded")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn what_a_function_can_t_wait_for_is_refused_with_a_reason() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let sleep = json!({"kind": "sleep", "seconds": 1});
    let ask = json!({"kind": "question", "question": "Are you sure?"});
    let bad = StatusCode::BAD_REQUEST;
    for (steps, code) in [
        (json!([]), "invalid_suspension"),
        (
            json!([wait(1, "a", sleep.clone()), wait(2, "b", sleep)]),
            "invalid_suspension",
        ),
        (
            json!([wait(1, "a", ask.clone()), wait(1, "b", ask.clone())]),
            "invalid_suspension",
        ),
        (
            json!([wait(1, "a", json!({"kind": "sleep", "seconds": -1}))]),
            "invalid_suspension",
        ),
        (
            json!([wait(1, "a", json!({"kind": "event", "event": ""}))]),
            "invalid_suspension",
        ),
        (json!([wait(0, "a", ask.clone())]), "invalid_step"),
        (json!([wait(1, "", ask)]), "invalid_step"),
    ] {
        is_refused(program.suspend(&call, steps).await, bad, code);
    }
    let unknown = json!([wait(1, "a", json!({"kind": "sleep", "seconds": 1, "minutes": 1}))]);
    let (status, problem) = program.suspend(&call, unknown).await;
    assert!(
        status.is_client_error() && problem.to_string().contains("minutes"),
        "{problem}"
    );
    let mixed = json!({"number": 1, "name": "a", "status": "completed", "error": "no"});
    is_refused(program.record(&call, mixed).await, bad, "invalid_step");
    let mixed = json!({"number": 1, "name": "a", "status": "begun", "error": "no"});
    is_refused(program.record(&call, mixed).await, bad, "invalid_step");
    let large = done(1, "a", &"x".repeat(300_000));
    is_refused(
        program.record(&call, large).await,
        StatusCode::PAYLOAD_TOO_LARGE,
        "step_too_large",
    );
    // A question that is not one is an error of its step, and the function goes on.
    let empty = json!({"kind": "question", "question": ""});
    is(
        program.suspend(&call, json!([wait(1, "empty", empty)])).await,
        "suspended",
    );
    let call = program.next().await;
    let steps = program.steps(&call).await;
    assert!(
        steps[0]["error"]
            .as_str()
            .is_some_and(|error| error.contains("question")),
        "{steps:?}"
    );
}
