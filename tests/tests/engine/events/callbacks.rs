//! Events of the executor's stream callback (requirements A09-A11, B06-B10): every tool call of any kind begins and
//! ends once; text increments; and failures of an execution.

use std::sync::{Arc, Mutex};

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use rejoin_worker::publish::{Observer, StreamEvent};
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::replies::spawn;
use rejoin_tests::replies::{plan_of, step};

/// The observed events, in order: (run, event).
type Observed = Arc<Mutex<Vec<(Uuid, StreamEvent)>>>;

async fn observed() -> (TestApp, Observed) {
    let observed_events = Observed::default();
    let seen = observed_events.clone();
    let observer: Observer = Arc::new(move |run, event| seen.lock().unwrap().push((run, event.clone())));
    let app = TestApp::with(AppOptions {
        observer: Some(observer),
        ..AppOptions::default()
    })
    .await;
    (app, observed_events)
}

/// Returns the calls that began and ended: (tool, "start" or "end" or "error"), of all runs.
fn calls(observed_events: &Observed) -> Vec<(String, &'static str)> {
    let observed_events = observed_events.lock().unwrap();
    let calls = observed_events.iter().filter_map(|(_, event)| match event {
        StreamEvent::ToolCallStart { tool, .. } => Some((tool.clone(), "start")),
        StreamEvent::ToolCallEnd { tool, error: None, .. } => Some((tool.clone(), "end")),
        StreamEvent::ToolCallEnd { tool, .. } => Some((tool.clone(), "error")),
        _ => None,
    });
    calls.collect()
}

