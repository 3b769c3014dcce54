//! The audit trail over HTTP: requirements C29-C35.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn runs(app: &TestApp) -> String {
    format!("/api/projects/{}/agent-runs", app.db.workspace_id)
}

/// A run with two messages, the second one long, and two tool calls, as stored by a worker.
async fn recorded(app: &TestApp) -> Uuid {
    let posted = app.client().post_message(json!({"message": "hello"})).await;
    let run: Uuid = posted["runId"].as_str().unwrap().parse().unwrap();
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    sqlx::query(
        "insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
         values ($1, $3, 1, 'user', '{\"kind\": \"user\", \"text\": \"hello\"}', 0),
                ($2, $3, 2, 'assistant',
                 jsonb_build_object('kind', 'assistant', 'text', repeat('x', 500), 'tool_calls', '[]'::jsonb), 1)",
    )
    .bind(first)
    .bind(second)
    .bind(run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    sqlx::query(
        "insert into kb.agent_run_tool_calls (id, run_id, message_id, call_id, step_number, position, tool_name, input, output,
                                              error, status, duration_ms)
         values (gen_random_uuid(), $1, $2, 'call_1', 1, 0, 'hybrid_search', '{\"query\": \"x\"}', '{\"hits\": []}', null,
                 'completed', 12),
                (gen_random_uuid(), $1, $2, 'call_2', 1, 1, 'get_entity_edges', '{}', null, 'no such entity', 'error', 3)",
    )
    .bind(run)
    .bind(second)
    .execute(&app.db.pool)
    .await
    .unwrap();
    sqlx::query(
        "update kb.agent_runs set state = 'completed', step_count = 1, summary = 'found nothing', agent_name = 'finder',
                                  started_at = now() - interval '2 s', finished_at = now(), usage = '{\"totalTokens\": 7}'
         where id = $1",
    )
    .bind(run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    run
}

/// Requirements: C29, C30, C61.
#[tokio::test]
async fn runs_are_listed_and_shown_in_detail() {
    let app = quiet().await;
    let run = recorded(&app).await;
    let (_, page) = app.client().get(&runs(&app)).await;
    let item = &page["items"][0];
    assert_eq!(
        (&item["id"], &item["state"], &item["status"]),
        (&json!(run), &json!("completed"), &json!("completed"))
    );
    assert_eq!(
        (&item["durationMs"], &item["stepCount"], &item["agent"]),
        (&json!(2_000), &json!(1), &json!("finder"))
    );
    assert_eq!(item["usage"], json!({"totalTokens": 7}));
    assert_eq!(item["inputPreview"], "hello");
    for path in [format!("{}/{run}", runs(&app)), format!("/api/runs/{run}")] {
        let (_, detail) = app.client().get(&path).await;
        assert_eq!(
            (&detail["summary"], &detail["agent"]),
            (&json!("found nothing"), &json!("finder")),
            "{path}"
        );
        assert_eq!(
            (&detail["parentRunId"], &detail["children"]),
            (&Value::Null, &json!([]))
        );
    }
}

/// Requirements: C13, C31, C32.
#[tokio::test]
async fn messages_are_listed_short_and_given_in_full() {
    let app = quiet().await;
    let run = recorded(&app).await;
    let (_, page) = app.client().get(&format!("{}/{run}/messages", runs(&app))).await;
    let items = page["items"].as_array().unwrap();
    assert_eq!(
        (&items[0]["role"], &items[0]["content"], &items[0]["truncated"]),
        (&json!("user"), &json!("hello"), &json!(false))
    );
    assert_eq!(
        (&items[1]["stepNumber"], &items[1]["truncated"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(items[1]["content"], "x".repeat(200));
    let (_, full) = app
        .client()
        .get(&format!(
            "{}/{run}/messages/{}",
            runs(&app),
            items[1]["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        full["content"],
        json!({"kind": "assistant", "text": "x".repeat(500), "tool_calls": []})
    );
    let missing = format!("{}/{run}/messages/{}", runs(&app), Uuid::now_v7());
    assert_eq!(app.client().get(&missing).await.0, StatusCode::NOT_FOUND);
}

/// Requirements: C31, C32.
#[tokio::test]
async fn stored_messages_are_listed_by_text_and_given_unchanged() {
    let app = TestApp::start().await;
    let agent = app.agent("talker", &["schema_version"]).await;
    let long = "All that was said is kept. ".repeat(20);
    app.model.script([
        Reply::text(&long).then_tool("schema_version", json!({})),
        Reply::text("Done."),
    ]);
    let frames = app.client().ask(Some(agent), "say much").await;
    let run = frames[1].json()["runId"].as_str().unwrap().to_owned();
    let path = format!("{}/{run}/messages", runs(&app));
    let (_, page) = app.client().get(&path).await;
    let items = page["items"].as_array().unwrap();
    let roles: Vec<&Value> = items.iter().map(|item| &item["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool_result", "assistant"]);
    let said = &items[2];
    let beginning: String = long.chars().take(200).collect();
    assert_eq!(
        (&said["content"], &said["truncated"], &said["stepNumber"]),
        (&json!(beginning), &json!(true), &json!(1))
    );
    let (_, full) = app
        .client()
        .get(&format!("{path}/{}", said["id"].as_str().unwrap()))
        .await;
    assert_eq!(full["content"]["text"], long);
    assert_eq!(full["content"]["tool_calls"][0]["name"], "schema_version");
}

/// Requirements: C29, C30.
#[tokio::test]
async fn a_failed_run_says_why_in_the_list_and_in_detail() {
    let app = TestApp::start().await;
    let agent = app.agent("unlucky", &[]).await;
    app.model.script([Reply::status(401)]);
    let frames = app.client().ask(Some(agent), "hello").await;
    let run = frames[1].json()["runId"].as_str().unwrap().to_owned();
    let published = frames
        .iter()
        .map(|frame| frame.json())
        .find(|event| event["type"] == "error");
    let published = published.unwrap();
    let (_, page) = app.client().get(&runs(&app)).await;
    let (_, detail) = app.client().get(&format!("{}/{run}", runs(&app))).await;
    for shown in [&page["items"][0], &detail] {
        assert_eq!(
            (&shown["error"], &shown["errorCode"]),
            (&published["error"], &json!("model_key_rejected")),
            "{shown}"
        );
    }
}

/// Requirements: C35.
#[tokio::test]
async fn message_pages_stay_stable_while_messages_are_added() {
    let app = quiet().await;
    let run = recorded(&app).await;
    let path = format!("{}/{run}/messages", runs(&app));
    let (_, first) = app.client().get(&format!("{path}?limit=1")).await;
    sqlx::query(
        "insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
         values (gen_random_uuid(), $1, 3, 'user', '{\"kind\": \"user\", \"text\": \"later\"}', 2)",
    )
    .bind(run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    let next = first["nextCursor"].as_str().unwrap();
    let (_, rest) = app.client().get(&format!("{path}?limit=10&cursor={next}")).await;
    let said: Vec<&Value> = [&first, &rest]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|item| &item["content"])
        .collect();
    assert_eq!(said, [&json!("hello"), &json!("x".repeat(200)), &json!("later")]);
    assert_eq!(rest["nextCursor"], Value::Null);
}

/// Requirements: C14, C33, C34.
#[tokio::test]
async fn tool_calls_are_listed_and_given_in_full() {
    let app = quiet().await;
    let run = recorded(&app).await;
    let path = format!("{}/{run}/tool-calls", runs(&app));
    let (_, page) = app.client().get(&format!("{path}?limit=1")).await;
    let first = &page["items"][0];
    assert_eq!(
        (&first["tool"], &first["status"], &first["durationMs"]),
        (&json!("hybrid_search"), &json!("completed"), &json!(12))
    );
    assert!(
        first["input"].is_null() && first["output"].is_null(),
        "a list has no payloads"
    );
    let (_, rest) = app
        .client()
        .get(&format!(
            "{path}?limit=1&cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (&rest["items"][0]["callId"], &rest["nextCursor"]),
        (&json!("call_2"), &Value::Null)
    );
    let (_, full) = app
        .client()
        .get(&format!("{path}/{}", first["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        (&full["input"], &full["output"]),
        (&json!({"query": "x"}), &json!({"hits": []}))
    );
    let (_, failed) = app
        .client()
        .get(&format!("{path}/{}", rest["items"][0]["id"].as_str().unwrap()))
        .await;
    assert_eq!(failed["error"], "no such entity");
}

/// Requirements: C35.
#[tokio::test]
async fn pages_stay_stable_while_runs_are_added() {
    let app = quiet().await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(app.client().post_message(json!({"message": "x"})).await["runId"].clone());
    }
    expected.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = app.client().get(&format!("{}?limit=2{cursor}", runs(&app))).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        app.client().post_message(json!({"message": "meanwhile"})).await;
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn runs_are_narrowed_by_state_conversation_and_agent() {
    let app = quiet().await;
    let agent = app.agent("a", &[]).await;
    let one = app
        .client()
        .post_message(json!({"message": "x", "agentDefinitionId": agent}))
        .await;
    let two = app.client().post_message(json!({"message": "y"})).await;
    let (status, cancelled) = app
        .client()
        .post(
            &format!("/api/runs/{}/cancel", two["runId"].as_str().unwrap()),
            json!({}),
        )
        .await;
    assert_eq!(
        (status, &cancelled["state"]),
        (StatusCode::ACCEPTED, &json!("cancelled"))
    );
    for (query, run) in [
        ("state=cancelled".to_owned(), &two),
        ("state=queued".to_owned(), &one),
        (
            format!("conversationId={}", two["conversationId"].as_str().unwrap()),
            &two,
        ),
        (format!("agentDefinitionId={agent}"), &one),
    ] {
        let (_, page) = app.client().get(&format!("{}?{query}", runs(&app))).await;
        let ids: Vec<&Value> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["id"])
            .collect();
        assert_eq!(ids, [&run["runId"]], "{query}");
    }
    assert_eq!(
        app.client().get(&format!("{}?state=odd", runs(&app))).await.0,
        StatusCode::BAD_REQUEST
    );
}
