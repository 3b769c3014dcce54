//! DAGs of tasks: created over HTTP or by the command line; scheduled in passes that follow the ends of runs; each task and each join happens
//! once.

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};

use super::graph;

pub fn path(app: &TestApp) -> String {
    format!("/api/projects/{}/task-dags", app.db.workspace_id)
}

/// Returns the tasks' states, once the DAG has ended.
pub async fn ended(client: &Client, app: &TestApp, dag: &Value) -> Value {
    let path = format!("{}/{}", path(app), dag["id"].as_str().unwrap());
    support::wait_for("the DAG to end", async || {
        let (_, dag) = client.get(&path).await;
        (!dag["finishedAt"].is_null()).then_some(dag)
    })
    .await
}

fn states(dag: &Value) -> Vec<(String, String)> {
    let tasks = dag["tasks"].as_array().unwrap();
    let mut states: Vec<(String, String)> = tasks
        .iter()
        .map(|task| {
            (
                task["id"].as_str().unwrap().to_owned(),
                task["state"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    states.sort();
    states
}

pub fn task<'a>(dag: &'a Value, id: &str) -> &'a Value {
    dag["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|task| task["id"] == id)
        .unwrap()
}

fn all(states: &[(String, String)], state: &str) -> bool {
    states.iter().all(|(_, is)| is == state)
}

/// Requirements: C41, C42, C58.
#[tokio::test]
async fn a_dag_runs_in_order_and_its_tasks_are_graph_objects() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model.on("# Left", [Reply::text("left found")]);
    app.model.on("# Right", [Reply::text("right found")]);
    app.model.on("# Join", [Reply::text("both joined")]);
    let client = app.client();
    let spec = json!({"name": "three", "tasks": [
        {"id": "join", "title": "Join", "after": ["left", "right"], "agent": "worker"},
        {"id": "left", "title": "Left", "agent": "worker", "priority": "high"},
        {"id": "right", "title": "Right", "agent": "worker", "complexity": 3},
    ]});
    let (status, dag) = client.post(&path(&app), spec).await;
    assert_eq!(status, 201, "{dag}");
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(dag["state"], "completed");
    assert!(all(&states(&dag), "completed"), "{dag}");
    assert_eq!(task(&dag, "join")["after"], json!(["left", "right"]));
    let asked = app.model.requests();
    let join = asked
        .iter()
        .map(|request| sent(request).last().unwrap().1.clone())
        .find(|asked| asked.contains("# Join"));
    let join = join.unwrap();
    assert!(join.contains("left found") && join.contains("right found"), "{join}");
    // In the graph: typed, versioned, linked.
    let object = task(&dag, "left")["objectId"].as_str().unwrap();
    let objects = format!("/api/projects/{}/graph/objects/{object}", app.db.workspace_id);
    let (_, object) = client.get(&objects).await;
    assert_eq!(
        (&object["type"], &object["properties"]["status"]),
        (&json!("SpecTask"), &json!("completed"))
    );
    assert_eq!(object["version"], 3, "pending, in progress, completed");
    assert!(object["properties"]["metrics"]["duration_seconds"].is_number());
    graph::tasks_and_sessions_are_connected(&app, &dag).await;
    // Drawings.
    let drawn = |format: &'static str| {
        let path = format!("{}/{}/diagram?format={format}", path(&app), dag["id"].as_str().unwrap());
        client.request(reqwest::Method::GET, &path)
    };
    let mermaid = drawn("mermaid").send().await.unwrap().text().await.unwrap();
    assert!(
        mermaid.starts_with("flowchart TD") && mermaid.contains("-->") && mermaid.contains(":::completed"),
        "{mermaid}"
    );
    let lines = drawn("text").send().await.unwrap().text().await.unwrap();
    assert!(lines.contains("  [x] join: Join  (after left, right)"), "{lines}");
}

/// Requirements: C46.
#[tokio::test]
async fn what_is_no_dag_is_refused_and_nothing_is_stored() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let cycle = json!({"name": "round", "tasks": [{"id": "a", "after": ["b"]}, {"id": "b", "after": ["a"]}]});
    let (status, problem) = client.post(&path(&app), cycle).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_task_dag")));
    assert!(problem["detail"].as_str().unwrap().contains("cycle: "), "{problem}");
    assert_eq!(
        client
            .post(
                &path(&app),
                json!({"name": "x", "tasks": [{"id": "a", "colour": "red"}]})
            )
            .await
            .0,
        400
    );
    let stored: i64 =
        sqlx::query_scalar("select (select count(*) from kb.tasks) + (select count(*) from kb.graph_objects)")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(stored, 0);
}

#[tokio::test]
async fn a_failed_task_is_retried_then_its_dependents_are_skipped() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model
        .on("# Wobbly", [Reply::status(400), Reply::text("second time lucky")]);
    app.model.always("# Broken", Reply::status(400));
    app.model.always("# Fine", Reply::text("fine"));
    let client = app.client();
    let spec = json!({"name": "failing", "tasks": [
        {"id": "wobbly", "title": "Wobbly", "agent": "worker"},
        {"id": "broken", "title": "Broken", "agent": "worker", "maxRetries": 2},
        {"id": "behind", "title": "Behind", "agent": "worker", "after": ["broken"]},
        {"id": "far", "title": "Far", "agent": "worker", "after": ["behind"]},
        {"id": "fine", "title": "Fine", "agent": "worker", "after": ["wobbly"]},
        {"id": "nobody", "title": "Nobody", "agent": "ghost"},
    ]});
    let (_, dag) = client.post(&path(&app), spec).await;
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(dag["state"], "failed");
    let is = |id: &str| task(&dag, id)["state"].as_str().unwrap().to_owned();
    assert_eq!(
        ["wobbly", "broken", "behind", "far", "fine", "nobody"].map(is),
        ["completed", "failed", "skipped", "skipped", "completed", "failed"]
    );
    assert_eq!(
        (&task(&dag, "wobbly")["retryCount"], &task(&dag, "broken")["retryCount"]),
        (&json!(1), &json!(2))
    );
    assert!(
        task(&dag, "nobody")["failureContext"]
            .as_str()
            .unwrap()
            .contains("no agent ghost")
    );
    let second = app
        .model
        .requests()
        .iter()
        .map(|request| sent(request).last().unwrap().1.clone())
        .find(|asked| asked.contains("# Wobbly") && asked.contains("Previous failed attempt"));
    assert!(second.is_some(), "the second try knows why the first failed");
}

