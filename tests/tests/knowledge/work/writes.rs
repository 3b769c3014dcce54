//! The writing work tools: each takes effect once, however often its call is repeated.

use rejoin_tests::projects::{get, project, start};
use rejoin_types::events::Kind;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tools::{Tools, names};

/// Requirements: E54.
#[tokio::test]
async fn each_writing_tool_writes_once_however_often_it_is_called() {
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
    // The same record: a worker repeats a call of a dead one.
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
        ("create_onto_task", json!({"title": "x"}), "project_id is missing"),
        (
            "create_onto_task",
            json!({"title": " ", "project_id": of_project}),
            "title must not be empty",
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
            "a time with a time zone",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"], "clear": ["title"]}),
            "must not be empty",
        ),
        (
            "update_onto_task",
            json!({"task_id": ids["first"], "state_key": "draft"}),
            "wrong arguments",
        ),
        (
            "link_onto_entities",
            json!({"rel": "loves", "source_id": ids["first"], "target_id": ids["second"]}),
            "the link types are supports_goal",
        ),
        ("unlink_onto_edge", json!({"edge_id": Uuid::now_v7()}), "not found"),
        (
            "reorganize_onto_project_graph",
            json!({"project_id": of_project, "link": [], "move": []}),
            "1 to",
        ),
        (
            "move_document",
            json!({"document_id": document["id"], "new_parent_id": ids["notes"]}),
            "its own parent",
        ),
    ] {
        tools.refused(name, arguments, words).await;
    }
}

/// Requirements: E47, E48.
#[tokio::test]
async fn a_project_is_made_once_and_shifts_the_context() {
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
        .refused("create_onto_project", empty, "in a new conversation")
        .await;
    assert_eq!(
        get(&client, "/api/onto/projects").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Requirements: E54.
#[tokio::test]
async fn milestones_risks_and_requirements_are_made_and_deleted() {
    let (app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let tools = Tools::new(&app);
    for (kind, fields) in [
        (
            "milestone",
            json!({"title": "Half way", "due_at": "2030-01-31T17:00:00Z"}),
        ),
        ("risk", json!({"title": "Rain", "impact": "high", "probability": "low"})),
        ("requirement", json!({"title": "It floats", "priority": 1})),
    ] {
        let mut arguments = fields.clone();
        arguments["project_id"] = ids["project"].clone();
        let context = tools.context();
        let name = format!("create_onto_{kind}");
        let made = tools.by(&context, &name, &arguments).await.unwrap();
        assert_eq!(
            tools.by(&context, &name, &arguments).await.unwrap(),
            made,
            "{kind}: made once"
        );
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(&made[kind][field], value, "{kind} {field}");
        }
        assert_eq!(made[kind]["project_id"], ids["project"]);
        let read = get(&client, &format!("/api/onto/{kind}s/{}", made["id"].as_str().unwrap())).await;
        assert_eq!((&read["id"], &read["name"]), (&made["id"], &fields["title"]));
        tools
            .refused(
                &format!("create_onto_{kind}"),
                json!({"project_id": ids["goal"], "title": "x"}),
                "no project",
            )
            .await;
        let context = tools.context();
        let (name, arguments) = (format!("delete_onto_{kind}"), json!({format!("{kind}_id"): made["id"]}));
        let deleted = tools.by(&context, &name, &arguments).await.unwrap();
        assert_eq!(deleted, json!({"deleted": true, "id": made["id"], "type": kind}));
        assert_eq!(
            tools.by(&context, &name, &arguments).await.unwrap(),
            deleted,
            "{kind}: deleted once"
        );
        tools.refused(&name, arguments, &format!("no {kind}")).await;
        tools
            .refused(
                &name,
                json!({format!("{kind}_id"): ids["first"]}),
                &format!("no {kind}"),
            )
            .await;
    }
    // With all its entities.
    let other = project(&client, "Stays").await;
    let context = tools.context();
    let arguments = json!({"project_id": ids["project"]});
    let deleted = tools.by(&context, "delete_onto_project", &arguments).await.unwrap();
    assert_eq!(
        deleted,
        json!({"deleted": true, "id": ids["project"], "type": "project"})
    );
    assert_eq!(
        tools.by(&context, "delete_onto_project", &arguments).await.unwrap(),
        deleted
    );
    let left = get(&client, "/api/onto/projects").await;
    assert_eq!(names(&left["items"]), ["Stays"]);
    let (status, _) = client
        .get(&format!("/api/onto/tasks/{}", ids["first"].as_str().unwrap()))
        .await;
    assert_eq!(status, 404);
    // A conversation focused on a project can delete that one only.
    let focused = Tools::focused(&app, &other, "Stays");
    focused
        .refused("delete_onto_project", arguments, "there is no project")
        .await;
}
