//! DAGs of tasks: created by HTTP or a tool; dispatched in the transactions in which tasks end; each task and each join
//! happens once.

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
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

/// Requirements: C11, C12.
#[tokio::test]
async fn agents_decide_where_rules_do_not() {
    let app = TestApp::start().await;
    for name in ["poet", "digger", "chooser", "judge", "triage"] {
        app.agent(name, &[]).await;
    }
    let verdict =
        |verdict: &str, feedback: &str| Reply::text(json!({"verdict": verdict, "feedback": feedback}).to_string());
    app.model.on(
        "Select the agent",
        [Reply::text("```json\n{\"agent\": \"digger\"}\n```")],
    );
    // By the judged task: the rule for a verdict precedes that of its task.
    app.model.on("Judge whether", [verdict("retry", "more feeling")]);
    app.model.on_request(
        |request| sent(request).last().unwrap().1.contains("A task failed"),
        [verdict("skip", "")],
    );
    app.model.on_request(
        |request| {
            let asked = sent(request).last().unwrap().1.clone();
            asked.starts_with("# Poem")
        },
        [Reply::text("a cold poem"), Reply::text("a warm poem")],
    );
    app.model.always("# Broken", Reply::status(400));
    app.model.always("# Unclear", Reply::text("dug"));
    app.model.always("Judge whether", verdict("accept", ""));
    let client = app.client();
    let spec = json!({"name": "decided", "maxConcurrency": 1, "selectorAgent": "chooser", "judgeAgent": "judge", "triageAgent": "triage",
    "rules": [{"pattern": "(?i)poem", "agent": "poet"}, {"field": "id", "value": "broken", "agent": "digger"}],
    "tasks": [
        {"id": "poem", "title": "Poem", "priority": "critical"},
        {"id": "unclear", "title": "Unclear", "priority": "high"},
        {"id": "broken", "title": "Broken"},
        {"id": "after", "title": "Unclear too", "after": ["broken"], "agent": "digger"},
    ]});
    let (status, dag) = client.post(&path(&app), spec).await;
    assert_eq!(status, 201, "{dag}");
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(dag["state"], "completed", "{dag}");
    let poem = task(&dag, "poem");
    assert_eq!(
        (&poem["summary"], &poem["retryCount"]),
        (&json!("a warm poem"), &json!(1))
    );
    assert!(poem["agentBecause"].as_str().unwrap().contains("rule 1"), "{poem}");
    assert_eq!(task(&dag, "unclear")["agent"], "digger");
    assert_eq!(task(&dag, "unclear")["agentBecause"], "selected by chooser");
    assert_eq!(task(&dag, "broken")["state"], "skipped");
    assert_eq!(
        task(&dag, "after")["state"],
        "completed",
        "what waits for a skipped task goes on"
    );
}

#[tokio::test]
async fn a_judge_that_can_not_decide_asks_a_person() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.agent("judge", &[]).await;
    // An invalid verdict: it is asked again.
    let verdict = |verdict: &str| Reply::text(json!({"verdict": verdict, "feedback": "It may be a joke."}).to_string());
    app.model.on("Judge whether", [verdict("funny")]);
    app.model.on("Your answer does not match", [verdict("escalate")]);
    app.model.always("# Odd", Reply::text("an odd answer"));
    let client = app.client();
    let spec =
        json!({"name": "odd", "judgeAgent": "judge", "tasks": [{"id": "odd", "title": "Odd", "agent": "worker"}]});
    let (_, dag) = client.post(&path(&app), spec).await;
    let question = support::wait_for("the question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await;
    assert!(question["question"].as_str().unwrap().contains("It may be a joke."));
    let answer = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    assert_eq!(client.post(&answer, json!({"answer": "maybe"})).await.0, 400);
    assert_eq!(client.post(&answer, json!({"answer": "accept"})).await.0, 200);
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(
        (&dag["state"], &task(&dag, "odd")["summary"]),
        (&json!("completed"), &json!("an odd answer"))
    );
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
    app.wait_until_idle().await;
    assert_eq!(counts().await, json!({"completed": 2, "failed": 2, "skipped": 2}));
}

#[tokio::test]
async fn an_agent_splits_work_into_tasks_and_answers_with_results() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["create_tasks"]).await;
    app.agent("worker", &[]).await;
    let tasks = json!([
        {"id": "a", "title": "Part A", "agent": "worker"}, {"id": "b", "title": "Part B", "agent": "worker"},
        {"id": "join", "title": "Whole", "agent": "worker", "after": ["a", "b"]},
    ]);
    let round = json!([{"id": "a", "title": "x", "after": ["a"]}]);
    app.model.on(
        "split it",
        [
            Reply::tool("create_tasks", json!({"name": "round", "tasks": round})),
            Reply::tool("create_tasks", json!({"name": "work", "tasks": tasks})),
            Reply::text("Here it is."),
        ],
    );
    app.model.always("# Part", Reply::text("a part"));
    app.model.always("# Whole", Reply::text("the whole"));
    let frames = app.client().ask(Some(boss), "split it").await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Here it is.");
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    assert!(ends[0]["error"].as_str().unwrap().contains("a -> a"), "{}", ends[0]);
    let result = &ends[1]["result"];
    assert_eq!(result["state"], "completed");
    assert_eq!(result["tasks"].as_array().unwrap().len(), 3);
    let join = result["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|task| task["id"] == "join")
        .unwrap();
    assert_eq!(
        (&join["summary"], &join["status"]),
        (&json!("the whole"), &json!("completed"))
    );
}

#[tokio::test]
async fn cancelling_a_run_cancels_the_tasks_that_it_waits_for() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["create_tasks"]).await;
    app.agent("worker", &[]).await;
    let tasks = json!([{"id": "a", "title": "Endless", "agent": "worker"}, {"id": "b", "title": "Later", "agent": "worker", "after": ["a"]}]);
    app.model.on(
        "split it",
        [Reply::tool("create_tasks", json!({"name": "work", "tasks": tasks}))],
    );
    app.model.always("# Endless", Reply::hang_after(1));
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "split it", "agentDefinitionId": boss}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    app.model
        .wait_for(std::time::Duration::from_secs(10), |seen| seen.requests == 2)
        .await
        .unwrap();
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    app.wait_until_idle().await;
    let dags: Vec<(String,)> = sqlx::query_as("select state from kb.task_dags")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(dags, [("cancelled".to_owned(),)]);
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
