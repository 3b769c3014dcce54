//! Tasks in the knowledge graph, agent selection, and DAGs whose order is changed in the graph.

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

use super::dags::{ended, path, task};

/// For the three tasks: `blocks` links, their sessions, and the content of the left one's session.
pub async fn tasks_and_sessions_are_connected(app: &TestApp, dag: &Value) {
    let client = app.client();
    assert_eq!(
        edges(app, "blocks").await,
        [
            ("Left".to_owned(), "Join".to_owned()),
            ("Right".to_owned(), "Join".to_owned())
        ]
    );
    let sessions = ["Join", "Left", "Right"].map(|title| (title.to_owned(), format!("worker: {title}")));
    assert_eq!(edges(app, "has_session").await, sessions);
    let session = task(dag, "left")["runId"].as_str().unwrap();
    let graph = format!("/api/projects/{}/graph", app.db.workspace_id);
    let (_, session) = client.get(&format!("{graph}/objects/{session}")).await;
    assert_eq!(
        (&session["type"], &session["status"], &session["properties"]["agent"]),
        (&json!("Session"), &json!("completed"), &json!("worker"))
    );
    let said: Vec<(String, String)> = sqlx::query_as(
        "select o.properties ->> 'role', o.properties ->> 'content'
         from kb.graph_relationships r
         join kb.graph_objects o on o.canonical_id = r.target_id and o.superseded_at is null
         where r.type = 'has_message' and r.source_id = $1::uuid and o.type = 'SessionMessage' order by o.key",
    )
    .bind(session["id"].as_str().unwrap())
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].0 == "user" && said[0].1.starts_with("# Left"), "{said:?}");
    assert_eq!(said[1], ("assistant".to_owned(), "left found".to_owned()));
}

/// Returns the titles connected by relationships of a type, sorted.
async fn edges(app: &TestApp, kind: &str) -> Vec<(String, String)> {
    sqlx::query_as(
        "select a.properties ->> 'title', b.properties ->> 'title'
         from kb.graph_relationships r
         join kb.graph_objects a on a.canonical_id = r.source_id and a.superseded_at is null
         join kb.graph_objects b on b.canonical_id = r.target_id and b.superseded_at is null
         where r.type = $1 order by 1, 2",
    )
    .bind(kind)
    .fetch_all(&app.db.pool)
    .await
    .unwrap()
}

/// Requirements: C42.
#[tokio::test]
async fn the_pack_for_coordination_has_its_types_and_relationships() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model.always("# A", Reply::text("done"));
    let client = app.client();
    let spec = json!({"name": "one", "tasks": [{"id": "a", "title": "A", "agent": "worker"}]});
    let (_, dag) = client.post(&path(&app), spec).await;
    ended(&client, &app, &dag).await;
    let (types, relationships): (Value, Value) = sqlx::query_as(
        "select object_types, relationship_types from kb.template_packs where name = 'emergent-coordination'",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    let mut names: Vec<&String> = types.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(
        names,
        ["Discussion", "DiscussionEntry", "Session", "SessionMessage", "SpecTask"]
    );
    assert_eq!(
        types["Session"]["properties"]["status"]["enum"],
        json!(["active", "completed", "failed", "cancelled"])
    );
    assert_eq!(types["SessionMessage"]["required"], json!(["role", "content"]));
    assert_eq!(
        (&relationships["blocks"]["from"], &relationships["blocks"]["to"]),
        (&json!(["SpecTask"]), &json!(["SpecTask"]))
    );
    // The graph enforces them.
    let objects = format!("/api/projects/{}/graph/objects", app.db.workspace_id);
    let odd = json!({"type": "Session", "key": "odd", "properties": {"status": "asleep"}});
    let (status, problem) = client.post(&objects, odd).await;
    assert_eq!(status, 400, "{problem}");
}

/// Requirements: C46.
#[tokio::test]
async fn objects_name_the_pack_version_installed_in_their_project() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.model.always("# A", Reply::text("done"));
    let client = app.client();
    let graph = format!("/api/projects/{}/graph", app.db.workspace_id);
    let older =
        json!({"name": "emergent-coordination", "version": "0.9.0", "objectTypes": {"SpecTask": {"type": "object"}}});
    let (status, pack) = client.post(&format!("{graph}/packs"), older).await;
    assert_eq!(status, 201, "{pack}");
    let installed = format!("{graph}/installed-packs/{}", pack["id"].as_str().unwrap());
    let (status, assignment) = client.put(&installed, json!({})).await;
    assert_eq!(status, 200, "{assignment}");
    let spec = json!({"name": "one", "tasks": [{"id": "a", "title": "A", "agent": "worker"}]});
    let (_, dag) = client.post(&path(&app), spec).await;
    ended(&client, &app, &dag).await;
    let versions: Vec<String> = sqlx::query_scalar(
        "select distinct schema_version from kb.graph_objects where type in ('SpecTask', 'Session', 'SessionMessage')",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(versions, ["emergent-coordination@0.9.0"]);
}

