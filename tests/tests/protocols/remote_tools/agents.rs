//! Agents of programs: a function executes the turns, and writes the answer while it works.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{of_kind, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::durable::{done, is, is_refused};
use super::outcomes::is_stale;
use super::registration::client_with;
use super::{Program, events_of, hasty, tool};

impl Program {
    /// Writes a piece of the answer.
    pub(super) async fn write(&self, call: &Value, step: i32, piece: i32, text: &str) -> (StatusCode, Value) {
        let body = json!({"step": step, "piece": piece, "text": text});
        self.about(call, "text", body).await
    }
}

/// The program with the agent of this name.
async fn registration(app: &TestApp, name: &str) -> (StatusCode, Value) {
    let mut clerk = tool("clerk_turn");
    clerk["inputSchema"] = json!({
        "type": "object", "required": ["message"], "additionalProperties": false,
        "properties": {"message": {"type": "string"}, "history": {"type": "array"}},
    });
    clerk["idempotent"] = json!(true);
    let agents = json!([{"name": name, "description": "Refunds orders.", "tool": "clerk_turn"}]);
    let body = json!({"name": "billing", "slots": 4, "tools": [clerk, tool("refund")], "agents": agents});
    app.client().post("/api/workers/default/registrations", body).await
}

/// The program with the agent `clerk`, and the agent's id.
pub(super) async fn clerk(app: &TestApp) -> (Program, Value) {
    let (status, registration) = registration(app, "clerk").await;
    assert_eq!(status, StatusCode::CREATED, "{registration}");
    let program = Program {
        client: app.client(),
        id: registration["workerId"].as_str().unwrap().to_owned(),
        queue: "default",
    };
    let definitions = format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id);
    let (_, listed) = app.client().get(&definitions).await;
    let mut items = listed["items"].as_array().unwrap().iter();
    let agent = items.find(|agent| agent["name"] == "clerk").expect("the agent");
    (program, agent["id"].clone())
}

/// A message to the agent, and the call of its function.
pub(super) async fn turn(app: &TestApp, program: &Program, agent: &Value) -> (Value, Value) {
    let message = json!({"agentDefinitionId": agent, "message": "refund order A-7"});
    let posted = app.client().post_message(message).await;
    (posted, program.next().await)
}

pub(super) fn path_of(posted: &Value) -> String {
    format!("/api/runs/{}/events", posted["runId"].as_str().unwrap())
}

/// The run ends with this answer: what its events add up to, and what is stored.
async fn answers(app: &TestApp, posted: &Value, answer: &str) -> Vec<Value> {
    let frames = app.client().stream(&path_of(posted)).await.rest().await;
    assert_eq!(text(&frames), answer);
    let path = format!(
        "/api/conversations/{}/messages",
        posted["conversationId"].as_str().unwrap()
    );
    let (_, messages) = app.client().get(&path).await;
    let mut stored = messages["items"].as_array().unwrap().iter();
    let stored = stored
        .find(|message| message["role"] == "assistant")
        .expect("the answer");
    assert_eq!(stored["content"], answer);
    events_of(app, posted).await
}

#[tokio::test]
async fn a_program_s_function_is_an_agent() {
    let app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    assert_eq!(call["input"], json!({"message": "refund order A-7", "history": []}));
    is(program.record(&call, done(1, "look up", "12.50")).await, "running");
    program.complete(&call, json!("Refunded 12.50.")).await;
    answers(&app, &posted, "Refunded 12.50.").await;

    let further = json!({"conversationId": posted["conversationId"], "message": "and B-8"});
    let posted = app.client().post_message(further).await;
    let call = program.next().await;
    assert_eq!(
        call["input"]["history"][1],
        json!({"role": "assistant", "text": "Refunded 12.50."})
    );
    let failed = json!({"error": "the bank is closed"});
    is(program.about(&call, "failure", failed).await, "error");
    let events = events_of(&app, &posted).await;
    let end = of_kind(&events, "done");
    assert_eq!(end[0]["status"], "failed");
    assert!(
        events
            .iter()
            .any(|event| event.to_string().contains("the bank is closed")),
        "{events:?}"
    );
    assert!(app.model.requests().is_empty(), "no model was asked");

    // The definition is in the audit log once, however often it is announced.
    let (status, _) = registration(&app, "clerk").await;
    assert_eq!(status, StatusCode::CREATED);
    let audit = format!("/api/admin/projects/{}/audit", app.db.workspace_id);
    let (_, entries) = app.client().get(&audit).await;
    let of_agent = entries["items"].as_array().unwrap().iter();
    let of_agent = of_agent.filter(|entry| entry["target"] == format!("agent_definition:{}", agent.as_str().unwrap()));
    assert_eq!(of_agent.count(), 1, "{entries}");
    // An agent of another kind is not replaced.
    app.agent("auditor", &[]).await;
    is_refused(
        registration(&app, "auditor").await,
        StatusCode::CONFLICT,
        "agent_conflict",
    );
}

