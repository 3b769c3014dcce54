//! The work tools: each called by its name, rightly and wrongly; kept to the focus; repeated after a crash; and in real runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rejoin_shared::contexts::Focus;
use rejoin_shared::events::Kind;
use rejoin_shared::graph::meaning::NoModel;
use rejoin_shared::tools::arguments::admit;
use rejoin_shared::tools::{SharedTool, ToolContext, ToolError, work};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

use super::work::{get, project, start};

/// The tools by name, and a context to call them in.
struct Tools {
    tools: BTreeMap<String, SharedTool>,
    context: ToolContext,
}

impl Tools {
    fn new(app: &TestApp) -> Self {
        Self {
            tools: work::tools()
                .into_iter()
                .map(|tool| (tool.spec().name.clone(), tool))
                .collect(),
            context: ToolContext {
                db: app.db.pool.clone(),
                project_id: app.db.project_id,
                model: Arc::new(NoModel),
                run_id: Some(Uuid::now_v7()),
                user_id: Some(app.db.user_id),
                call_id: "call".to_owned(),
                record_id: Uuid::now_v7(),
                cancel: Default::default(),
                focus: None,
            },
        }
    }

    fn focused(app: &TestApp, ids: &Value, name: &str) -> Self {
        let mut tools = Self::new(app);
        tools.context.focus = Some(Focus {
            project_id: ids["project"].as_str().unwrap().parse().unwrap(),
            project_name: name.to_owned(),
            focus_type: None,
            focus_entity_id: None,
        });
        tools
    }

    /// One more call of the same run.
    fn context(&self) -> ToolContext {
        ToolContext {
            record_id: Uuid::now_v7(),
            ..self.context.clone()
        }
    }

    async fn by(&self, context: &ToolContext, name: &str, arguments: &Value) -> Result<Value, String> {
        let tool = &self.tools[name];
        let arguments = admit(tool.spec(), arguments)?;
        tool.call(context, arguments).await.map_err(|error| match error {
            ToolError::RespondToModel(words) => words,
            ToolError::Internal { attempted, source } => panic!("{name}: {attempted}: {source}"),
        })
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        self.by(&self.context(), name, &arguments)
            .await
            .unwrap_or_else(|words| panic!("{name} {arguments}: {words}"))
    }

    async fn refused(&self, name: &str, arguments: Value, words: &str) {
        let told = self.by(&self.context(), name, &arguments).await.expect_err(name);
        assert!(told.contains(words), "{name} {arguments}: {told}");
    }
}

