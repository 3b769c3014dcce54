//! One conversation with every feature known to the dialect of chat pages, as such a page sees it, compared with the
//! recorded stream.

use std::collections::HashMap;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, Frame, Stream, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::replies::{plan_of, step};
use rejoin_tests::support;
use serde_json::{Value, json};

use super::contexts::{compass, project};

/// Events of the dialect handled by such a page: their required fields besides the type.
const FIELDS: [(&str, &[&str]); 23] = [
    ("session", &["session", "sessionId"]),
    ("context_usage", &["usage"]),
    ("focus_active", &["focus"]),
    ("focus_changed", &["focus"]),
    ("last_turn_context", &["context"]),
    ("agent_state", &["state"]),
    ("text", &["content"]),
    ("tool_call", &["tool_call", "source"]),
    ("tool_result", &["result", "source"]),
    ("operation", &["operation"]),
    ("plan_created", &["plan"]),
    ("plan_ready_for_review", &["plan", "summary", "recommendations"]),
    ("plan_review", &["plan", "verdict", "reviewer"]),
    ("step_start", &["step", "stepNumber"]),
    ("step_complete", &["step", "stepNumber"]),
    ("executor_spawned", &["executorId", "task", "stepNumber"]),
    ("executor_result", &["executorId", "result", "stepNumber"]),
    ("context_shift", &["context_shift"]),
    ("clarifying_questions", &["questions"]),
    ("question_answered", &["questionId", "status"]),
    ("agent_mode", &["mode"]),
    ("error", &["error", "code", "retryable"]),
    ("done", &["finished_reason"]),
];

