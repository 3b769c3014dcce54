//! The graph's general tools in a conversation focused on one project of the work graph: entities of other projects are
//! invisible to them. Objects outside projects (notes, packages, people) stay visible.

use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::projects::focus;
use rejoin_tests::projects::{get, project, start};
use rejoin_tools::graph;
use rejoin_types::access::Scope;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::work::tools::Tools;

fn over_the_graph(mut tools: Tools) -> Tools {
    tools.tools = graph::tools()
        .into_iter()
        .map(|tool| (tool.spec().name.clone(), tool))
        .collect();
    tools
}

/// Two projects, a note that mentions a task of each, and a label used only by the other one's task.
struct Site {
    app: TestApp,
    client: Client,
    own: Value,
    other: Value,
    note: Value,
    /// With the focus on the first one.
    tools: Tools,
}

impl Site {
    async fn start() -> Self {
        let (app, client) = start().await;
        let own = project(&client, "Mine").await;
        let other = project(&client, "Hidden").await;
        let free = over_the_graph(Tools::new(&app));
        for (ids, title) in [(&other["first"], "Hidden task"), (&other["notes"], "Hidden notes")] {
            let change = json!({"entity_id": ids, "properties": {"title": title}, "labels": ["hiddenlabel"]});
            free.call("update_entity", change).await;
        }
        let new = json!({"type": "Note", "key": "note", "properties": {"name": "A note about tasks"}});
        let note = free.call("create_entity", new).await["entity"]["id"].clone();
        for task in [&own["first"], &other["first"]] {
            let new = json!({"type": "mentions", "source_id": note, "target_id": task});
            free.call("create_relationship", new).await;
        }
        let tools = over_the_graph(Tools::focused(&app, &own, "Mine"));
        Self {
            app,
            client,
            own,
            other,
            note,
            tools,
        }
    }

