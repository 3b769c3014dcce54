//! Retries of tasks that failed for good, on request, including steps of a plan that is still executing. And a late
//! reader's view of a plan.

use std::sync::Arc;

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::replies::{plan_of, step};
use rejoin_tests::support;
use serde_json::{Value, json};
use tokio::sync::Notify;

use rejoin_tests::plans::{planner, plans, statuses};

fn state_of(dag: &Value, id: &str) -> String {
    let tasks = dag["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|task| task["id"] == id).unwrap();
    task["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_failed_is_tried_again_and_what_was_behind_it_may_start() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model
        .on("# Broken", [Reply::status(400), Reply::text("mended at last")]);
    app.model.always("# Hopeless", Reply::status(400));
    app.model.always("# ", Reply::text("fine"));
    let client = app.client();
    let path = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let task = |id: &str, title: &str, after: &[&str]| json!({"id": id, "title": title, "agent": "worker", "after": after, "maxRetries": 0});
    let spec = json!({"name": "failing", "tasks": [
        task("broken", "Broken", &[]), task("hopeless", "Hopeless", &[]), task("behind", "Behind", &["broken"]),
        task("both", "Both", &["behind", "hopeless"]), task("fine", "Fine", &[]),
    ]});
    let (_, dag) = client.post(&path, spec).await;
    let dag_path = format!("{path}/{}", dag["id"].as_str().unwrap());
    let over = async || {
        support::wait_for("the DAG to end", async || {
            let (_, dag) = client.get(&dag_path).await;
            (!dag["finishedAt"].is_null()).then_some(dag)
        })
        .await
    };
    let dag = over().await;
    let states = |dag: &Value| ["broken", "hopeless", "behind", "both", "fine"].map(|id| state_of(dag, id));
    assert_eq!(states(&dag), ["failed", "failed", "skipped", "skipped", "completed"]);
    for (task, status, code) in [
        ("fine", 409, "task_state"),
        ("behind", 409, "task_state"),
        ("ghost", 404, "task_not_found"),
    ] {
        let (got, problem) = client.post(&format!("{dag_path}/tasks/{task}/retry"), json!({})).await;
        assert_eq!((got.as_u16(), &problem["code"]), (status, &json!(code)), "{problem}");
    }
    let (status, dag) = client.post(&format!("{dag_path}/tasks/broken/retry"), json!({})).await;
    assert_eq!((status.as_u16(), &dag["state"]), (200, &json!("active")), "{dag}");
    let dag = over().await;
    // Successors of a task that still fails stay skipped.
    assert_eq!(
        states(&dag),
        ["completed", "failed", "completed", "skipped", "completed"]
    );
    assert_eq!(dag["state"], "failed");
    let given = app.model.requests();
    let last = given.iter().rfind(|request| request.to_string().contains("# Broken"));
    assert!(
        last.unwrap().to_string().contains("Previous failed attempt"),
        "it knows why the first try failed"
    );
    let (_, cancelled) = client
        .post(&path, json!({"name": "c", "tasks": [task("broken", "Broken", &[])]}))
        .await;
    let cancelled = format!("{path}/{}", cancelled["id"].as_str().unwrap());
    client.post(&format!("{cancelled}/cancel"), json!({})).await;
    let (status, problem) = client.post(&format!("{cancelled}/tasks/broken/retry"), json!({})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (409, &json!("task_dag_state")),
        "{problem}"
    );
}

/// Requirements: E26, E43.
#[tokio::test]
async fn a_failed_step_is_retried_by_hand_and_shown_to_late_readers() {
    let app = TestApp::start().await;
    let planner = planner(&app, &[], json!({})).await;
    let steps = json!([step(1, "Break", &[]), step(2, "Slow", &[]), step(3, "After", &[1])]);
    app.model
        .on("Plan it", [plan_of("auto_execute", steps), Reply::text("Planned.")]);
    app.model.on(
        "# Break",
        [Reply::status(400), Reply::status(400), Reply::text("at last")],
    );
    let gate = Arc::new(Notify::new());
    app.model.on("# Slow", [Reply::text("slow").gate(gate.clone())]);
    app.model.on("# After", [Reply::text("after")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "Plan it", "agentDefinitionId": planner}))
        .await;
    let stand = async |wanted: [&str; 3]| {
        support::wait_for("the plan to stand so", async || {
            let plan = plans(&app).await.pop()?;
            (statuses(&plan) == wanted).then_some(plan)
        })
        .await
    };
    let plan = stand(["failed", "executing", "skipped"]).await;
    let conversation = posted["conversationId"].as_str().unwrap();
    let snapshot = async || {
        let path = format!("/api/conversations/{conversation}/events?from=snapshot");
        let mut stream = client.stream(&path).await;
        stream.until("snapshot").await.pop().unwrap().json()
    };
    let told = snapshot().await["turn"].clone();
    assert_eq!(
        (&told["plan"]["id"], &told["plan"]["status"]),
        (&plan["id"], &json!("executing"))
    );
    assert_eq!(statuses(&told["plan"]), ["failed", "executing", "skipped"]);
    let agents = told["agents"].as_array().unwrap();
    let of: Vec<(&Value, &Value, &Value)> = agents
        .iter()
        .map(|agent| (&agent["source"], &agent["stepNumber"], &agent["status"]))
        .collect();
    let source = json!("plan_step");
    assert!(of.contains(&(&source, &json!(1), &json!("failed"))), "{told}");
    assert!(of.contains(&(&source, &json!(2), &json!("started"))), "{told}");
    assert_eq!(
        told["toolCalls"].as_array().unwrap().len(),
        1,
        "calls of steps are not the planner's"
    );

    let dag = format!(
        "/api/projects/{}/task-dags/{}",
        app.db.workspace_id,
        plan["dagId"].as_str().unwrap()
    );
    let (status, said) = client.post(&format!("{dag}/tasks/1/retry"), json!({})).await;
    assert_eq!(status, 200, "{said}");
    stand(["completed", "executing", "completed"]).await;
    assert_eq!(
        statuses(&snapshot().await["turn"]["plan"]),
        ["completed", "executing", "completed"]
    );
    gate.notify_one();
    app.wait_until_idle().await;
    let plan = stand(["completed"; 3]).await;
    assert_eq!(plan["status"], "completed");
    // It has ended, and so has the turn that waited for it.
    let (status, problem) = client.post(&format!("{dag}/tasks/1/retry"), json!({})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (409, &json!("task_dag_state")),
        "{problem}"
    );
}