#[tokio::test]
async fn concurrency_is_bounded_and_a_dag_pauses_resumes_and_cancels() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let reply = Reply::text("ok").gate(gate.clone());
    app.model.always("# Task", reply);
    let client = app.client();
    let tasks: Vec<Value> = (0..6)
        .map(|n| json!({"id": format!("t{n}"), "title": format!("Task {n}"), "agent": "worker"}))
        .collect();
    let (_, dag) = client
        .post(
            &path(&app),
            json!({"name": "wide", "maxConcurrency": 2, "tasks": tasks}),
        )
        .await;
    let at = format!("{}/{}", path(&app), dag["id"].as_str().unwrap());
    let counts = async || client.get(&at).await.1["counts"].clone();
    assert_eq!(counts().await, json!({"in_progress": 2, "pending": 4}));
    assert_eq!(
        client.post(&format!("{at}/pause"), json!({})).await.1["state"],
        "paused"
    );
    assert_eq!(client.post(&format!("{at}/pause"), json!({})).await.0, 409);
    app.model
        .wait_for(std::time::Duration::from_secs(10), |seen| seen.requests == 2)
        .await
        .unwrap();
    gate.notify_one();
    gate.notify_one();
    support::wait_for("two to complete", async || {
        (counts().await == json!({"completed": 2, "pending": 4})).then_some(())
    })
    .await;
    client.post(&format!("{at}/resume"), json!({})).await;
    assert_eq!(counts().await["in_progress"], 2);
    let (status, _) = client.post(&format!("{at}/cancel"), json!({})).await;
    assert_eq!(status, 202);
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(dag["state"], "cancelled");
    support::wait_for("the tasks to follow their cancelled runs", async || {
        (counts().await == json!({"completed": 2, "failed": 2, "skipped": 2})).then_some(())
    })
    .await;
}

/// Invariant I12.
#[tokio::test]
async fn every_task_and_join_happens_once_while_workers_die() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    app.agent("worker", &[]).await;
    app.model.always("# Task", Reply::text("one two three").words_every(30));
    // Layers of four, each task after two of the previous layer.
    let mut tasks = Vec::new();
    for layer in 0..8 {
        for nth in 0..4 {
            let after: Vec<String> = match layer {
                0 => vec![],
                _ => [nth, (nth + 1) % 4]
                    .map(|before| format!("t{}-{before}", layer - 1))
                    .to_vec(),
            };
            let id = format!("t{layer}-{nth}");
            tasks.push(json!({"id": id, "title": format!("Task {id}"), "agent": "worker", "after": after}));
        }
    }
    let client = app.client();
    let (_, dag) = client
        .post(
            &path(&app),
            json!({"name": "layers", "maxConcurrency": 4, "tasks": tasks}),
        )
        .await;
    let mut workers = [Process::worker(&app), Process::worker(&app)];
    for round in 0..4 {
        let done = async || -> i64 {
            sqlx::query_scalar("select count(*) from kb.tasks where state = 'completed'")
                .fetch_one(&app.db.pool)
                .await
                .unwrap()
        };
        let before = done().await;
        support::wait_for("some progress", async || (done().await > before + 2).then_some(())).await;
        let dying = std::mem::replace(&mut workers[round % 2], Process::worker(&app));
        dying.kill();
    }
    let dag = ended(&client, &app, &dag).await;
    assert!(all(&states(&dag), "completed"), "{dag}");
    let runs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where task_id is not null")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(runs, 32, "one run a task");
    let done: i64 = sqlx::query_scalar("select count(*) from stream.each_event where type = 'done'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(done, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_dags_of_yaml() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model.always("# ", Reply::text("done"));
    let file = std::env::temp_dir().join(format!("{}.yaml", uuid::Uuid::now_v7()));
    std::fs::write(
        &file,
        "name: small\ntasks:\n  - id: a\n    title: First\n    agent: worker\n  - {id: b, after: [a], agent: worker}\n",
    )
    .unwrap();
    let rejoin = |arguments: &[&str]| {
        let mut command = std::process::Command::new(rejoin_tests::app::binary());
        command.args(arguments).arg("--json");
        command
            .env("REJOIN_URL", app.url())
            .env("REJOIN_API_KEY", &app.db.api_key)
            .env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string());
        command.output().unwrap()
    };
    let file = file.to_str().unwrap().to_owned();
    let rejoin = |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        rejoin(&arguments)
    };
    let (dry, made) = tokio::task::block_in_place(|| {
        (
            rejoin(vec!["tasks".into(), "apply".into(), file.clone(), "--dry-run".into()]),
            rejoin(vec!["tasks".into(), "apply".into(), file.clone()]),
        )
    });
    assert!(dry.status.success(), "{}", String::from_utf8_lossy(&dry.stderr));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let dag: Value = serde_json::from_slice(&made.stdout).unwrap();
    let dag = ended(&app.client(), &app, &dag).await;
    assert!(all(&states(&dag), "completed"));
}