#[tokio::test]
async fn readers_get_an_answer_while_its_function_works() {
    let mut app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    let mut reader = app.client().stream(&path_of(&posted)).await;
    is(program.write(&call, 1, 1, "Refunded \"12").await, "running");
    let frames = reader.until("token").await;
    assert_eq!(text(&frames), "Refunded \"12");
    is(program.write(&call, 1, 2, ".50\".").await, "running");
    // A repeated request publishes nothing.
    is(program.write(&call, 1, 2, ".50\".").await, "running");
    is(program.record(&call, done(1, "answer", "")).await, "running");
    is(program.write(&call, 1, 2, ".50\".").await, "running");
    // The worker that continues the run is not that which has begun it: what was written is kept.
    app.crash_workers();
    app.add_worker();
    is(program.write(&call, 2, 1, " Bye").await, "running");
    is(program.record(&call, done(2, "farewell", "")).await, "running");
    // The result follows what was written.
    program.complete(&call, json!(".")).await;
    let events = answers(&app, &posted, "Refunded \"12.50\". Bye.").await;
    assert_eq!(of_kind(&events, "token").len(), 4, "{events:?}");
}

#[tokio::test]
async fn a_result_that_was_written_is_not_published_again() {
    let app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    for output in [json!(null), json!("Refunded.")] {
        let (posted, call) = turn(&app, &program, &agent).await;
        is(program.write(&call, 1, 1, "Refunded.").await, "running");
        is(program.record(&call, done(1, "answer", "")).await, "running");
        program.complete(&call, output).await;
        answers(&app, &posted, "Refunded.").await;
    }
}

#[tokio::test]
async fn text_of_a_lost_worker_is_taken_back() {
    let app = hasty().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    is(program.write(&call, 1, 1, "Hello. ").await, "running");
    is(program.record(&call, done(1, "greet", "")).await, "running");
    is(program.write(&call, 2, 1, "Half of").await, "running");

    let again = program.next().await;
    assert_eq!((&again["attempt"], &again["steps"]), (&json!(2), &json!(1)));
    is_stale(program.write(&call, 2, 2, " the old").await);
    is(program.write(&again, 2, 1, "The new answer.").await, "running");
    is(program.record(&again, done(2, "answer", "")).await, "running");
    program.complete(&again, json!(null)).await;
    let events = answers(&app, &posted, "Hello. The new answer.").await;
    let resets = of_kind(&events, "reset");
    assert_eq!(
        (resets.len(), &resets[0]["reason"]),
        (1, &json!("the program that wrote it was lost"))
    );
    assert_eq!(resets[0]["runId"], posted["runId"]);
}

#[tokio::test]
async fn text_of_a_step_that_fails_is_taken_back() {
    let app = hasty().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    is(program.write(&call, 1, 1, "Wrong").await, "running");
    let failed = json!({"number": 1, "name": "answer", "status": "error", "error": "no"});
    is(program.record(&call, failed).await, "running");
    is_refused(
        program.write(&call, 1, 2, "late").await,
        StatusCode::CONFLICT,
        "step_ended",
    );
    // A step that has not ended when the call does, or when it is handed back.
    is(program.write(&call, 2, 1, "Wrong").await, "running");
    let sleep = json!([{"number": 3, "name": "a moment", "wait": {"kind": "sleep", "seconds": 0}}]);
    is(program.suspend(&call, sleep).await, "waiting");
    let call = program.next().await;
    is(program.write(&call, 4, 1, "Wrong").await, "running");
    program.complete(&call, json!("Right.")).await;
    let events = answers(&app, &posted, "Right.").await;
    let resets: Vec<&Value> = of_kind(&events, "reset").iter().map(|reset| &reset["reason"]).collect();
    assert_eq!(resets, ["the step that wrote it has failed"; 3]);
}

