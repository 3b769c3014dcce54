//! Handoffs of a conversation: within one turn and stream, remembered, bounded, and crash-safe.

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{apply_resets, json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

/// A definition with this prompt and these handoffs.
fn hands_to(prompt: &str, handoffs: Value) -> impl FnOnce(&mut DefinitionContent) + use<> {
    let prompt = prompt.to_owned();
    move |content| {
        content.system_prompt = prompt;
        content.config = json!({ "handoffs": handoffs });
        content.max_steps = None;
    }
}

fn to(word: &str, reason: Value) -> Reply {
    Reply::tool(&format!("transfer_to_{word}"), json!({ "reason": reason }))
}

/// The names of the tools that a request offered.
fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array();
    tools
        .into_iter()
        .flatten()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

async fn agent_of(app: &TestApp, conversation: &str) -> (Uuid, Uuid) {
    sqlx::query_as(
        "select c.agent_definition_id, r.agent_definition_id
         from kb.chat_conversations c join kb.agent_runs r on r.conversation_id = c.id
         where c.id = $1 order by r.created_at desc limit 1",
    )
    .bind(Uuid::parse_str(conversation).unwrap())
    .fetch_one(&app.db.pool)
    .await
    .unwrap()
}

/// Requirements: D17, D18, D19.
#[tokio::test]
async fn a_handoff_continues_the_stream_and_takes_the_conversation() {
    let app = TestApp::start().await;
    let handoffs = json!([{"agent": "mongodb-analyst", "as": "mongodb"}, "bigquery-analyst", "nobody"]);
    let triage = app
        .agent_with("triage", &["schema_version"], hands_to("You decide.", handoffs))
        .await;
    let mongo = app
        .agent_with("mongodb-analyst", &["list_tags"], |content| {
            content.system_prompt = "You know documents.".to_owned();
            content.description = "Reads collections.".to_owned();
        })
        .await;
    app.agent("bigquery-analyst", &[]).await;
    app.model.script([
        Reply::text("One moment. ").then_tool("transfer_to_mongodb", json!({"reason": "it is about documents"})),
        Reply::tool("list_tags", json!({})),
        Reply::text("There are no tags."),
        Reply::text("Still here."),
    ]);
    let frames = app
        .client()
        .ask(Some(triage), "which tags does the collection have?")
        .await;
    let events = json_of(&frames);
    let seen = kinds(&frames);
    let mut told: Vec<&str> = seen
        .iter()
        .map(String::as_str)
        .filter(|kind| *kind != "usage")
        .collect();
    // Text may be split into several pieces.
    told.dedup_by(|one, before| one == before && *one == "token");
    assert_eq!(
        told,
        [
            "message", "meta", "token", "mcp_tool", "mcp_tool", "handoff", "mcp_tool", "mcp_tool", "token", "message",
            "done"
        ]
    );
    let handoff = of_kind(&events, "handoff")[0];
    assert_eq!(
        (
            &handoff["from"],
            &handoff["to"],
            &handoff["reason"],
            &handoff["agentDefinitionId"]
        ),
        (
            &json!("triage"),
            &json!("mongodb-analyst"),
            &json!("it is about documents"),
            &json!(mongo)
        )
    );
    assert_eq!(text(&frames), "One moment. \n\nThere are no tags.");
    assert_eq!(events.last().unwrap()["status"], "completed");

    let asked = app.model.requests();
    assert_eq!(
        offered(&asked[0]),
        ["schema_version", "transfer_to_mongodb", "transfer_to_bigquery_analyst"],
        "an agent that is not there is not offered"
    );
    let what = asked[0]["tools"][1]["function"]["description"].as_str().unwrap();
    assert!(
        what.contains("mongodb-analyst") && what.contains("Reads collections."),
        "{what}"
    );
    // The other agent has its own prompt and tools, and the whole conversation.
    assert_eq!(offered(&asked[1]), ["list_tags"]);
    let given = sent(&asked[1]);
    assert_eq!(given[0], ("system".to_owned(), "You know documents.".to_owned()));
    assert_eq!(given.iter().filter(|(role, _)| role == "system").count(), 1);
    assert!(
        given
            .iter()
            .any(|(role, said)| role == "user" && said.contains("which tags"))
    );
    assert!(given.last().unwrap().1.contains("transferred_to"));
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());

    // It is stored: the next message goes directly to it, whatever the client requests.
    let conversation = events[1]["conversationId"].as_str().unwrap();
    assert_eq!(agent_of(&app, conversation).await, (mongo, mongo));
    let body = json!({"message": "and now?", "conversationId": conversation, "agentDefinitionId": triage});
    let frames = app.client().chat(body).await;
    assert_eq!(of_kind(&json_of(&frames), "meta")[0]["agent"], "mongodb-analyst");
    assert_eq!(text(&frames), "Still here.");
    assert_eq!(sent(&app.model.requests()[3])[0].1, "You know documents.");
}

