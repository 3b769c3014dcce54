//! Durable functions that ask language models: with the keys, limits and logs of the server.

use std::time::Duration;

use rejoin_model_client::name::ModelSettings;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::of_kind;
use rejoin_tests::model_server::{Reply, sent};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::agents::{clerk, path_of, turn};
use super::durable::{is, is_refused, wait};
use super::{Program, asked, asked_by_mcp, events_of, result_for_model, tool};

const QUESTION: &str = "Is order A-7 fraud?";

/// A model call with these fields besides its question.
fn model_call(fields: Value) -> Value {
    let mut call = json!({"kind": "model", "messages": [{"role": "user", "text": QUESTION}]});
    for (field, value) in fields.as_object().expect("fields") {
        call[field] = value.clone();
    }
    call
}

impl Program {
    /// Hands a call back until a model has answered. Returns the call, which is handed out again, and the step.
    async fn ask_model(&self, call: &Value, asks: Value) -> (Value, Value) {
        is(self.suspend(call, json!([wait(1, "judge", asks)])).await, "suspended");
        let call = self.next().await;
        let step = self.steps(&call).await[0].clone();
        (call, step)
    }
}

fn refused(step: &Value) -> &str {
    assert_eq!((&step["kind"], &step["status"]), (&json!("model"), &json!("error")));
    step["error"].as_str().expect("an error")
}

#[tokio::test]
async fn a_function_gets_the_answer_of_a_language_model() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    app.model.on(QUESTION, [Reply::text("It is not fraud.").counted(30, 5)]);
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let messages = json!([
        {"role": "user", "text": "Hello"}, {"role": "assistant", "text": "Hi."}, {"role": "user", "text": QUESTION},
    ]);
    let asks = model_call(json!({
        "messages": messages, "system": "You know fraud.", "model": "openai:scripted", "maxTokens": 50, "temperature": 0.5,
    }));
    let (call, step) = program.ask_model(&program.next().await, asks).await;
    assert_eq!((&step["kind"], &step["status"]), (&json!("model"), &json!("completed")));
    let answer = &step["output"];
    assert_eq!(
        (&answer["text"], &answer["model"], &answer["output"]),
        (&json!("It is not fraud."), &json!("openai:scripted"), &Value::Null)
    );
    assert_eq!(
        (&answer["usage"]["inputTokens"], &answer["usage"]["outputTokens"]),
        (&json!(30), &json!(5))
    );
    // It was asked exactly this.
    let request = &app.model.requests()[1];
    let roles = ["system", "user", "assistant", "user"];
    let expected = roles.into_iter().zip(["You know fraud.", "Hello", "Hi.", QUESTION]);
    let expected: Vec<(String, String)> = expected
        .map(|(role, text)| (role.to_owned(), text.to_owned()))
        .collect();
    assert_eq!(sent(request), expected);
    assert_eq!(
        (&request["temperature"], &request["tools"]),
        (&json!(0.5), &Value::Null)
    );

    program.complete(&call, json!("refunded")).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
    assert_eq!(app.model.requests().len(), 3, "the model was asked once");
    // Its words are in the log while they come, as those of a sub-agent with the name of the step.
    let of_child: Vec<&Value> = events
        .iter()
        .filter(|event| event["runId"] == answer["runId"])
        .collect();
    let is_named = |event: &&Value| event["source"] == "sub_agent" && event["parentRunId"] == posted["runId"];
    assert!(of_child.iter().all(is_named), "{of_child:?}");
    let kinds: Vec<&str> = of_child.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"sub_agent"), Some(&"sub_agent")));
    let words: String = of_child.iter().filter_map(|event| event["token"].as_str()).collect();
    assert_eq!(words, "It is not fraud.");
    let path = format!("/api/runs/{}", answer["runId"].as_str().unwrap());
    let (_, run) = app.client().get(&path).await;
    assert_eq!((&run["agent"], &run["depth"]), (&json!("judge"), &json!(1)));
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn answers_of_models_match_a_schema_and_come_in_parallel() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let schema = json!({"type": "object", "properties": {"fraud": {"type": "boolean"}}, "required": ["fraud"]});
    app.model.on(QUESTION, [Reply::text("It is.")]);
    // An answer that does not match is asked for again.
    app.model.on("does not match", [Reply::text(r#"{"fraud": false}"#)]);
    app.model.on("Summarize.", [Reply::text("An order.")]);
    asked(&app, json!({"order": "A-7"})).await;
    let steps = json!([
        wait(1, "judge", model_call(json!({ "outputSchema": schema }))),
        wait(
            2,
            "summary",
            model_call(json!({"messages": [{"role": "user", "text": "Summarize."}]}))
        ),
    ]);
    is(program.suspend(&program.next().await, steps).await, "suspended");
    let call = program.next().await;
    let steps = program.steps(&call).await;
    assert_eq!(steps[0]["output"]["output"], json!({"fraud": false}));
    assert_eq!(steps[0]["output"]["text"], r#"{"fraud":false}"#);
    assert_eq!(steps[1]["output"]["text"], "An order.");
    // The model of plain conversations, which takes a schema.
    let requests = app.model.requests();
    let judged = requests.iter().find(|request| !request["response_format"].is_null());
    let sent = &judged.expect("a request")["response_format"]["json_schema"]["schema"];
    assert_eq!(sent["properties"], schema["properties"]);
    assert_eq!(sent["required"], schema["required"]);
}

#[tokio::test]
async fn an_answer_goes_on_when_our_worker_is_lost() {
    let mut app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    app.model
        .on(QUESTION, [Reply::hang_after(2), Reply::text("It is not fraud.")]);
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let mut reader = app.client().stream(&path_of(&posted)).await;
    let asks = json!([wait(1, "judge", model_call(json!({})))]);
    is(program.suspend(&call, asks).await, "suspended");
    reader.until("token").await;
    app.crash_workers();
    app.add_worker();
    let call = program.next().await;
    let answer = program.steps(&call).await[0]["output"].clone();
    assert_eq!(answer["text"], "It is not fraud.");
    program.complete(&call, json!("refunded")).await;
    let events = events_of(&app, &posted).await;
    let resets = of_kind(&events, "reset");
    assert_eq!((resets.len(), &resets[0]["runId"]), (1, &answer["runId"]), "{resets:?}");
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
}

#[tokio::test]
async fn a_model_call_is_cancelled_with_its_run() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    app.model.on(QUESTION, [Reply::hang()]);
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let asks = json!([wait(1, "judge", model_call(json!({})))]);
    is(program.suspend(&program.next().await, asks).await, "suspended");
    let asked_twice = app
        .model
        .wait_for(Duration::from_secs(20), |counts| counts.requests == 2);
    asked_twice.await.expect("the model is asked");
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    app.client().post(&cancel, json!({})).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "cancelled");
    let states: Vec<String> = sqlx::query_scalar("select state from kb.agent_runs")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(states, ["cancelled", "cancelled"]);
}

#[tokio::test]
async fn a_model_call_counts_in_the_budget_of_its_tree() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let agent = app
        .agent_with("clerk", &["refund"], |content| {
            content.config = json!({"limits": {"tokens": 20}});
        })
        .await;
    let ask = Reply::tool("refund", json!({"order": "A-7"})).counted(10, 5);
    app.model.script([ask, Reply::text("Summed up.")]);
    app.model.on(QUESTION, [Reply::text("It is not fraud.").counted(30, 5)]);
    let message = json!({"agentDefinitionId": agent, "message": "refund order A-7"});
    let posted = app.client().post_message(message).await;
    let asks = model_call(json!({}));
    let (call, step) = program.ask_model(&program.next().await, asks.clone()).await;
    assert_eq!(step["output"]["text"], "It is not fraud.");
    // The budget is used up: no model is asked, and the function knows why.
    is(
        program.suspend(&call, json!([wait(2, "again", asks)])).await,
        "suspended",
    );
    let call = program.next().await;
    let steps = program.steps(&call).await;
    assert!(refused(&steps[1]).contains("token_budget"), "{steps:?}");
    assert_eq!(app.model.requests().len(), 2);
    program.complete(&call, json!("refunded")).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "paused");
}

