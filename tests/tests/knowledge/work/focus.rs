//! Work tools with a focus: their restriction, and users' messages about them.

use rejoin_tests::projects::{get, project, start};
use rejoin_tools::SharedTool;
use rejoin_work_graph::tools;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tools::{Tools, names};

/// Returns valid arguments for this tool, all of the focused project.
fn arguments(tool: &SharedTool, own: &Value, edge: &Value) -> Value {
    let mut arguments = json!({});
    let schema = tool.spec().parameters.document();
    for (name, property) in schema["properties"].as_object().unwrap() {
        arguments[name] = match name.as_str() {
            "project_id" => own["project"].clone(),
            "task_id" | "source_id" | "entity_id" => own["first"].clone(),
            "target_id" => own["second"].clone(),
            "goal_id" => own["goal"].clone(),
            "document_id" => own["notes"].clone(),
            "parent_id" | "new_parent_id" => own["context_document"].clone(),
            "edge_id" => edge.clone(),
            "rel" => json!("references"),
            "entity_type" => json!("task"),
            "title" | "name" | "search" | "query" => json!("x"),
            _ if property["type"] == "array" => json!([]),
            _ => Value::Null,
        };
    }
    arguments
}

/// Requirements: E54.
#[tokio::test]
async fn a_focus_keeps_ids_of_other_projects_out_of_all_calls() {
    let (app, client) = start().await;
    let own = project(&client, "Mine").await;
    let mut other = project(&client, "Hidden").await;
    for kind in ["plan", "milestone", "risk", "requirement"] {
        let body = json!({"projectId": other["project"], "title": "Hidden"});
        other[kind] = client.post(&format!("/api/onto/{kind}s/create"), body).await.1["id"].clone();
    }
    let graph = async |ids: &Value| {
        get(
            &client,
            &format!("/api/onto/projects/{}/graph", ids["project"].as_str().unwrap()),
        )
        .await
    };
    let (before_own, before_other) = (graph(&own).await, graph(&other).await);
    let edge = |graph: &Value| graph["links"][0]["id"].clone();
    let tools = Tools::focused(&app, &own, "Mine");
    let mut tried = 0;
    for (parameter, thing) in [
        ("project_id", "project"),
        ("task_id", "first"),
        ("goal_id", "goal"),
        ("plan_id", "plan"),
        ("document_id", "notes"),
        ("milestone_id", "milestone"),
        ("risk_id", "risk"),
        ("requirement_id", "requirement"),
        ("entity_id", "first"),
        ("source_id", "first"),
        ("target_id", "first"),
        ("parent_id", "notes"),
        ("new_parent_id", "notes"),
        ("edge_id", ""),
    ] {
        let foreign = if thing.is_empty() {
            edge(&before_other)
        } else {
            other[thing].clone()
        };
        let taking = tools::taking(parameter);
        assert!(!taking.is_empty(), "{parameter}");
        for name in taking {
            let mut given = arguments(&tools.tools[name], &own, &edge(&before_own));
            let nowhere = Uuid::now_v7();
            given[parameter] = foreign.clone();
            let refusal = tools.by(&tools.context(), name, &given).await.expect_err(name);
            assert!(
                !refusal.contains("Hidden") && (refusal.contains("there is no") || refusal.contains("not found")),
                "{name} {parameter}: {refusal}"
            );
            let operation = tools.tools[name].operation(&tools.context, &given).await.unwrap();
            assert!(!operation.entity_name.contains("Hidden"), "{name}: {operation:?}");
            // Nor is its existence revealed.
            given[parameter] = json!(nowhere);
            let unknown = tools.by(&tools.context(), name, &given).await.expect_err(name);
            assert_eq!(
                unknown.replace(&nowhere.to_string(), foreign.as_str().unwrap()),
                refusal,
                "{name} {parameter}"
            );
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
    let depends = json!({"rel": "depends_on", "source_id": own["first"], "target_id": other["first"]});
    let to = json!({"document_id": own["notes"], "new_parent_id": other["notes"], "position": null});
    for arguments in [
        json!({"unlink": [edge(&before_other)], "link": [], "move": []}),
        json!({"link": [depends], "move": []}),
        json!({"link": [], "move": [to]}),
    ] {
        tools.refused("reorganize_onto_project_graph", arguments, " here").await;
    }
    assert_eq!((graph(&own).await, graph(&other).await), (before_own, before_other));
    // Without ids, everything listed and created belongs to the focus.
    for (name, arguments, list) in [
        ("list_onto_projects", json!({}), "projects"),
        ("list_onto_tasks", json!({}), "tasks"),
        ("search_ontology", json!({"query": "secretnotes"}), "results"),
    ] {
        for entity in tools.call(name, arguments).await[list].as_array().unwrap() {
            let of = entity.get("project_id").unwrap_or(&entity["id"]);
            assert_eq!(of, &own["project"], "{name}");
        }
    }
    let made = tools.call("create_onto_task", json!({"title": "Here"})).await;
    assert_eq!(made["task"]["project_id"], own["project"]);
    let overview = tools.call("get_buildos_overview", json!({})).await;
    assert_eq!(names(&overview["projects"]), ["Mine"]);
}

/// Requirements: E22, E23.
#[tokio::test]
async fn calls_of_work_tools_are_described_by_objects_names() {
    let (app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let tools = Tools::focused(&app, &ids, "Ship it");
    let graph = get(
        &client,
        &format!("/api/onto/projects/{}/graph", ids["project"].as_str().unwrap()),
    )
    .await;
    for (name, arguments, told) in [
        ("list_onto_tasks", json!({}), ("list", "task", "Ship it")),
        (
            "search_onto_tasks",
            json!({"search": "rain"}),
            ("search", "task", "rain"),
        ),
        (
            "get_onto_task_details",
            json!({"task_id": ids["first"]}),
            ("read", "task", "First"),
        ),
        ("create_onto_goal", json!({"name": "Win"}), ("create", "goal", "Win")),
        (
            "create_task_document",
            json!({"task_id": ids["first"], "title": "Text"}),
            ("create", "document", "Text"),
        ),
        (
            "update_onto_document",
            json!({"document_id": ids["notes"], "title": "Other"}),
            ("update", "document", "Notes"),
        ),
        (
            "delete_onto_task",
            json!({"task_id": ids["second"]}),
            ("delete", "task", "Second"),
        ),
        (
            "delete_onto_task",
            json!({"task_id": Uuid::now_v7()}),
            ("delete", "task", "task"),
        ),
        (
            "unlink_onto_edge",
            json!({"edge_id": graph["links"][0]["id"]}),
            ("update", "project", "Second"),
        ),
        (
            "create_onto_project",
            json!({"project": {"name": "Next"}}),
            ("create", "project", "Next"),
        ),
    ] {
        let operation = tools.tools[name].operation(&tools.context, &arguments).await.unwrap();
        let seen = (
            operation.action.as_str(),
            operation.entity_type.as_str(),
            operation.entity_name.as_str(),
        );
        assert_eq!(seen, told, "{name}");
    }
}