/// Requirements: D18.
#[tokio::test]
async fn a_crash_after_a_handoff_goes_on_as_the_agent_that_took_over() {
    let mut app = TestApp::start().await;
    let first = app
        .agent_with(
            "first",
            &["schema_version"],
            hands_to("You are first.", json!(["second"])),
        )
        .await;
    app.agent_with("second", &[], |content| {
        content.system_prompt = "You are second.".to_owned()
    })
    .await;
    app.model.script([
        to("second", Value::Null),
        Reply::hang_after(3),
        Reply::text("Done by second."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "go", "agentDefinitionId": first}))
        .await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    // A late reader sees the current agent.
    let late = app
        .client()
        .stream(&format!("{path}?from=snapshot"))
        .await
        .next_event()
        .await
        .unwrap();
    assert_eq!(late.json()["turn"]["meta"]["agent"], "second");
    app.crash_workers();
    app.add_worker();
    frames.extend(reader.until("done").await);
    let kept = apply_resets(&frames);
    assert_eq!(text(&kept), "Done by second.");
    assert_eq!(kept.iter().filter(|frame| frame.kind() == "handoff").count(), 1);
    let asked = app.model.requests();
    assert_eq!(sent(&asked[2])[0].1, "You are second.");
    assert_eq!(app.model.left(), 0);
}

/// Requirements: D20.
#[tokio::test]
async fn agents_that_pass_a_conversation_round_are_stopped() {
    let app = TestApp::start().await;
    let a = app
        .agent_with("a", &[], hands_to("You are a.", json!(["b", "a"])))
        .await;
    app.agent_with("b", &[], hands_to("You are b.", json!(["a"]))).await;
    app.model.script([
        to("a", Value::Null),
        to("b", Value::Null),
        to("a", Value::Null),
        to("b", Value::Null),
        Reply::text("Then I answer."),
    ]);
    let frames = app.client().ask(Some(a), "whose is it?").await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Then I answer.");
    assert_eq!(of_kind(&events, "handoff").len(), 2, "a to b, b to a");
    let errors: Vec<&str> = of_kind(&events, "mcp_tool")
        .iter()
        .filter_map(|event| event["error"].as_str())
        .collect();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].contains("you are a"), "{}", errors[0]);
    assert!(errors[1].contains("and it was handed back"), "{}", errors[1]);
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "handoff_loop");
    assert_eq!(events.last().unwrap()["status"], "completed");
}

