//! Discussions: agents propose, argue and vote; without agreement a user decides; all of it is recorded in the
//! knowledge graph.

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

/// A project with three discussing agents: the first two propose, all vote as scripted.
async fn council(app: &TestApp, votes: [&'static str; 3]) -> Uuid {
    for name in ["ada", "bea", "cyd"] {
        app.agent_with(name, &[], |content| {
            content.system_prompt = format!("You are {name}.");
        })
        .await;
    }
    app.model.answer_by(move |request| {
        let messages = sent(request);
        let who = ["ada", "bea", "cyd"].iter().position(|name| {
            messages
                .iter()
                .any(|(_, text)| text.contains(&format!("You are {name}.")))
        })?;
        let (_, asked) = messages.last()?;
        Some(Reply::text(if asked.contains("Vote for one") {
            votes[who]
        } else if asked.contains("Discuss the proposals") {
            ["I was first.", "Mine is cheaper.", "Bea is right."][who]
        } else {
            ["Buy it.", "Build it.", "Borrow it."][who]
        }))
    });
    app.agent_with("council", &[], |content: &mut DefinitionContent| {
        content.flow_type = "discussion".to_owned();
        content.config = json!({"flow": {"agents": ["ada", "bea", "cyd"], "threshold": 0.6}});
    })
    .await
}

/// Returns the discussion's object and its entries' kinds, by number.
async fn discussed(client: &Client, project: Uuid) -> (Value, Vec<(String, String)>) {
    let (_, found) = client
        .get(&format!("/api/projects/{project}/graph/objects?type=Discussion"))
        .await;
    let discussion = found["items"][0].clone();
    let (_, found) = client
        .get(&format!(
            "/api/projects/{project}/graph/objects?type=DiscussionEntry&limit=100"
        ))
        .await;
    let mut entries = found["items"].as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["properties"]["number"].as_i64());
    let entries = entries.iter().map(|entry| {
        let text = |name: &str| entry["properties"][name].as_str().unwrap().to_owned();
        (text("type"), text("agent"))
    });
    (discussion, entries.collect())
}

/// Requirements: C59.
#[tokio::test]
async fn agents_propose_argue_and_vote_and_enough_votes_settle_it() {
    let app = TestApp::start().await;
    let council = council(&app, ["1", "2\nIt is cheaper.", "I vote for 2."]).await;
    let events = json_of(&app.client().ask(Some(council), "How do we get one?").await);
    assert_eq!(events.last().unwrap()["status"], "completed", "{events:?}");
    assert_eq!(of_kind(&events, "meta")[0]["model"], "flow:discussion");
    let root = &events[1]["runId"];
    let reply: String = of_kind(&events, "token")
        .iter()
        .filter(|event| event["runId"] == *root)
        .map(|event| event["token"].as_str().unwrap())
        .collect();
    assert!(
        reply.starts_with("Build it.") && reply.contains("2 of 3 votes"),
        "{reply}"
    );
    let (discussion, entries) = discussed(&app.client(), app.db.workspace_id).await;
    assert_eq!(discussion["status"], "resolved");
    assert_eq!(discussion["properties"]["decision"], "Build it.");
    assert_eq!(discussion["properties"]["consensus_threshold"], 0.6);
    let kinds: Vec<&str> = entries.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, [["proposal"; 3], ["argument"; 3], ["vote"; 3]].concat());
    assert_eq!(entries[4].1, "bea");
    let links: i64 = sqlx::query_scalar(
        "select count(*) from kb.graph_relationships where type = 'has_entry' and source_id = $1::uuid",
    )
    .bind(discussion["id"].as_str().unwrap())
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(links, 9);
}

/// Requirements: C59.
#[tokio::test]
async fn without_consensus_a_person_decides_after_any_restart() {
    let mut app = TestApp::start().await;
    let council = council(&app, ["1", "2", "I can't decide."]).await;
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "How do we get one?", "agentDefinitionId": council}))
        .await;
    let question = support::wait_for("a question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].get(0).cloned()
    })
    .await;
    let labels: Vec<&str> = question["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["label"].as_str().unwrap())
        .collect();
    assert_eq!(
        labels,
        [
            "Proposal 1 (by ada, 1 votes)",
            "Proposal 2 (by bea, 1 votes)",
            "Proposal 3 (by cyd, 0 votes)"
        ]
    );
    assert_eq!(discussed(&client, app.db.workspace_id).await.0["status"], "escalated");
    app.crash_workers();
    app.restart_api().await;
    let client = app.client();
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, _) = client.post(&path, json!({"answer": "3"})).await;
    assert_eq!(status, 200);
    app.add_worker();
    let run = format!("/api/runs/{}", posted["runId"].as_str().unwrap());
    let run = support::wait_for("its end", async || {
        let (_, run) = client.get(&run).await;
        (run["state"] == "completed").then_some(run)
    })
    .await;
    assert!(run["summary"].as_str().unwrap().starts_with("Borrow it."), "{run}");
    let (discussion, entries) = discussed(&client, app.db.workspace_id).await;
    assert_eq!(
        (
            &discussion["status"],
            &discussion["properties"]["decision"],
            entries.len()
        ),
        (&json!("resolved"), &json!("Borrow it."), 9)
    );
}

/// Requirements: C59.
#[tokio::test]
async fn a_task_that_agents_discuss_leads_to_its_discussion() {
    let app = TestApp::start().await;
    council(&app, ["2", "2", "2"]).await;
    let client = app.client();
    let dags = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let dag = json!({"name": "one", "tasks": [{"id": "choose", "title": "How do we get one?", "agent": "council"}]});
    let (status, made) = client.post(&dags, dag).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("{dags}/{}", made["id"].as_str().unwrap());
    let task = support::wait_for("its end", async || {
        let (_, dag) = client.get(&path).await;
        (dag["state"] == "completed").then(|| dag["tasks"][0].clone())
    })
    .await;
    assert!(task["summary"].as_str().unwrap().starts_with("Build it."), "{task}");
    let (discussion, _) = discussed(&client, app.db.workspace_id).await;
    let from: Uuid = sqlx::query_scalar(
        "select source_id from kb.graph_relationships where type = 'spawned_discussion' and target_id = $1::uuid",
    )
    .bind(discussion["id"].as_str().unwrap())
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    let object: String =
        sqlx::query_scalar("select type from kb.graph_objects where canonical_id = $1 and superseded_at is null")
            .bind(from)
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(object, "SpecTask");
}