/// Asserts that each begun call ended once, after its start.
fn each_start_has_one_end(observed_events: &Observed) {
    let mut open: Vec<(Uuid, String)> = Vec::new();
    for (run, event) in observed_events.lock().unwrap().iter() {
        match event {
            StreamEvent::ToolCallStart { call_id, .. } => {
                let call = (*run, call_id.clone());
                assert!(!open.contains(&call), "{call:?} began twice");
                open.push(call);
            }
            StreamEvent::ToolCallEnd { call_id, .. } => {
                let call = (*run, call_id.clone());
                let begun = open.iter().position(|one| *one == call);
                open.remove(begun.unwrap_or_else(|| panic!("{call:?} ended and had not begun")));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "never ended: {open:?}");
}

fn pairs<const N: usize>(expected: [(&str, &'static str); N]) -> Vec<(String, &'static str)> {
    expected.map(|(tool, what)| (tool.to_owned(), what)).into()
}

/// Requirements: A10, A11, B06, B07, B08.
#[tokio::test]
async fn the_callback_gets_increments_and_calls_with_outcomes() {
    let (app, observed_events) = observed().await;
    let agent = app.agent("asker", &["schema_version", "get_entity_edges"]).await;
    let nowhere = json!({"entity_id": Uuid::now_v7()});
    app.model.script([
        Reply::text("Let me look.").then_tool("schema_version", json!({})),
        Reply::tool("get_entity_edges", nowhere.clone()),
        Reply::text("There is nothing."),
    ]);
    let frames = app.client().ask(Some(agent), "what is there?").await;
    let run: Uuid = frames[1].json()["runId"].as_str().unwrap().parse().unwrap();
    let observed_events = observed_events.lock().unwrap().clone();
    assert!(observed_events.iter().all(|(of, _)| *of == run));
    let mut said = Vec::new();
    let mut seen = Vec::new();
    for (_, event) in observed_events {
        match event {
            StreamEvent::TextDelta { text } => said.push(text),
            event => seen.push(event),
        }
    }
    assert!(said.len() > 2, "increments: {said:?}");
    assert_eq!(
        said.concat(),
        "Let me look.\n\nThere is nothing.",
        "together the whole, once"
    );
    assert_eq!(text(&frames), said.concat());
    let [
        StreamEvent::ToolCallStart {
            call_id: first,
            tool,
            input,
        },
        StreamEvent::ToolCallEnd {
            call_id: first_ended,
            tool: tool_ended,
            output: Some(output),
            error: None,
        },
        StreamEvent::ToolCallStart {
            call_id: second,
            input: second_input,
            ..
        },
        StreamEvent::ToolCallEnd {
            call_id: second_ended,
            output: None,
            error: Some(error),
            ..
        },
    ] = seen.as_slice()
    else {
        panic!("{seen:?}")
    };
    assert_eq!((tool.as_str(), input), ("schema_version", &json!({})));
    assert_eq!((first, tool), (first_ended, tool_ended));
    let stored: Value = sqlx::query_scalar("select output from kb.agent_run_tool_calls where call_id = $1")
        .bind(first)
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(*output, stored);
    assert_eq!((second_input, second), (&nowhere, second_ended));
    assert!(!error.is_empty());
}

/// Requirements: B07, B08.
#[tokio::test]
async fn calls_that_never_act_begin_and_end_too() {
    let (app, observed_events) = observed().await;
    let agent = app.agent("clumsy", &["get_entity_edges"]).await;
    app.model.script([
        Reply::tools([
            ("no_such_tool", json!({"why": "not"})),
            ("get_entity_edges", json!({"wrong": true})),
        ]),
        Reply::text("Neither worked."),
    ]);
    app.client().ask(Some(agent), "try").await;
    assert_eq!(
        calls(&observed_events),
        pairs([
            ("no_such_tool", "start"),
            ("no_such_tool", "error"),
            ("get_entity_edges", "start"),
            ("get_entity_edges", "error")
        ])
    );
    each_start_has_one_end(&observed_events);
}

/// Requirements: B07, B08.
#[tokio::test]
async fn deferred_calls_begin_when_the_run_waits_and_end_once() {
    let (app, observed_events) = observed().await;
    let boss = app
        .agent_with("boss", &["spawn_agents", "create_tasks"], |content| {
            content.max_steps = None;
        })
        .await;
    app.agent("leaf", &[]).await;
    let tasks = json!({"name": "one", "tasks": [{"id": "a", "title": "Part A", "agent": "leaf"}]});
    app.model.on(
        "delegate",
        [
            spawn(&[("leaf", "little"), ("nobody", "x")]),
            spawn(&[("nobody", "x")]),
            Reply::tool("create_tasks", tasks),
            Reply::text("All done."),
        ],
    );
    app.model.always("little", Reply::text("ok"));
    app.model.always("# Part A", Reply::text("ok"));
    let events = json_of(&app.client().ask(Some(boss), "delegate").await);
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(
        calls(&observed_events),
        pairs([
            ("spawn_agents", "start"),
            ("spawn_agents", "end"),
            ("spawn_agents", "start"),
            ("spawn_agents", "end"),
            ("create_tasks", "start"),
            ("create_tasks", "end")
        ])
    );
    each_start_has_one_end(&observed_events);
}

/// Requirements: B07, B08.
#[tokio::test]
async fn calls_that_a_person_answers_or_confirms_begin_and_end_once() {
    let (app, observed_events) = observed().await;
    let agent = app
        .agent_with("careful", &["ask_user", "schema_version", "list_tags"], |content| {
            content.config = json!({"confirm": ["schema_version", "list_tags"]});
        })
        .await;
    app.model.on(
        "may I?",
        [
            Reply::tool("ask_user", json!({"question": "Which?", "options": []})),
            Reply::tools([("schema_version", json!({})), ("list_tags", json!({}))]),
            Reply::text("One of them."),
        ],
    );
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "may I?", "agentDefinitionId": agent}))
        .await;
    let answer = async |about: &str, answer: &str| {
        let question = support::wait_for("a question", async || {
            let (_, page) = client.get("/api/questions?status=pending").await;
            let mut items = page["items"].as_array().unwrap().iter();
            items
                .find(|question| question["question"].as_str().unwrap().contains(about))
                .cloned()
        })
        .await;
        let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
        let (status, answered) = client.post(&path, json!({ "answer": answer })).await;
        assert_eq!(status, 200, "{answered}");
    };
    answer("Which?", "this one").await;
    answer("schema_version", "approve").await;
    answer("list_tags", "refuse").await;
    let run = posted["runId"].as_str().unwrap();
    client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let mut seen = calls(&observed_events);
    // The two that were confirmed end in either order.
    seen[2..].sort();
    assert_eq!(
        seen,
        pairs([
            ("ask_user", "start"),
            ("ask_user", "end"),
            ("list_tags", "error"),
            ("list_tags", "start"),
            ("schema_version", "end"),
            ("schema_version", "start")
        ])
    );
    each_start_has_one_end(&observed_events);
}

/// Requirements: B07, B08.
#[tokio::test]
async fn handoffs_and_plans_begin_and_end_once() {
    let (app, observed_events) = observed().await;
    let first = app
        .agent_with("first", &[], |content| {
            content.config = json!({"handoffs": ["second"]});
        })
        .await;
    app.agent("second", &[]).await;
    app.model.script([
        Reply::tools([
            ("transfer_to_second", json!({"reason": "it knows"})),
            ("transfer_to_second", json!({"reason": "it knows better"})),
        ]),
        Reply::text("I am second."),
    ]);
    app.client().ask(Some(first), "hello").await;
    let mut seen = calls(&observed_events);
    seen.sort();
    assert_eq!(
        seen,
        pairs([
            ("transfer_to_second", "end"),
            ("transfer_to_second", "error"),
            ("transfer_to_second", "start"),
            ("transfer_to_second", "start")
        ])
    );
    each_start_has_one_end(&observed_events);
    observed_events.lock().unwrap().clear();

    let planner = app
        .agent_with("planner", &["agent_create_plan"], |content| content.max_steps = None)
        .await;
    app.model.on("# ", [Reply::text("did it")]);
    app.model.on(
        "plan it",
        [
            plan_of("auto_execute", json!([step(1, "do it", &[])])),
            Reply::text("It is planned."),
        ],
    );
    let client = app.client();
    let events = json_of(&client.ask(Some(planner), "plan it").await);
    assert_eq!(events.last().unwrap()["status"], "completed", "{events:?}");
    assert_eq!(
        calls(&observed_events),
        pairs([("agent_create_plan", "start"), ("agent_create_plan", "end")])
    );
    each_start_has_one_end(&observed_events);
}

/// Requirements: B09.
#[tokio::test]
async fn a_failed_execution_reaches_the_callback_as_an_error() {
    let (app, observed_events) = observed().await;
    let agent = app.agent("unlucky", &[]).await;
    app.model.script([Reply::status(401)]);
    let events = json_of(&app.client().ask(Some(agent), "hello").await);
    let last = observed_events.lock().unwrap().last().cloned();
    let Some((_, StreamEvent::Error { error })) = last else {
        panic!("{last:?}")
    };
    let shown = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(shown["error"], error.as_str(), "readers are told the same");
    assert!(error.contains("key"), "{error}");
}
