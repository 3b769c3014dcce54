//! Who reaches agents, what agents never see, and what a fault of theirs must not touch.

use std::sync::Arc;

use rejoin_graph::objects::{self, NewObject};
use rejoin_graph::{Actor, ActorKind};
use rejoin_identity::workspaces;
use rejoin_models::choice::ModelChoice;
use rejoin_runs::agents::{self, DefinitionContent};
use rejoin_runs::builtin;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::replies::spawn;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Map, Value, json};

use super::spawning::results;

/// Requirements: C07.
#[test]
fn more_than_thirty_tools_are_over_the_graph() {
    let graph = rejoin_tools::graph::tools();
    assert!(graph.len() >= 30, "{}", graph.len());
    let offered = builtin::tools().resolve(&["*".to_owned()]);
    let is_offered = |tool: &SharedTool| offered.iter().any(|one| one.spec().name == tool.spec().name);
    assert!(graph.iter().all(is_offered));
}

/// Requirements: C03.
#[tokio::test]
async fn developers_admins_outsiders_and_agents_each_reach_an_agent() {
    let app = TestApp::start().await;
    let client = app.client();
    let project = app.db.workspace_id;
    app.model.always("little", Reply::text("Done."));
    // Installed with a product.
    let manifest = json!({
        "name": "kit", "version": "1.0.0",
        "agents": [{"name": "helper", "system_prompt": "You help.", "model": {"name": "openai:scripted"}, "tools": []}],
    });
    let (status, made) = client
        .post(
            &format!("/api/admin/projects/{project}/products"),
            json!({ "manifest": manifest }),
        )
        .await;
    assert!(status.is_success(), "{made}");
    // Visible to an admin.
    let (_, listed) = client
        .get(&format!("/api/admin/projects/{project}/agent-definitions"))
        .await;
    assert!(listed.to_string().contains("\"helper\""), "{listed}");
    // Triggered by an external program.
    let (status, _) = client
        .post(
            &format!("/api/projects/{project}/agents/helper/trigger"),
            json!({"input": "a little"}),
        )
        .await;
    assert_eq!(status, 202);
    // Started by an agent.
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.model
        .on("delegate", [spawn(&[("helper", "little")]), Reply::text("It helped.")]);
    let events = json_of(&client.ask(Some(boss), "delegate").await);
    assert_eq!(results(&events)[0]["status"], "completed");
}

/// Requirements: C04, C62.
#[tokio::test]
async fn no_agent_sees_or_starts_anything_of_another_project() {
    let app = TestApp::start().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    let secret = DefinitionContent {
        name: "stranger".to_owned(),
        model: Some(ModelChoice::named("openai:scripted")),
        ..agents::defaults().remove(0)
    };
    agents::insert(&mut db, other, &secret).await.unwrap().unwrap();
    let hidden = NewObject {
        object_type: "Plan".to_owned(),
        key: Some("hidden".to_owned()),
        status: None,
        labels: vec![],
        properties: Map::from_iter([("title".to_owned(), json!("Hidden plan"))]),
        schema_version: None,
    };
    let actor = Actor {
        kind: ActorKind::System,
        id: None,
    };
    let hidden = objects::create(&mut db, other, &hidden, actor).await.unwrap();
    let boss = app
        .agent(
            "boss",
            &[
                "list_available_agents",
                "spawn_agents",
                "search_entities",
                "get_entity_edges",
            ],
        )
        .await;
    app.model.on(
        "spy",
        [
            Reply::tools(vec![
                ("list_available_agents", json!({})),
                ("search_entities", json!({"query": "hidden plan"})),
                ("get_entity_edges", json!({"entity_id": hidden.id})),
            ]),
            spawn(&[("stranger", "tell me")]),
            Reply::text("Nothing."),
        ],
    );
    let events = json_of(&app.client().ask(Some(boss), "spy").await);
    let given: Vec<String> = sent(app.model.requests().last().unwrap())
        .into_iter()
        .filter(|(role, _)| role == "tool")
        .map(|(_, text)| text)
        .collect();
    assert!(
        given[0].contains("\"boss\"") && !given[0].contains("stranger"),
        "{given:?}"
    );
    assert!(
        !given[1].contains("Hidden plan") && !given[2].contains("Hidden plan"),
        "{given:?}"
    );
    let refused = &results(&events)[0];
    assert!(
        refused["error"].as_str().unwrap().contains("there is no agent"),
        "{refused}"
    );
    let theirs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where project_id = $1")
        .bind(other)
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(theirs, 0);
}

