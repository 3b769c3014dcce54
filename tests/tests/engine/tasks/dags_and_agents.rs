//! Agents in DAGs: they decide which branch runs, and runs create tasks and wait for them.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};

use super::dags::{ended, path, task};

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