#[tokio::test]
async fn a_model_that_can_t_be_asked_is_an_error_of_the_step() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    app.model.on(QUESTION, [Reply::status(400)]);
    asked(&app, json!({"order": "A-7"})).await;
    let asks = model_call(json!({"model": "mystery"}));
    let (call, step) = program.ask_model(&program.next().await, asks).await;
    let why = refused(&step);
    assert!(why.contains("`mystery`") && why.contains("`openai:NAME`"), "{why}");
    let asks = json!([wait(2, "judge", model_call(json!({})))]);
    is(program.suspend(&call, asks).await, "suspended");
    let call = program.next().await;
    let steps = program.steps(&call).await;
    let why = refused(&steps[1]);
    assert!(why.starts_with("the model has not answered (model_"), "{why}");
}

#[tokio::test]
async fn a_server_without_models_says_what_to_set() {
    let app = TestApp::with(AppOptions {
        models: Some(ModelSettings::default()),
        ..AppOptions::default()
    })
    .await;
    let (program, agent) = clerk(&app).await;
    // The turn itself needs no model.
    let (_, call) = turn(&app, &program, &agent).await;
    let (_, step) = program.ask_model(&call, model_call(json!({}))).await;
    let why = refused(&step);
    assert!(
        why.contains("No model is configured") && why.contains("OPENAI_API_KEY"),
        "{why}"
    );
}

#[tokio::test]
async fn malformed_model_calls_are_refused_with_a_reason() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let said = |role: &str, text: &str| json!({"role": role, "text": text});
    for (fields, expected) in [
        (json!({"messages": []}), "1 to 1000 messages"),
        (json!({"messages": [said("user", " ")]}), "message 1 of 1"),
        (json!({"messages": [said("assistant", "Hi.")]}), "the role user"),
        (json!({"messages": [said("system", "Be kind.")]}), "system"),
        (json!({"messages": [{"role": "user", "content": "Hi."}]}), "content"),
        (json!({"temperature": 3}), "between 0 and 2"),
        (json!({"maxTokens": 0}), "maxTokens"),
        (json!({"outputSchema": {"type": "string"}}), "object"),
        (json!({"tools": []}), "tools"),
    ] {
        let asks = json!([wait(1, "judge", model_call(fields))]);
        let (status, problem) = program.suspend(&call, asks).await;
        assert!(
            status.is_client_error() && problem.to_string().contains(expected),
            "{problem}"
        );
    }
    let large = model_call(json!({"system": "x".repeat(300_000)}));
    is_refused(
        program.suspend(&call, json!([wait(1, "judge", large)])).await,
        StatusCode::PAYLOAD_TOO_LARGE,
        "step_too_large",
    );
    program.complete(&call, json!("refunded")).await;

    let asking = asked_by_mcp(&app).await;
    let call = program.next().await;
    let asks = json!([wait(1, "judge", model_call(json!({})))]);
    is_refused(program.suspend(&call, asks).await, StatusCode::CONFLICT, "no_run");
    program.complete(&call, json!("refunded")).await;
    asking.await.unwrap();
}