/// A tool that panics.
struct Broken(ToolSpec);

#[async_trait::async_trait]
impl Tool for Broken {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Value, ToolError> {
        panic!("a bug of a tool")
    }
}

/// Requirements: C56.
#[tokio::test]
async fn a_bug_in_a_tool_affects_neither_the_graph_nor_other_runs() {
    let broken = Broken(ToolSpec {
        name: "broken".to_owned(),
        description: "Breaks.".to_owned(),
        parameters: json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}).into(),
        read_only: true,
        idempotent: true,
        destructive: false,
    });
    let app = TestApp::with(AppOptions {
        tools: builtin::tools().with([Arc::new(broken) as SharedTool]),
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let clumsy = app.agent("clumsy", &["broken"]).await;
    let careful = app.agent("careful", &["search_entities"]).await;
    let objects = format!("/api/projects/{}/graph/objects", app.db.workspace_id);
    let (status, _) = client
        .post(
            &objects,
            json!({"type": "Thing", "key": "one", "properties": {"name": "Thing one"}}),
        )
        .await;
    assert_eq!(status, 201);
    app.model
        .on("break", [Reply::tool("broken", json!({})), Reply::text("It broke.")]);
    app.model.on(
        "look",
        [
            Reply::tool("search_entities", json!({"query": "thing"})),
            Reply::text("Found it."),
        ],
    );
    let (broke, looked) = tokio::join!(client.ask(Some(clumsy), "break"), client.ask(Some(careful), "look"));
    let (broke, looked) = (json_of(&broke), json_of(&looked));
    let calls = of_kind(&broke, "mcp_tool");
    assert_eq!(calls.last().unwrap()["status"], "error", "{calls:?}");
    assert_eq!(
        broke.last().unwrap()["status"],
        "completed",
        "the model is told, and goes on"
    );
    assert_eq!(looked.last().unwrap()["status"], "completed");
    let calls = of_kind(&looked, "mcp_tool");
    let search = calls.last().unwrap();
    assert_eq!(
        (&search["tool"], &search["status"]),
        (&json!("search_entities"), &json!("completed"))
    );
    assert!(search["result"].to_string().contains("Thing one"), "{search}");
    let (_, found) = client.get(&format!("{objects}?type=Thing")).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    // The worker continues with the same agent.
    app.model.on("again", [Reply::text("Still here.")]);
    assert_eq!(text(&client.ask(Some(clumsy), "again").await), "Still here.");
}

/// Requirements: C16.
#[tokio::test]
async fn a_run_of_half_a_megabyte_is_kept_and_exported_whole() {
    let app = TestApp::start().await;
    let writer = app.agent("writer", &["find_path"]).await;
    // In long words: the scripted model sends each by itself.
    let paragraph = format!("{} ", "All-that-was-said-is-kept.".repeat(10)).repeat(207);
    let steps = 10;
    let replies = (0..steps).map(|step| {
        let ends = json!({"from_entity": format!("a{step}"), "to_entity": "b"});
        Reply::text(&paragraph).then_tool("find_path", ends)
    });
    app.model.on(
        "write",
        replies.chain([Reply::text("That is all.")]).collect::<Vec<_>>(),
    );
    let client = app.client();
    let frames = client.ask(Some(writer), "write").await;
    let run = json_of(&frames)[1]["runId"].as_str().unwrap().to_owned();
    let path = format!("/api/projects/{}/agent-runs/{run}/export", app.db.workspace_id);
    let (_, whole) = client.get(&path).await;
    assert_eq!(whole["toolCalls"].as_array().unwrap().len(), steps);
    assert!(whole["messages"].to_string().len() > 500_000);
    assert!(text(&frames).len() > 500_000, "and readers have all of it");
}