#[tokio::test]
async fn text_is_written_in_order_by_one_step_of_an_agent() {
    let app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    let (_, call) = turn(&app, &program, &agent).await;
    is(program.write(&call, 1, 1, "a").await, "running");
    let conflict = StatusCode::CONFLICT;
    is_refused(program.write(&call, 2, 1, "b").await, conflict, "other_step_writes");
    is_refused(program.write(&call, 1, 3, "c").await, conflict, "piece_missing");
    let bad = StatusCode::BAD_REQUEST;
    for (step, piece, text) in [
        (0, 1, "a"),
        (1_001, 1, "a"),
        (1, 0, "a"),
        (1, 2, ""),
        (1, 2, &*"x".repeat(20_001)),
    ] {
        is_refused(program.write(&call, step, piece, text).await, bad, "invalid_text");
    }
    program.complete(&call, json!("done")).await;
    is_stale(program.write(&call, 1, 2, "late").await);

    // The tool of another agent returns its result only.
    let other = json!(app.agent("auditor", &["refund"]).await);
    app.model
        .script([Reply::tool("refund", json!({"order": "A-7"})), Reply::text("Done.")]);
    let (_, call) = turn(&app, &program, &other).await;
    is_refused(program.write(&call, 1, 1, "a").await, conflict, "no_answer");
}

/// A program with an agent that has this prompt and may call these tools.
fn prompted(prompt: &str, tools: &[&str]) -> Value {
    let agent = json!({"name": "clerk", "description": "Refunds orders.", "systemPrompt": prompt, "tools": tools});
    json!({"name": "billing", "slots": 4, "tools": [tool("refund")], "agents": [agent]})
}

#[tokio::test]
async fn a_program_brings_an_agent_of_a_language_model() {
    let app = TestApp::start().await;
    let path = "/api/workers/default/registrations";
    let (status, registered) = app.client().post(path, prompted("Look first.", &["refund"])).await;
    assert_eq!(status, StatusCode::CREATED, "{registered}");
    let program = Program {
        client: app.client(),
        id: registered["workerId"].as_str().unwrap().to_owned(),
        queue: "default",
    };
    let definitions = format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id);
    let clerk = async || {
        let (_, listed) = app.client().get(&definitions).await;
        let items = listed["items"].as_array().unwrap().clone();
        items
            .into_iter()
            .find(|agent| agent["name"] == "clerk")
            .expect("the agent")
    };
    let made = clerk().await;
    assert_eq!(
        (&made["flowType"], &made["systemPrompt"], &made["tools"]),
        (&json!("single"), &json!("Look first."), &json!(["refund"]))
    );
    app.model
        .script([Reply::tool("refund", json!({"order": "A-7"})), Reply::text("Done.")]);
    let message = json!({"agentDefinitionId": made["id"], "message": "refund order A-7"});
    let posted = app.client().post_message(message).await;
    let call = program.next().await;
    program.complete(&call, json!({"refunded": true})).await;
    answers(&app, &posted, "Done.").await;
    assert!(app.model.requests()[0].to_string().contains("Look first."));

    // The program changes what is its own, and an admin the rest.
    let at = format!("{definitions}/{}", made["id"].as_str().unwrap());
    let (status, answer) = app.client().patch(&at, json!({"maxDepth": 1})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    app.client().post(path, prompted("Look twice.", &[])).await;
    let made = clerk().await;
    assert_eq!(
        (&made["systemPrompt"], &made["tools"], &made["maxDepth"]),
        (&json!("Look twice."), &json!([]), &json!(1))
    );
    // An admin takes it over.
    app.client().patch(&at, json!({"config": {}})).await;
    is_refused(
        app.client().post(path, prompted("Look.", &[])).await,
        StatusCode::CONFLICT,
        "agent_conflict",
    );
}

#[tokio::test]
async fn a_worker_s_key_gives_agents_the_worker_s_tools_only() {
    let app = TestApp::start().await;
    let worker = client_with(&app, &["worker"]).await;
    let path = "/api/workers/default/registrations";
    is_refused(
        worker.post(path, prompted("Look.", &["refund", "web_*"])).await,
        StatusCode::FORBIDDEN,
        "scope_missing",
    );
    let (status, registered) = worker.post(path, prompted("Look.", &["refund"])).await;
    assert_eq!(status, StatusCode::CREATED, "{registered}");
    let admin = app
        .client()
        .post(path, prompted("Look.", &["refund", "search_*"]))
        .await;
    assert_eq!(admin.0, StatusCode::CREATED, "{}", admin.1);
}