/// Requirements: C46.
#[tokio::test]
async fn a_dag_with_a_changed_order_ends_instead_of_waiting() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    app.model.on("# First", [Reply::text("done").gate(gate.clone())]);
    let client = app.client();
    let spec = json!({"name": "two", "tasks": [
        {"id": "first", "title": "First", "agent": "worker"},
        {"id": "second", "title": "Second", "agent": "worker", "after": ["first"]},
        {"id": "third", "title": "Third", "agent": "worker", "after": ["second"]},
    ]});
    let (_, dag) = client.post(&path(&app), spec).await;
    let edge: Uuid = sqlx::query_scalar(
        "select canonical_id from kb.graph_relationships where type = 'blocks' and source_id = $1::uuid",
    )
    .bind(task(&dag, "first")["objectId"].as_str().unwrap())
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    let edge = format!("/api/projects/{}/graph/relationships/{edge}", app.db.workspace_id);
    let (status, deleted) = client.delete(&edge).await;
    assert!(status.is_success(), "{deleted}");
    gate.notify_one();
    let dag = ended(&client, &app, &dag).await;
    assert_eq!(dag["state"], "failed");
    let is = |id: &str| task(&dag, id)["state"].as_str().unwrap().to_owned();
    assert_eq!(["first", "second", "third"].map(is), ["completed", "failed", "failed"]);
    let why = task(&dag, "second")["failureContext"].as_str().unwrap();
    assert!(why.contains("cannot unblock it"), "{why}");
}

/// Requirements: C12.
#[tokio::test]
async fn a_fast_model_decides_ties_and_its_silence_costs_nothing() {
    let app = TestApp::start().await;
    for name in ["ada", "bea", "cyd"] {
        app.agent(name, &[]).await;
    }
    let client = app.client();
    let routing = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
    let put = async |body: Value| client.put(&routing, body).await;
    app.model.always("# Work", Reply::text("done"));
    let run = async |id: &str| {
        let spec = json!({"name": "one", "tasks": [{"id": id, "title": "Work"}]});
        let (status, dag) = client.post(&path(&app), spec).await;
        assert_eq!(status, 201, "{dag}");
        let dag = ended(&client, &app, &dag).await;
        let task = task(&dag, id);
        (
            task["agent"].as_str().unwrap().to_owned(),
            task["agentBecause"].as_str().unwrap().to_owned(),
        )
    };
    // No model is asked unless the project has one for that.
    let first = "several match equally; it is the first by name";
    assert_eq!(run("silent").await, ("ada".to_owned(), first.to_owned()));
    assert_eq!(app.model.requests().len(), 1);

    let (status, set) = put(json!({"percent": 0, "selectorModel": "openai:quick"})).await;
    assert_eq!((status.as_u16(), &set["selectorModel"]), (200, &json!("openai:quick")));
    assert_eq!(client.get(&routing).await.1["selectorModel"], "openai:quick");
    assert_eq!(put(json!({"percent": 0, "selectorModel": " "})).await.0, 400);
    app.model.on(
        "Select the agent",
        [
            Reply::text("{\"agent\": \"cyd\", \"reason\": \"it can\"}"),
            Reply::text("nobody of these"),
            Reply::status(400),
        ],
    );
    app.model
        .on("Your answer does not match", [Reply::text("still nobody")]);
    let chosen = (
        "cyd".to_owned(),
        "several match equally; selected by openai:quick".to_owned(),
    );
    assert_eq!(run("asked").await, chosen);
    let asked = app.model.requests()[1].clone();
    assert_eq!(asked["model"], "quick");
    // It can only answer, and name only matching agents.
    assert_eq!(asked["tools"].as_array().map(Vec::len), Some(1));
    let answer = &asked["tools"][0]["function"];
    assert_eq!(answer["name"], "final_answer");
    assert_eq!(
        answer["parameters"]["properties"]["agent"]["enum"]
            .as_array()
            .map(Vec::len),
        Some(3),
        "{answer}"
    );
    let given = sent(&asked);
    assert!(given.last().unwrap().1.contains("- bea: "), "{given:?}");
    // Its answer is useless, or it is unavailable: the rule decides.
    for id in ["useless", "broken"] {
        let (agent, because) = run(id).await;
        assert_eq!(agent, "ada", "{because}");
        assert!(
            because.starts_with(first) && because.contains("openai:quick"),
            "{because}"
        );
    }
}