async fn answer_all(client: &Client, count: usize, with: &str) {
    let open = support::wait_for("questions", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await;
    for question in open {
        let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
        let (status, said) = client.post(&path, json!({"answer": with})).await;
        assert_eq!(status, 200, "{said}");
    }
}

/// Runs a turn, answering its questions while reading.
async fn turn(client: &Client, body: Value, answers: &[(usize, &str)]) -> Vec<Value> {
    let (status, accepted) = client.post_for_json("/api/agent/stream", body).await;
    assert_eq!(status, 202, "{accepted}");
    let session = accepted["conversationId"].as_str().unwrap();
    let path = format!("/api/agent/stream?sessionId={session}&after={}", accepted["cursor"]);
    let mut reader: Stream = client.event_stream(&path).await;
    let mut frames: Vec<Frame> = Vec::new();
    for (count, with) in answers {
        answer_all(client, *count, with).await;
    }
    frames.extend(reader.until("done").await);
    json_of(&frames)
}

/// Normalizes events: ids become #1, #2, … in order; times and durations are removed; text pieces are merged.
fn told(events: &[Value]) -> Vec<Value> {
    let mut names = HashMap::new();
    let mut all: Vec<Value> = Vec::new();
    for event in events {
        let mut event = event.clone();
        plain(&mut event, &mut names);
        let piece = match event["type"].as_str().unwrap() {
            "text" => Some("content"),
            "token" => Some("token"),
            _ => None,
        };
        match (all.last_mut(), piece) {
            (Some(last), Some(piece)) if last["type"] == event["type"] && last["runId"] == event["runId"] => {
                let whole = format!("{}{}", last[piece].as_str().unwrap(), event[piece].as_str().unwrap());
                last[piece] = whole.into();
            }
            _ => all.push(event),
        }
    }
    all
}

const ID_CHARS: usize = 36;

fn is_id(text: &str, at: usize) -> bool {
    text.get(at..at + ID_CHARS)
        .is_some_and(|id| uuid::Uuid::parse_str(id).is_ok())
}

fn plain(value: &mut Value, names: &mut HashMap<String, String>) {
    match value {
        Value::String(text) => {
            let mut plain = String::new();
            let mut rest = text.as_str();
            // Ids anywhere in a text; a port is removed with its address.
            while let Some(at) = (0..rest.len()).find(|at| rest.is_char_boundary(*at) && is_id(rest, *at)) {
                let (before, from) = rest.split_at(at);
                let next = format!("#{}", names.len() + 1);
                plain.push_str(before);
                plain.push_str(names.entry(from[..ID_CHARS].to_owned()).or_insert(next));
                rest = &from[ID_CHARS..];
            }
            plain.push_str(rest);
            if let Some((before, after)) = plain.clone().split_once("127.0.0.1:") {
                plain = format!("{before}…{}", after.trim_start_matches(|c: char| c.is_ascii_digit()));
            }
            *text = plain;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| plain(item, names)),
        Value::Object(fields) => {
            for name in [
                "durationMs",
                "timestamp",
                "createdAt",
                "estimatedTokens",
                "usagePercent",
                "tokensRemaining",
                "inputTokens",
                "outputTokens",
                "totalTokens",
                "treeTokens",
                "contextTokens",
            ] {
                if let Some(field) = fields.get_mut(name) {
                    *field = "…".into();
                }
            }
            fields.values_mut().for_each(|field| plain(field, names));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Requirements: E01, E03, E12, E14, E17, E18, E19, E31, E32, E40, E48, E60.
#[tokio::test]
async fn the_whole_story_is_shown_as_it_was_recorded() {
    let options = AppOptions {
        tools: compass(),
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    app.agent("executor", &["*"]).await;
    let planner = app
        .agent_with(
            "planner",
            &["ask_user", "agent_create_plan", "go_to", "where_am_i"],
            |content| {
                content.max_steps = None;
            },
        )
        .await;
    let moon = project(&app, "Moon").await;
    let client = app.client();

    app.model.script([
        Reply::text("{\"clear\": false, \"questions\": [{\"question\": \"By when?\"}]}"),
        Reply::text("{\"clear\": true}"),
        Reply::tool("go_to", json!({ "to": moon })),
        Reply::text("Moon is begun."),
    ]);
    let body = json!({"message": "a trip", "agent_definition_id": planner, "context_type": "project_create"});
    let mut events = turn(&client, body, &[(1, "in May")]).await;
    let session = events[0]["sessionId"].clone();

    app.model.script([
        plan_of(
            "draft_only",
            json!([
                {"stepNumber": 1, "type": "research", "description": "Look around", "tools": ["where_am_i"]},
                step(2, "Write it down", &[1]),
            ]),
        ),
        Reply::tool("where_am_i", json!({ "to": null })),
        Reply::text("We are at Moon."),
        Reply::text("Written."),
        Reply::text("The plan is done."),
    ]);
    events.extend(
        turn(
            &client,
            json!({"message": "plan it", "session_id": session}),
            &[(1, "approve")],
        )
        .await,
    );

    app.model.script([Reply::status(400)]);
    events.extend(turn(&client, json!({"message": "and break", "session_id": session}), &[]).await);

    for (kind, fields) in FIELDS {
        let of: Vec<&Value> = events.iter().filter(|event| event["type"] == kind).collect();
        assert!(!of.is_empty(), "no {kind} in {events:#?}");
        for event in of {
            for field in fields {
                // The focus ends with its project.
                assert!(
                    !event[*field].is_null() || kind == "focus_changed",
                    "{kind} without {field}: {event}"
                );
            }
        }
    }
    // Each turn has one end, after everything else; an error precedes it; steps don't end the turn.
    let ends: Vec<usize> = (0..events.len()).filter(|at| events[*at]["type"] == "done").collect();
    assert_eq!((ends.len(), *ends.last().unwrap()), (3, events.len() - 1));
    assert_eq!(
        events.iter().rposition(|event| event["type"] == "error"),
        Some(events.len() - 2 - 2)
    );
    for event in events
        .iter()
        .filter(|event| ["tool_call", "tool_result"].contains(&event["type"].as_str().unwrap()))
    {
        assert!(
            ["planner", "plan_step"].contains(&event["source"].as_str().unwrap()),
            "{event}"
        );
    }

    // Messages are stored, and fetched as a session; so are plans and runs, each call with its own run.
    let (_, fetched) = client
        .get(&format!("/api/agent/stream?sessionId={}", session.as_str().unwrap()))
        .await;
    let given: Vec<&str> = fetched["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] != "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        given,
        ["a trip", "Moon is begun.", "plan it", "The plan is done.", "and break"]
    );
    let (_, listed) = client.get("/api/agent/stream").await;
    assert_eq!(listed["sessions"][0]["id"], session);
    let kept: (i64, i64) = sqlx::query_as(
        "select (select count(*) from kb.agent_plans where status = 'completed'), (select count(*) from kb.agent_runs where part ->> 'source' = 'plan_step')",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(kept, (1, 2));
    insta::assert_snapshot!("story", serde_json::to_string_pretty(&told(&events)).unwrap());

    // The same events as the web app gets: its tests render this recording.
    let log = format!("/api/conversations/{}/events?after=0", session.as_str().unwrap());
    let mut reader = client.stream(&log).await;
    let mut native = Vec::new();
    while of_kind(&native, "done").len() < ends.len() {
        native.extend(json_of(&reader.until("done").await));
    }
    insta::assert_snapshot!("story_events", serde_json::to_string_pretty(&told(&native)).unwrap());
}
