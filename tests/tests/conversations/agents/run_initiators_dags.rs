//! The owner of a DAG, and runs without a maker.

use rejoin_identity::workspaces::Role;
use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::json;

use super::run_initiators::{look_around, member, private_things, wait_for_state};

#[tokio::test]
async fn all_members_read_a_dag_and_only_its_maker_changes_it() {
    let app = TestApp::start().await;
    app.agent("worker", &["ask_user"]).await;
    let question = json!({"question": "Which?", "options": []});
    app.model.on("Ask first", [Reply::tool("ask_user", question)]);
    app.model.always("", Reply::text("done"));
    let (bob_id, bob) = member(&app, Role::Member).await;
    let path = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let tasks = json!({"name": "two", "tasks": [
        {"id": "a", "title": "Ask first", "agent": "worker", "maxRetries": 0},
        {"id": "b", "title": "Then", "agent": "worker", "after": ["a"]},
    ]});
    let (status, dag) = bob.post(&path, tasks).await;
    assert_eq!(status, StatusCode::CREATED, "{dag}");
    assert_eq!(dag["createdBy"], json!(bob_id));
    let run = dag["tasks"][0]["runId"].as_str().unwrap().to_owned();
    wait_for_state(&app, &run, "waiting").await;
    let dag_path = format!("{path}/{}", dag["id"].as_str().unwrap());
    let retry = format!("{dag_path}/tasks/a/retry");
    let demo = app.client();
    let (_, carol) = member(&app, Role::Member).await;
    for other in [&demo, &carol] {
        let (status, seen) = other.get(&dag_path).await;
        assert_eq!((status, &seen["tasks"][0]["runId"]), (StatusCode::OK, &json!(run)));
        assert_eq!(other.get(&format!("/api/runs/{run}")).await.0, StatusCode::NOT_FOUND);
    }
    let (status, problem) = carol.post(&format!("{dag_path}/pause"), json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("not_the_maker"))
    );
    let (status, _) = carol.post(&format!("{dag_path}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    // An owner of the project stops it; only its maker can resume it.
    let (status, paused) = demo.post(&format!("{dag_path}/pause"), json!({})).await;
    assert_eq!((status, &paused["state"]), (StatusCode::OK, &json!("paused")));
    for other in [&demo, &carol] {
        for go_on in [format!("{dag_path}/resume"), retry.clone()] {
            let (status, problem) = other.post(&go_on, json!({})).await;
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::FORBIDDEN, &json!("not_the_maker")),
                "{go_on}"
            );
        }
    }
    let (status, resumed) = bob.post(&format!("{dag_path}/resume"), json!({})).await;
    assert_eq!((status, &resumed["state"]), (StatusCode::OK, &json!("active")));
    let (status, cancelled) = demo.post(&format!("{dag_path}/cancel"), json!({})).await;
    assert_eq!(
        (status, &cancelled["state"]),
        (StatusCode::ACCEPTED, &json!("cancelled"))
    );
    wait_for_state(&app, &run, "cancelled").await;
}

#[tokio::test]
async fn a_run_without_a_maker_is_shared_and_has_no_private_tools() {
    let app = TestApp::start().await;
    let demo = app.client();
    app.agent("secretary", &["*"]).await;
    private_things(&demo).await;
    app.model.on("look around", [look_around(), Reply::text("done")]);
    let path = format!("/api/projects/{}/schedules", app.db.workspace_id);
    let job = json!({"name": "job", "cron": "0 3 * * *", "agent": "secretary", "input": "look around"});
    let (_, made) = demo.post(&path, job).await;
    // As a product's job.
    sqlx::query("update kb.schedules set created_by = null, next_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let schedule = format!("{path}/{}", made["id"].as_str().unwrap());
    let run = wait_for("the schedule to fire", async || {
        demo.get(&schedule).await.1["lastRunId"].as_str().map(str::to_owned)
    })
    .await;
    wait_for_state(&app, &run, "completed").await;
    let (_, viewer) = member(&app, Role::Viewer).await;
    let export = format!("/api/projects/{}/agent-runs/{run}/export", app.db.workspace_id);
    for client in [&demo, &viewer] {
        let (status, whole) = client.get(&export).await;
        assert_eq!(status, StatusCode::OK, "{whole}");
        let calls = whole["toolCalls"].as_array().unwrap();
        assert_eq!(calls.len(), 3);
        for call in calls {
            assert_eq!(call["status"], "error", "{call}");
        }
        assert!(!whole.to_string().contains("secretevent"), "{whole}");
    }
}