    fn others(&self) -> Vec<String> {
        let ids = self.other.as_object().unwrap().values();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    async fn graph_of(&self, ids: &Value) -> Value {
        let path = format!("/api/onto/projects/{}/graph", ids["project"].as_str().unwrap());
        get(&self.client, &path).await
    }

    /// Asserts that it contains nothing of the other project.
    fn assert_clean(&self, name: &str, told: &Value) {
        let text = told.to_string();
        for hidden in self
            .others()
            .iter()
            .map(String::as_str)
            .chain(["Hidden", "hiddenlabel"])
        {
            assert!(!text.contains(hidden), "{name} tells {hidden}: {told}");
        }
    }
}

/// Requirements: E54.
#[tokio::test]
async fn a_focus_keeps_graph_tools_off_other_projects() {
    let site = Site::start().await;
    let before = site.graph_of(&site.other).await;
    let edge = before["links"][0]["id"].clone();
    let own_task = &site.own["first"];
    let mut tried = 0;
    for foreign in site.others().into_iter().map(Value::String) {
        for (name, parameter, rest) in [
            ("get_entity_edges", "entity_id", json!({})),
            ("get_entity_history", "entity_id", json!({})),
            ("find_similar", "entity_id", json!({})),
            ("traverse_graph", "start_entity_id", json!({})),
            ("find_path", "from_id", json!({"to_id": own_task})),
            ("find_path", "to_id", json!({"from_id": own_task})),
            ("list_relationships", "source_id", json!({})),
            ("list_relationships", "target_id", json!({})),
            ("get_migration_archive", "object_id", json!({})),
            (
                "update_entity",
                "entity_id",
                json!({"properties": {"title": "changed"}, "status": "done"}),
            ),
            ("delete_entity", "entity_id", json!({})),
            ("restore_entity", "entity_id", json!({})),
            (
                "create_relationship",
                "source_id",
                json!({"type": "mentions", "target_id": own_task}),
            ),
            (
                "create_relationship",
                "target_id",
                json!({"type": "has_task", "source_id": site.own["project"]}),
            ),
        ] {
            let mut given = rest;
            let nowhere = Uuid::now_v7().to_string();
            given[parameter] = foreign.clone();
            let refusal = site
                .tools
                .by(&site.tools.context(), name, &given)
                .await
                .expect_err(name);
            // Nor is its existence revealed.
            given[parameter] = json!(nowhere);
            let unknown = site
                .tools
                .by(&site.tools.context(), name, &given)
                .await
                .expect_err(name);
            assert_eq!(
                unknown.replace(&nowhere, foreign.as_str().unwrap()),
                refusal,
                "{name} {parameter}"
            );
            assert!(!refusal.contains("Hidden"), "{name}: {refusal}");
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
    for (name, given) in [
        ("get_entity_edges", json!({"entity_id": "Hidden"})),
        (
            "update_entity",
            json!({"entity_id": "task:Hidden task", "status": "done"}),
        ),
        ("delete_entity", json!({"entity_id": "Hidden notes"})),
        (
            "update_relationship",
            json!({"relationship_id": edge, "properties": {"x": 1}}),
        ),
        ("delete_relationship", json!({"relationship_id": edge})),
    ] {
        let refusal = site
            .tools
            .by(&site.tools.context(), name, &given)
            .await
            .expect_err(name);
        assert!(refusal.contains("there is no"), "{name}: {refusal}");
    }
    let related = json!({"relationships": [
        {"type": "mentions", "source_id": site.note, "target_id": site.other["second"]},
        {"type": "mentions", "source_id": site.note, "target_id": site.own["second"]},
    ]});
    let refusal = site.tools.call("batch_create_relationships", related).await;
    assert_eq!(
        (&refusal["failed"], &refusal["success"]),
        (&json!(1), &json!(1)),
        "{refusal}"
    );
    // Entities of the work graph are created by its own tools, which add them to the project.
    let loose = json!({"type": "task", "properties": {"title": "Loose", "state_key": "todo"}});
    site.tools
        .refused("create_entity", loose.clone(), "create_onto_task")
        .await;
    let refusal = site
        .tools
        .call("batch_create_entities", json!({"entities": [loose]}))
        .await;
    assert_eq!(refusal["failed"], 1, "{refusal}");
    assert_eq!(site.graph_of(&site.other).await, before);
}

/// Requirements: E54.
#[tokio::test]
async fn a_focus_keeps_other_projects_out_of_lists_and_walks() {
    let site = Site::start().await;
    let (note, own_task) = (&site.note, &site.own["first"]);
    for (name, given) in [
        ("list_tags", json!({})),
        ("list_relationships", json!({})),
        ("list_relationships", json!({"type": "mentions"})),
        ("list_relationships", json!({"type": "has_task"})),
        ("search_entities", json!({"query": "Hidden"})),
        ("search_entities", json!({"query": "secretnotes"})),
        ("search_entities", json!({"query": "task", "type_name": "task"})),
        ("hybrid_search", json!({"query": "Hidden notes task"})),
        ("hybrid_search", json!({"query": "Second", "labels": ["hiddenlabel"]})),
        ("semantic_search", json!({"query": "Second"})),
        ("find_similar", json!({"entity_id": own_task})),
        ("find_similar", json!({"entity_id": note})),
        ("get_entity_edges", json!({"entity_id": note})),
        ("traverse_graph", json!({"start_entity_id": note, "max_depth": 5})),
        ("traverse_graph", json!({"start_entity_id": own_task, "max_depth": 5})),
        ("list_migration_archives", json!({})),
    ] {
        site.assert_clean(name, &site.tools.call(name, given.clone()).await);
    }
    let ids = |items: &Value| -> Vec<String> {
        let mut ids: Vec<String> = items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort_unstable();
        ids
    };
    let mut tasks = vec![
        site.own["first"].as_str().unwrap().to_owned(),
        site.own["second"].as_str().unwrap().to_owned(),
    ];
    tasks.sort_unstable();
    // Pages and totals count visible objects.
    let listed = site.tools.call("query_entities", json!({"type_name": "task"})).await;
    assert_eq!(
        (ids(&listed["entities"]), &listed["pagination"]["total"]),
        (tasks, &json!(2)),
        "{listed}"
    );
    let listed = site.tools.call("query_entities", json!({"type_name": "project"})).await;
    assert_eq!(ids(&listed["entities"]), [site.own["project"].as_str().unwrap()]);
    let types = site.tools.call("list_entity_types", json!({})).await;
    let count = |name: &str| {
        let all = types["types"].as_array().unwrap();
        all.iter()
            .find(|one| one["name"] == name)
            .map(|one| one["count"].clone())
    };
    assert_eq!(
        (count("task"), count("project"), count("Note")),
        (Some(json!(2)), Some(json!(1)), Some(json!(1))),
        "{types}"
    );
    let edges = site.tools.call("get_entity_edges", json!({"entity_id": note})).await;
    assert_eq!(
        (
            &edges["outgoing_total"],
            &edges["outgoing"][0]["connected_entity"]["id"]
        ),
        (&json!(1), own_task)
    );
    // Objects outside projects stay visible, and so do the project's own.
    let way = site
        .tools
        .call("find_path", json!({"from_id": note, "to_id": site.own["project"]}))
        .await;
    assert_eq!((&way["found"], &way["length"]), (&json!(true), &json!(2)), "{way}");
    for id in [note, own_task] {
        let changed = json!({"entity_id": id, "labels": ["seen"]});
        assert_eq!(site.tools.call("update_entity", changed).await["changed"], true);
    }
    let deleted = json!({"entity_id": site.own["second"]});
    assert_eq!(site.tools.call("delete_entity", deleted.clone()).await["deleted"], true);
    let restored = site.tools.call("restore_entity", deleted).await;
    assert_eq!(restored["entity"]["id"], site.own["second"]);
    // Without a focus, everything in the space is visible.
    let free = over_the_graph(Tools::new(&site.app));
    let listed = free.call("query_entities", json!({"type_name": "task"})).await;
    assert_eq!(listed["pagination"]["total"], 4);
}

#[tokio::test]
async fn a_focused_run_is_refused_another_projects_task() {
    let app = TestApp::start().await;
    let client = app.client();
    let own = project(&client, "Mine").await;
    let other = project(&client, "Hidden").await;
    let agent = app.agent("worker", &["*"]).await;
    let task = &other["first"];
    app.model.script([
        Reply::tools([
            ("query_entities", json!({"type_name": "task"})),
            ("update_entity", json!({"entity_id": task, "status": "done"})),
            ("delete_entity", json!({"entity_id": task})),
        ]),
        Reply::text("That did not work."),
    ]);
    let about = focus(own["project"].as_str().unwrap().parse().unwrap(), "Mine");
    let body = json!({"message": "go", "agentDefinitionId": agent, "contextType": "project", "projectFocus": about});
    let events = json_of(&client.chat(body).await);
    let calls = of_kind(&events, "mcp_tool");
    let ended = |tool: &str| {
        let mut ends = calls
            .iter()
            .filter(|call| call["tool"] == tool && call["status"] != "started");
        ends.next().unwrap_or_else(|| panic!("{tool} ended: {calls:?}"))
    };
    assert_eq!(ended("update_entity")["status"], "error");
    assert_eq!(ended("delete_entity")["status"], "error");
    let listed = ended("query_entities")["result"].to_string();
    assert!(
        listed.contains(own["first"].as_str().unwrap()) && !listed.contains(task.as_str().unwrap()),
        "{listed}"
    );
    let path = format!("/api/onto/tasks/{}", task.as_str().unwrap());
    let (status, _) = client.get(&path).await;
    assert_eq!(status, 200, "it is still there");
}

#[tokio::test]
async fn a_focus_on_another_tenants_project_reveals_nothing() {
    let app = TestApp::start().await;
    let secret = project(&app.client(), "Secret plan").await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let tenant = workspaces::create(&mut db, "evil").await.unwrap();
    let eve = workspaces::ensure_user(&mut db, "eve@example.org").await.unwrap();
    workspaces::add_member(&mut db, tenant, eve, Role::Owner).await.unwrap();
    let (_, key) = auth::create_key(&mut db, eve, Some(tenant), "test", &Scope::ALL, None)
        .await
        .unwrap();
    let mut content = rejoin_runs::agents::defaults().remove(0);
    content.name = "snoop".to_owned();
    content.model = Some(rejoin_models::choice::ModelChoice::named("openai:scripted"));
    content.tools = vec!["*".to_owned()];
    let agent = rejoin_runs::agents::insert(&mut db, tenant, &content)
        .await
        .unwrap()
        .unwrap()
        .id;
    drop(db);
    let eve = Client::new(app.url(), &key);
    let task = &secret["first"];
    app.model.script([
        Reply::tools([
            ("query_entities", json!({"type_name": "task"})),
            ("get_entity_edges", json!({"entity_id": task})),
            ("hybrid_search", json!({"query": "secretnotes"})),
            ("get_project_calendar", json!({})),
        ]),
        Reply::text("There is nothing."),
    ]);
    let mut about = focus(
        secret["project"].as_str().unwrap().parse().unwrap(),
        "whatever it is called",
    );
    about["focusType"] = json!("task");
    about["focusEntityId"] = task.clone();
    let body =
        json!({"message": "tell me all", "agentDefinitionId": agent, "contextType": "project", "projectFocus": about});
    let events = json_of(&eve.chat(body).await);
    assert_eq!(events.last().unwrap()["status"], "completed", "{events:?}");
    let requests = app.model.requests();
    assert_eq!(requests.len(), 2);
    for (what, told) in [("the model", json!(requests)), ("readers", json!(events))] {
        let told = told.to_string();
        for hidden in [
            "Secret plan",
            "Be done",
            "\"First\"",
            "a beginning",
            "what it is about",
            "Notes",
        ] {
            assert!(!told.contains(hidden), "{what} are told {hidden:?}: {told}");
        }
        for (name, id) in secret.as_object().unwrap() {
            // Ids that the call itself contains are returned.
            if name != "project" && name != "first" {
                assert!(!told.contains(id.as_str().unwrap()), "{what} are told the id of {name}");
            }
        }
    }
}
