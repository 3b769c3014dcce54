//! The work tools: each called with valid and invalid arguments; confined to the focus; repeated after a crash. (In real
//! runs: `tools_in_runs`.)

use std::collections::BTreeMap;
use std::sync::Arc;

use rejoin_graph::embedder::NoEmbedder;
use rejoin_tests::app::TestApp;
use rejoin_tools::arguments::admit;
use rejoin_tools::{SharedTool, ToolContext, ToolError};
use rejoin_types::focus::Focus;
use rejoin_work_graph::tools;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::projects::{project, start};

/// The tools by name, and a context to call them in.
pub struct Tools {
    pub tools: BTreeMap<String, SharedTool>,
    pub context: ToolContext,
}

impl Tools {
    pub fn new(app: &TestApp) -> Self {
        Self {
            tools: tools::tools()
                .into_iter()
                .map(|tool| (tool.spec().name.clone(), tool))
                .collect(),
            context: ToolContext {
                db: app.db.pool.clone(),
                workspace_id: app.db.workspace_id,
                model: Arc::new(NoEmbedder),
                run_id: Some(Uuid::now_v7()),
                user_id: Some(app.db.user_id),
                call_id: "call".to_owned(),
                record_id: Uuid::now_v7(),
                cancel: Default::default(),
                focus: None,
                bounds: None,
            },
        }
    }

    pub fn focused(app: &TestApp, ids: &Value, name: &str) -> Self {
        let mut tools = Self::new(app);
        let project_id = ids["project"].as_str().unwrap().parse().unwrap();
        tools.context.bounds = Some(rejoin_work_graph::bounds(project_id));
        tools.context.focus = Some(Focus {
            project_id,
            project_name: name.to_owned(),
            focus_type: None,
            focus_entity_id: None,
        });
        tools
    }

    /// Another call of the same run.
    pub fn context(&self) -> ToolContext {
        ToolContext {
            record_id: Uuid::now_v7(),
            ..self.context.clone()
        }
    }

    pub async fn by(&self, context: &ToolContext, name: &str, arguments: &Value) -> Result<Value, String> {
        let tool = &self.tools[name];
        let arguments = admit(tool.spec(), arguments)?;
        tool.call(context, arguments).await.map_err(|error| match error {
            ToolError::RespondToModel(words) => words,
            ToolError::Internal { attempted, source } => panic!("{name}: {attempted}: {source}"),
            asks @ ToolError::NeedsInput(_) => panic!("{name}: {asks}"),
        })
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        self.by(&self.context(), name, &arguments)
            .await
            .unwrap_or_else(|words| panic!("{name} {arguments}: {words}"))
    }

    pub async fn refused(&self, name: &str, arguments: Value, words: &str) {
        let refusal = self.by(&self.context(), name, &arguments).await.expect_err(name);
        assert!(refusal.contains(words), "{name} {arguments}: {refusal}");
    }
}