fn names(items: &Value) -> Vec<&str> {
    items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn e53_each_tool_that_lists_searches_and_reads_answers_or_says_what_is_wrong() {
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
        // Made in one millisecond, they may have any order.
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
            "there are project, task",
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

#[tokio::test]
async fn e55_links_and_fields_are_told() {
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
            "it has title",
        )
        .await;
    tools
        .refused("get_field_info", json!({"entity_type": "dragon"}), "there are project")
        .await;
}

#[tokio::test]
async fn e54_each_tool_that_writes_does_so_once_however_often_its_call_is_repeated() {
    let (app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let tools = Tools::new(&app);
    let whole = async || {
        get(
            &client,
            &format!("/api/onto/projects/{}/graph", ids["project"].as_str().unwrap()),
        )
        .await
    };
    // The same record: what a worker does that comes after one that died.
    let twice = async |name: &str, arguments: Value| {
        let context = tools.context();
        let first = tools
            .by(&context, name, &arguments)
            .await
            .unwrap_or_else(|words| panic!("{name}: {words}"));
        let after = whole().await;
        let second = tools
            .by(&context, name, &arguments)
            .await
            .unwrap_or_else(|words| panic!("{name} again: {words}"));
        assert_eq!(first, second, "{name}");
        assert_eq!(after, whole().await, "{name} changes nothing more");
        first
    };
    let of_project = &ids["project"];
    let plan = twice(
        "create_onto_plan",
        json!({"project_id": of_project, "name": "How", "goal_id": ids["goal"]}),
    )
    .await;
    let goal = twice("create_onto_goal", json!({"project_id": of_project, "name": "More"})).await;
    let task = twice(
        "create_onto_task",
        json!({"project_id": of_project, "title": "Third", "goal_id": goal["id"], "plan_id": plan["id"], "priority": 1}),
    )
    .await;
    let document = twice(
        "create_onto_document",
        json!({"project_id": of_project, "title": "Deep", "parent_id": ids["notes"]}),
    )
    .await;
    let about = twice(
        "create_task_document",
        json!({"task_id": task["id"], "title": "On it", "content": "one"}),
    )
    .await;
    let listed = tools.call("list_task_documents", json!({"task_id": task["id"]})).await;
    assert_eq!(names(&listed["documents"]), ["On it"]);
    tools
        .refused("list_task_documents", json!({"task_id": ids["goal"]}), "no task")
        .await;
    let path = tools
        .call("get_document_path", json!({"document_id": document["id"]}))
        .await;
    assert_eq!(path["in_words"], "About / Notes / Deep");
    let appended = twice(
        "update_onto_document",
        json!({"document_id": about["id"], "content": "two", "update_strategy": "append", "merge_instructions": "adds two"}),
    )
    .await;
    assert_eq!(appended["document"]["content"], "one\n\ntwo");
    let history = get(
        &client,
        &format!("/api/onto/documents/{}/history", about["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(
        (
            &history["items"][0]["changeSource"],
            &history["items"][0]["changeSummary"],
            &history["items"][0]["actorType"]
        ),
        (&json!("chat"), &json!("adds two"), &json!("agent"))
    );
    for (kind, id) in [
        ("task", &task["id"]),
        ("goal", &goal["id"]),
        ("plan", &plan["id"]),
        ("project", of_project),
    ] {
        let arguments =
            json!({format!("{kind}_id"): id, "description": "d", "props": {"a": 1}, "update_strategy": "merge"});
        let updated = twice(&format!("update_onto_{kind}"), arguments).await;
        assert_eq!(updated[kind]["description"], "d", "{kind}");
        let cleared = json!({format!("{kind}_id"): id, "clear": ["description"]});
        assert_eq!(
            twice(&format!("update_onto_{kind}"), cleared).await[kind]["description"],
            Value::Null
        );
    }
    for kind in ["milestone", "risk", "requirement"] {
        let body = json!({"projectId": of_project, "title": "It"});
        let (_, made) = client.post(&format!("/api/onto/{kind}s/create"), body).await;
        let arguments = json!({format!("{kind}_id"): made["id"], "title": "That"});
        assert_eq!(
            twice(&format!("update_onto_{kind}"), arguments).await[kind]["title"],
            "That"
        );
    }
    let edge = twice(
        "link_onto_entities",
        json!({"rel": "depends_on", "source_id": task["id"], "target_id": ids["first"]}),
    )
    .await;
    twice("unlink_onto_edge", json!({"edge_id": edge["edge"]["edge_id"]})).await;
    let edges = tools
        .call("get_entity_relationships", json!({"entity_id": ids["first"]}))
        .await;
    twice(
        "reorganize_onto_project_graph",
        json!({
            "project_id": of_project, "unlink": [edges["outgoing"][0]["edge_id"]],
            "link": [{"rel": "in_plan", "source_id": ids["first"], "target_id": plan["id"]}],
            "move": [{"document_id": document["id"], "new_parent_id": null, "position": 0}],
        }),
    )
    .await;
    twice(
        "move_document",
        json!({"document_id": ids["notes"], "new_parent_id": document["id"], "position": null}),
    )
    .await;
    let path = tools
        .call("get_document_path", json!({"document_id": ids["notes"]}))
        .await;
    assert_eq!(path["in_words"], "Deep / Notes");
    for (kind, id) in [
        ("task", &task["id"]),
        ("goal", &goal["id"]),
        ("plan", &plan["id"]),
        ("document", &about["id"]),
    ] {
        twice(&format!("delete_onto_{kind}"), json!({format!("{kind}_id"): id})).await;
        tools
            .refused(
                &format!("delete_onto_{kind}"),
                json!({format!("{kind}_id"): id}),
                "there is no",
            )
            .await;
    }
    for (name, arguments, words) in [
        ("create_onto_task", json!({"title": "x"}), "project_id is needed"),
        (
            "create_onto_task",
            json!({"title": " ", "project_id": of_project}),
            "title can't be empty",
        ),
        ("create_onto_goal", json!({"project_id": of_project}), "wrong arguments"),
        (
            "create_onto_plan",
            json!({"project_id": of_project, "name": "x", "goal_id": ids["first"]}),
            "not from plan to task",
        ),
        (
            "create_onto_document",
            json!({"project_id": of_project, "title": "x", "parent_id": ids["first"]}),
            "no document",
        ),
        (
            "create_task_document",
            json!({"task_id": ids["goal"], "title": "x"}),
            "no task",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"]}),
            "at least one field",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"], "due_at": "soon"}),
            "a time with its zone",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"], "clear": ["title"]}),
            "can't be empty",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"], "state_key": "draft"}),
            "wrong arguments",
        ),
        (
            "link_onto_entities",
            json!({"rel": "loves", "source_id": ids["first"], "target_id": ids["second"]}),
            "there are supports_goal",
        ),
        ("unlink_onto_edge", json!({"edge_id": Uuid::now_v7()}), "no edge"),
        (
            "reorganize_onto_project_graph",
            json!({"project_id": of_project, "link": [], "move": []}),
            "1 to",
        ),
        (
            "move_document",
            json!({"document_id": document["id"], "new_parent_id": ids["notes"]}),
            "below itself",
        ),
    ] {
        tools.refused(name, arguments, words).await;
    }
}

#[tokio::test]
async fn e47_e48_a_project_is_made_once_and_shifts_the_context() {
    let (app, client) = start().await;
    let tools = Tools::new(&app);
    let arguments = json!({
        "project": {"name": "New", "description": "d"},
        "entities": [{"temp_id": "t", "kind": "task", "title": "T", "fields": {"priority": 1}}, {"temp_id": "g", "kind": "goal", "title": "G"}],
        "relationships": [{"rel": "supports_goal", "source": "t", "target": "g"}],
        "context_document": {"title": "About", "content": "c"}, "clarifications": ["who pays?"], "meta": {"from": "a chat"},
    });
    let context = tools.context();
    let made = tools.by(&context, "create_onto_project", &arguments).await.unwrap();
    assert_eq!(
        tools.by(&context, "create_onto_project", &arguments).await.unwrap(),
        made
    );
    assert_eq!(
        get(&client, "/api/onto/projects").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(made["project"]["props"], json!({"from": "a chat"}));
    let shift = &made["context_shift"];
    assert_eq!(
        (
            &shift["new_context"],
            &shift["entity_id"],
            &shift["entity_name"],
            &shift["entity_type"]
        ),
        (&json!("project"), &made["id"], &json!("New"), &json!("project"))
    );
    let events = tools.tools["create_onto_project"].events(&made);
    assert_eq!(
        events,
        [Kind::ContextShift {
            context_shift: shift.clone()
        }]
    );
    let other = tools.tools["create_onto_task"].events(&made);
    assert_eq!(other, []);
    let mut broken = arguments;
    broken["relationships"][0]["target"] = json!("nobody");
    tools.refused("create_onto_project", broken, "nobody").await;
    let focused = Tools::focused(&app, &made["ids"], "New");
    let empty = json!({"project": {"name": "x"}, "entities": [], "relationships": []});
    focused
        .refused("create_onto_project", empty, "a conversation of its own")
        .await;
    assert_eq!(
        get(&client, "/api/onto/projects").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Arguments that would do for this tool, all of the focus's project.
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

#[tokio::test]
async fn e54_with_a_focus_no_id_of_another_project_is_read_written_or_named() {
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
        let taking = work::taking(parameter);
        assert!(!taking.is_empty(), "{parameter}");
        for name in taking {
            let mut given = arguments(&tools.tools[name], &own, &edge(&before_own));
            let nowhere = Uuid::now_v7();
            given[parameter] = foreign.clone();
            let told = tools.by(&tools.context(), name, &given).await.expect_err(name);
            assert!(
                !told.contains("Hidden") && told.contains("there is no"),
                "{name} {parameter}: {told}"
            );
            let operation = tools.tools[name].operation(&tools.context, &given).await.unwrap();
            assert!(!operation.entity_name.contains("Hidden"), "{name}: {operation:?}");
            // Nor whether it is there at all.
            given[parameter] = json!(nowhere);
            let unknown = tools.by(&tools.context(), name, &given).await.expect_err(name);
            assert_eq!(
                unknown.replace(&nowhere.to_string(), foreign.as_str().unwrap()),
                told,
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
        tools
            .refused("reorganize_onto_project_graph", arguments, "there is no")
            .await;
    }
    assert_eq!((graph(&own).await, graph(&other).await), (before_own, before_other));
    // Without ids, all that is listed and made is the focus's.
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

#[tokio::test]
async fn e22_e23_people_are_told_what_is_done_to_which_thing_by_its_name() {
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

#[tokio::test]
async fn e53_e54_agents_have_the_tools_once_the_pack_is_installed_and_their_runs_use_them() {
    let app = TestApp::start().await;
    let client: Client = app.client();
    let agent = app.agent("planner", &["*onto*", "get_buildos_overview"]).await;
    let offered = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().into_iter().flatten();
        tools
            .filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned))
            .collect()
    };
    app.model.script([Reply::text("Nothing yet.")]);
    client.ask(Some(agent), "what is there?").await;
    assert!(
        offered(&app.model.requests()[0])
            .iter()
            .all(|name| !name.contains("onto"))
    );
    assert_eq!(client.post("/api/onto/install", json!({})).await.0, 204);
    // The worker looks again within two seconds.
    rejoin_tests::support::wait_for("the tools to be offered", async || {
        app.model.script([Reply::text("Wait.")]);
        client.ask(Some(agent), "and now?").await;
        let names = offered(&app.model.requests().pop()?);
        names.iter().any(|name| name == "create_onto_project").then_some(())
    })
    .await;
    app.model.script([
        Reply::tool(
            "create_onto_project",
            json!({"project": {"name": "Boat"}, "entities": [{"temp_id": "t", "kind": "task", "title": "Saw", "description": null, "fields": null}],
                   "relationships": [], "context_document": null, "clarifications": null, "meta": null}),
        ),
        Reply::tool("list_onto_tasks", json!({"project_id": null, "state_key": null, "type_key": null, "limit": null})),
        Reply::tool("update_onto_task", json!({"task_id": Uuid::nil(), "title": "x"})),
        Reply::text("Made."),
    ]);
    let events = json_of(&client.ask(Some(agent), "build a boat").await);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    assert_eq!(ends[0]["result"]["project"]["name"], "Boat", "{}", ends[0]);
    assert_eq!(names(&ends[1]["result"]["tasks"]), ["Saw"]);
    assert!(
        ends[2]["error"].as_str().unwrap().contains("there is no task"),
        "{}",
        ends[2]
    );
    let shift = of_kind(&events, "context_shift");
    assert_eq!(shift[0]["context_shift"]["entity_name"], "Boat");
    let last = app.model.requests().pop().unwrap();
    assert!(sent(&last).iter().any(|(_, text)| text.contains("Saw")));
    assert_eq!(get(&client, "/api/onto/projects").await["items"][0]["name"], "Boat");
}

#[test]
fn e69_the_document_tells_each_tools_endpoint_types_and_shifts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/WORK.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- tools -->\n", "<!-- /tools -->");
    let (head, rest) = text.split_once(begin).expect("where the table begins");
    let (_, tail) = rest.split_once(end).expect("where the table ends");
    let right = format!("{head}{begin}{}{end}{tail}", work::mapping());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, right).unwrap();
    } else {
        assert!(
            text == right,
            "docs/WORK.md is out of date: run this test with INSTA_UPDATE=always"
        );
    }
}
