//! Agent definitions over HTTP, and runs triggered with them.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{answer, kinds};
use rejoin_tests::model_server::{Reply, sent};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn definitions(app: &TestApp) -> String {
    format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id)
}

#[tokio::test]
async fn definitions_are_managed_in_either_spelling() {
    let app = quiet().await;
    let client = app.client();
    let snake = json!({"name": "a", "system_prompt": "p", "model": {"name": "openai:x", "max_tokens": 9}, "tools": ["list_*"],
                       "flow_type": "loop", "is_default": true, "max_steps": 3, "default_timeout": 60, "max_depth": 1});
    let (status, made) = client.post(&definitions(&app), snake).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let expected = json!({"name": "a", "description": "", "systemPrompt": "p", "model": {"name": "openai:x", "maxTokens": 9},
                          "tools": ["list_*"], "flowType": "loop", "isDefault": true, "maxSteps": 3, "defaultTimeout": 60,
                          "visibility": "project", "maxDepth": 1});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    let path = format!("{}/{}", definitions(&app), made["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.1, made);
    let (_, changed) = client.patch(&path, json!({"maxSteps": null, "tools": []})).await;
    assert_eq!(
        (&changed["maxSteps"], &changed["tools"], &changed["maxDepth"]),
        (&Value::Null, &json!([]), &json!(1))
    );
    let (status, problem) = client.post(&definitions(&app), json!({"name": "a"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
    client.post(&definitions(&app), json!({"name": "b"})).await;
    let (status, problem) = client.patch(&path, json!({"name": "b"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_definition_that_makes_no_sense_is_refused() {
    let app = quiet().await;
    for body in [
        json!({}),
        json!({"name": "  "}),
        json!({"name": "x", "maxSteps": 0}),
        json!({"name": "x", "flowType": "zigzag"}),
        json!({"name": "x", "visibility": "secret"}),
        json!({"name": "x", "defaultTimeout": -1}),
        json!({"name": "x", "model": {"name": ""}}),
        json!({"name": "x", "tols": []}),
    ] {
        let (status, problem) = app.client().post(&definitions(&app), body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {problem}");
    }
}

#[tokio::test]
async fn a_definition_with_conversations_stays() {
    let app = quiet().await;
    let agent = app.agent("bound", &[]).await;
    let (status, made) = app
        .client()
        .post("/api/conversations", json!({"agentDefinitionId": agent}))
        .await;
    assert_eq!(
        (status, &made["agentDefinitionId"]),
        (StatusCode::CREATED, &json!(agent))
    );
    let (status, problem) = app.client().delete(&format!("{}/{agent}", definitions(&app))).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("definition_in_use"))
    );
}

#[tokio::test]
async fn definitions_are_listed_in_pages_by_name() {
    let app = quiet().await;
    for name in ["c", "a", "b"] {
        app.agent(name, &[]).await;
    }
    let (_, page) = app.client().get(&format!("{}?limit=2", definitions(&app))).await;
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&page), ["a", "b"]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let (_, rest) = app
        .client()
        .get(&format!("{}?limit=2&cursor={cursor}", definitions(&app)))
        .await;
    assert_eq!(
        (names(&rest), &rest["nextCursor"]),
        (vec!["c".to_owned()], &Value::Null)
    );
}

/// Requirements: C01, C54.
#[tokio::test]
async fn a_run_is_triggered_by_its_agents_id_or_name_and_runs() {
    let app = TestApp::start().await;
    let agent = app.agent("nightly", &["schema_version"]).await;
    app.model.answer_by(|request| {
        Some(match sent(request).last()?.0.as_str() {
            "tool" => Reply::text("All is well."),
            _ => Reply::tool("schema_version", json!({})),
        })
    });
    let trigger = |of: &str| format!("/api/projects/{}/agents/{of}/trigger", app.db.workspace_id);
    for of in [agent.to_string(), "nightly".to_owned()] {
        let (status, body) = app
            .client()
            .post(&trigger(&of), json!({"input": {"since": "yesterday"}}))
            .await;
        assert_eq!((status, &body["cursor"]), (StatusCode::ACCEPTED, &json!(0)), "{body}");
        let run = body["runId"].as_str().unwrap();
        let frames = app
            .client()
            .stream(&format!("/api/runs/{run}/events"))
            .await
            .rest()
            .await;
        assert_eq!(
            kinds(&frames),
            ["meta", "usage", "mcp_tool", "mcp_tool", "token", "usage", "done"]
        );
        let path = format!("/api/projects/{}/agent-runs/{run}", app.db.workspace_id);
        let (_, run) = app.client().get(&path).await;
        assert_eq!(
            (&run["state"], &run["summary"], &run["stepCount"], &run["agent"]),
            (
                &json!("completed"),
                &json!("All is well."),
                &json!(2),
                &json!("nightly")
            )
        );
    }
    assert_eq!(
        app.client().post(&trigger("nobody"), json!({"input": "x"})).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        app.client().post(&trigger("nightly"), json!({"input": ""})).await.0,
        StatusCode::BAD_REQUEST
    );
    let foreign = format!("/api/projects/{}/agents/nightly/trigger", Uuid::now_v7());
    assert_eq!(
        app.client().post(&foreign, json!({"input": "x"})).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn the_same_key_triggers_one_run_and_another_input_is_422() {
    let app = quiet().await;
    app.agent("nightly", &[]).await;
    app.agent("weekly", &[]).await;
    let trigger = async |agent: &str, input: &str| {
        let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
        let request = app.client().request(Method::POST, &path);
        let request = request
            .header("idempotency-key", "once")
            .json(&json!({ "input": input }));
        answer(request.send().await.unwrap()).await
    };
    let all = futures::future::join_all((0..10).map(|_| trigger("nightly", "tidy up"))).await;
    assert_eq!(all[0].0, StatusCode::ACCEPTED);
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    for (agent, input) in [("nightly", "something else"), ("weekly", "tidy up")] {
        let (status, problem) = trigger(agent, input).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
        );
    }
    let runs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(runs, 1);
}