pub fn names(items: &Value) -> Vec<&str> {
    items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

/// Requirements: E53, E57.
#[tokio::test]
async fn each_reading_tool_answers_or_says_what_is_wrong() {
    let (app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let (status, extra) = client
        .post(
            "/api/onto/risks/create",
            json!({"projectId": ids["project"], "title": "Rain"}),
        )
        .await;
    assert_eq!(status, 201, "{extra}");
    let make = async |kind: &str| {
        let body = json!({"projectId": ids["project"], "name": format!("A {kind}")});
        client.post(&format!("/api/onto/{kind}s/create"), body).await.1["id"].clone()
    };
    let (plan, milestone, requirement) = (make("plan").await, make("milestone").await, make("requirement").await);
    let tools = Tools::new(&app);
    for (name, list, expected) in [
        ("list_onto_projects", "projects", vec!["Ship it"]),
        ("list_onto_tasks", "tasks", vec!["Second", "First"]),
        ("list_onto_goals", "goals", vec!["Be done"]),
        ("list_onto_plans", "plans", vec!["A plan"]),
        ("list_onto_documents", "documents", vec!["Notes", "About"]),
        ("list_onto_milestones", "milestones", vec!["A milestone"]),
        ("list_onto_risks", "risks", vec!["Rain"]),
        ("list_onto_requirements", "requirements", vec!["A requirement"]),
    ] {
        let all = tools.call(name, json!({})).await;
        let mut found = names(&all[list]);
        // Created in one millisecond, they may have any order.
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
        let of_project = tools
            .call(name, json!({"project_id": ids["project"], "limit": 0}))
            .await;
        assert_eq!(of_project["count"], 1, "{name}: limits clamp");
        assert_eq!(of_project["has_more"], json!(expected.len() > 1));
        tools.refused(name, json!({"state_key": "never"}), "has no state").await;
        tools
            .refused(name, json!({"project_id": "Ship it"}), "must be an id")
            .await;
        tools
            .refused(name, json!({"project_id": Uuid::now_v7()}), "no project")
            .await;
        tools.refused(name, json!({"projekt": 1}), "wrong arguments").await;
    }
    for (name, arguments, list, expected) in [
        ("search_onto_tasks", json!({"search": "sec"}), "tasks", vec!["Second"]),
        (
            "search_onto_projects",
            json!({"search": "ship"}),
            "projects",
            vec!["Ship it"],
        ),
        (
            "search_onto_documents",
            json!({"search": "secretnotes"}),
            "documents",
            vec!["Notes"],
        ),
        ("search_ontology", json!({"query": "rain"}), "results", vec!["Rain"]),
        (
            "search_ontology",
            json!({"query": "rain", "types": ["tasks"]}),
            "results",
            vec![],
        ),
    ] {
        assert_eq!(names(&tools.call(name, arguments).await[list]), expected, "{name}");
        tools
            .refused(
                name,
                json!({"search": " ", "query": " "}),
                if name == "search_ontology" { "search" } else { "query" },
            )
            .await;
    }
    tools
        .refused("search_onto_tasks", json!({"search": " "}), "search is empty")
        .await;
    tools
        .refused(
            "search_ontology",
            json!({"query": "x", "types": ["dragon"]}),
            "the types are project, task",
        )
        .await;
    for (kind, id) in [
        ("project", &ids["project"]),
        ("task", &ids["first"]),
        ("goal", &ids["goal"]),
        ("plan", &plan),
        ("document", &ids["notes"]),
        ("milestone", &milestone),
        ("risk", &extra["id"]),
        ("requirement", &requirement),
    ] {
        let name = format!("get_onto_{kind}_details");
        let parameter = format!("{kind}_id");
        let details = tools.call(&name, json!({ &parameter: id })).await;
        assert_eq!(&details[kind]["id"], id, "{name}");
        tools
            .refused(&name, json!({ &parameter: Uuid::now_v7() }), &format!("no {kind}"))
            .await;
        tools
            .refused(&name, json!({ &parameter: "the first one" }), "must be an id")
            .await;
        let (wrong, words) = if kind == "project" {
            (&ids["first"], "no project")
        } else {
            (&ids["project"], "no ")
        };
        tools.refused(&name, json!({ &parameter: wrong }), words).await;
    }
    let first = tools
        .call("get_onto_task_details", json!({"task_id": ids["first"]}))
        .await;
    assert_eq!(first["links_total"], 2);
    let notes = tools
        .call("get_onto_document_details", json!({"document_id": ids["notes"]}))
        .await;
    assert_eq!(notes["document"]["content"], "secretnotes");
    let graph = tools
        .call("get_onto_project_graph", json!({"project_id": ids["project"]}))
        .await;
    assert_eq!(
        (
            graph["entities"].as_array().unwrap().len(),
            graph["edges"].as_array().unwrap().len()
        ),
        (9, 3)
    );
    let tree = tools
        .call("get_document_tree", json!({"project_id": ids["project"]}))
        .await;
    assert_eq!(tree["documents"][0]["children"][0]["title"], "Notes");
    tools.refused("get_document_tree", json!({}), "project_id").await;
    let path = tools
        .call("get_document_path", json!({"document_id": ids["notes"]}))
        .await;
    assert_eq!(path["in_words"], "About / Notes");
    let overview = tools.call("get_buildos_overview", json!({})).await;
    assert_eq!(
        (names(&overview["due"]), &overview["open_task_count"]),
        (vec!["Second", "First"], &json!(2))
    );
}

/// Requirements: E55.
#[tokio::test]
async fn links_and_fields_are_listed() {
    let (app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let tools = Tools::new(&app);
    let edges = tools
        .call("get_entity_relationships", json!({"entity_id": ids["first"]}))
        .await;
    assert_eq!(
        (
            edges["outgoing"][0]["rel"].as_str(),
            edges["incoming"].as_array().unwrap().len()
        ),
        (Some("supports_goal"), 2)
    );
    let linked = tools
        .call(
            "get_linked_entities",
            json!({"entity_id": ids["first"], "type": "goal"}),
        )
        .await;
    assert_eq!(
        (&linked["count"], &linked["linked"][0]["entity"]["name"]),
        (&json!(1), &json!("Be done"))
    );
    tools
        .refused("get_linked_entities", json!({"entity_id": Uuid::now_v7()}), "no entity")
        .await;
    tools
        .refused("get_entity_relationships", json!({"entity_id": " "}), "empty")
        .await;
    let info = tools.call("get_field_info", json!({"entity_type": "task"})).await;
    assert_eq!(info["states"][0], "todo");
    assert!(
        info["fields"]
            .as_array()
            .unwrap()
            .iter()
            .any(|field| field["name"] == "due_at")
    );
    let one = tools
        .call("get_field_info", json!({"entity_type": "risk", "field_name": "impact"}))
        .await;
    assert_eq!(one["fields"][0]["schema"]["enum"], json!(["low", "medium", "high"]));
    tools
        .refused(
            "get_field_info",
            json!({"entity_type": "risk", "field_name": "colour"}),
            "its fields are title",
        )
        .await;
    tools
        .refused(
            "get_field_info",
            json!({"entity_type": "dragon"}),
            "the types are project",
        )
        .await;
}