/// Requirements: D20.
#[tokio::test]
async fn a_turn_with_handoffs_has_at_most_twenty_model_calls() {
    let app = TestApp::start().await;
    let first = app
        .agent_with("first", &[], hands_to("You are first.", json!(["endless"])))
        .await;
    // It has no limit of its own, and can't hand over further.
    app.agent_with("endless", &["find_path", "schema_version"], |content| {
        content.max_steps = None
    })
    .await;
    app.model.answer_by({
        let calls = std::sync::atomic::AtomicUsize::new(0);
        move |request| {
            let n = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(match (n, offered(request).is_empty()) {
                (0, _) => to("endless", Value::Null),
                (_, true) => Reply::text("That is what I have."),
                // Always different calls, so that only the limit of steps applies.
                (n, false) => Reply::tool(
                    "find_path",
                    json!({"from_id": format!("{n}"), "to_id": "x", "max_depth": null}),
                ),
            })
        }
    });
    let frames = app.client().ask(Some(first), "go on for ever").await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "paused");
    let usage = of_kind(&events, "usage");
    assert_eq!(usage.last().unwrap()["steps"], 21, "twenty, and one to sum up");
}

#[tokio::test]
async fn the_first_handoff_of_a_step_counts_after_other_calls() {
    let app = TestApp::start().await;
    let a = app
        .agent_with("a", &["schema_version"], hands_to("You are a.", json!(["b", "c"])))
        .await;
    app.agent("b", &[]).await;
    app.agent("c", &[]).await;
    app.model.script([
        Reply::tools([
            ("transfer_to_b", json!({"reason": null})),
            ("schema_version", json!({})),
            ("transfer_to_c", json!({"reason": null})),
        ]),
        Reply::text("b here."),
    ]);
    let frames = app.client().ask(Some(a), "both?").await;
    let events = json_of(&frames);
    let ended: Vec<(&str, &str)> = of_kind(&events, "mcp_tool")
        .iter()
        .filter(|event| event["status"] != "started")
        .map(|event| (event["tool"].as_str().unwrap(), event["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        ended,
        [
            ("schema_version", "completed"),
            ("transfer_to_c", "error"),
            ("transfer_to_b", "completed")
        ]
    );
    assert_eq!(of_kind(&events, "handoff")[0]["to"], "b");
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

#[tokio::test]
async fn a_fork_from_before_a_handoff_is_the_first_agents() {
    let app = TestApp::start().await;
    let first = app
        .agent_with(
            "first",
            &["schema_version"],
            hands_to("You are first.", json!(["second"])),
        )
        .await;
    app.agent("second", &[]).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        to("second", Value::Null),
        Reply::text("Second."),
        Reply::text("First after all."),
    ]);
    let frames = app.client().ask(Some(first), "go").await;
    let run = json_of(&frames)[1]["runId"].as_str().unwrap().to_owned();
    let fork = format!("/api/runs/{run}/fork");
    let (status, forked) = app.client().post(&fork, json!({"step": 1})).await;
    assert!(status.is_success(), "{forked}");
    let path = format!("/api/runs/{}/events", forked["runId"].as_str().unwrap());
    let frames = app.client().stream(&path).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "first");
    let asked = app.model.requests();
    assert_eq!(sent(asked.last().unwrap())[0].1, "You are first.");
    assert!(offered(asked.last().unwrap()).contains(&"transfer_to_second"));
}

#[tokio::test]
async fn handoff_targets_are_set_at_the_top_or_in_the_config() {
    let app = TestApp::start().await;
    let path = format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id);
    let body = json!({"name": "first", "handoffs": ["second", {"agent": "third", "as": "the_third"}], "config": {"colour": "green"}});
    let (status, made) = app.client().post(&path, body).await;
    assert_eq!(status, 201, "{made}");
    let expected = json!(["second", {"agent": "third", "as": "the_third"}]);
    assert_eq!(made["handoffs"], expected);
    assert_eq!(made["config"], json!({"colour": "green", "handoffs": expected}));
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let (_, changed) = app.client().patch(&one, json!({"handoffs": []})).await;
    assert_eq!(changed["handoffs"], json!([]));
    let (status, told) = app.client().patch(&one, json!({"handoffs": [7]})).await;
    assert_eq!(
        (status.as_u16(), &told["code"]),
        (400, &json!("invalid_agent_definition"))
    );
}
