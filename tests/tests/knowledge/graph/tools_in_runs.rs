//! Every built-in graph tool, called by a model within a run: what the model, the history and the readers see, on
//! success and failure.

use std::collections::BTreeSet;

use rejoin_graph::import::{self, OnError};
use rejoin_graph::objects::{self, Object, Resolved};
use rejoin_graph::{Actor, ActorKind, edges};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::Frame;
use rejoin_tests::model_server::Reply;
use rejoin_tools::graph;
use rejoin_tools::registry::Registry;
use serde_json::{Value, json};
use uuid::Uuid;

const ACTOR: Actor = Actor {
    kind: ActorKind::User,
    id: None,
};

const FILE: &str = r#"{"kind":"object","type":"Package","key":"curl","labels":["web"],"properties":{"summary":"command line tool for URLs"}}
{"kind":"object","type":"Package","key":"libssl3","labels":["libs"],"properties":{"summary":"Secure Sockets Layer toolkit"}}
{"kind":"object","type":"Package","key":"libssl-dev","labels":["libs"],"properties":{"summary":"development files"}}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"}}
"#;

/// An agent with all tools, over a graph of three packages.
struct Desk {
    app: TestApp,
    agent: Uuid,
    called: BTreeSet<String>,
}

/// The result of a call, from the history.
struct Told {
    status: String,
    /// The output given to the model.
    output: Value,
    error: String,
}

impl Desk {
    async fn new() -> Self {
        let app = TestApp::start().await;
        let agent = app.agent("clerk", &["*"]).await;
        import::import(
            &app.db.pool,
            app.db.workspace_id,
            FILE.as_bytes(),
            OnError::Refuse,
            ACTOR,
            |_| (),
        )
        .await
        .unwrap();
        Self {
            app,
            agent,
            called: BTreeSet::new(),
        }
    }

    async fn find(&self, reference: &str) -> Object {
        match objects::resolve(&self.app.db.pool, self.app.db.workspace_id, reference)
            .await
            .unwrap()
        {
            Resolved::One(object) => *object,
            other => panic!("{reference}: {other:?}"),
        }
    }

    /// Makes the model call the tool once; the stored call and the readers' events agree.
    async fn call(&mut self, tool: &str, arguments: Value) -> Told {
        self.called.insert(tool.to_owned());
        self.app
            .model
            .script([Reply::tool(tool, arguments.clone()), Reply::text("done")]);
        let client = self.app.client();
        let frames = client.ask(Some(self.agent), &format!("use {tool}")).await;
        let events: Vec<Value> = frames
            .iter()
            .filter(|frame| frame.kind() == "mcp_tool")
            .map(Frame::json)
            .collect();
        let [started, ended] = events.as_slice() else {
            panic!("{tool}: a beginning and an end, not {events:?}");
        };
        assert_eq!(
            (&started["tool"], &started["status"]),
            (&json!(tool), &json!("started"))
        );
        let run = frames[1].json()["runId"].as_str().unwrap().to_owned();
        let calls = format!("/api/projects/{}/agent-runs/{run}/tool-calls", self.app.db.workspace_id);
        let (_, listed) = client.get(&calls).await;
        let id = listed["items"][0]["id"].as_str().unwrap();
        let (_, call) = client.get(&format!("{calls}/{id}")).await;
        assert_eq!((&call["tool"], &call["input"]), (&json!(tool), &arguments), "{call}");
        assert_eq!(call["status"], ended["status"], "{call} and {ended}");
        if call["status"] == "completed" {
            assert_eq!(call["output"], ended["result"], "readers are told what was stored");
        }
        Told {
            status: call["status"].as_str().unwrap().to_owned(),
            output: call["output"].clone(),
            error: ended["error"].as_str().unwrap_or_default().to_owned(),
        }
    }

    async fn good(&mut self, tool: &str, arguments: Value) -> Value {
        let told = self.call(tool, arguments).await;
        assert_eq!(told.status, "completed", "{tool}: {}", told.error);
        told.output
    }

    /// Asserts that it is refused, with a text that names the fault.
    async fn bad(&mut self, tool: &str, arguments: Value, words: &str) {
        let told = self.call(tool, arguments).await;
        assert_eq!(told.status, "error", "{tool}: {}", told.output);
        assert!(
            told.error.contains(words),
            "{tool}: {:?} does not say {words:?}",
            told.error
        );
    }
}

#[tokio::test]
async fn every_built_in_tool_works_in_a_run_and_explains_errors() {
    let mut desk = Desk::new().await;
    let curl = desk.find("curl").await;

    let found = desk
        .good(
            "hybrid_search",
            json!({"query": "libssl3", "types": null, "labels": ["libs"], "limit": null}),
        )
        .await;
    assert_eq!(found["data"][0]["object"]["key"], "libssl3");
    desk.bad("hybrid_search", json!({"query": 7}), "query").await;
    let found = desk
        .good(
            "semantic_search",
            json!({"query": "toolkit", "types": null, "limit": 5}),
        )
        .await;
    assert_eq!(found["data"][0]["object"]["key"], "libssl3");
    desk.bad("semantic_search", json!({}), "query").await;
    let found = desk
        .good(
            "search_entities",
            json!({"query": "curl", "type_name": "Package", "limit": null}),
        )
        .await;
    assert_eq!(found["entities"][0]["key"], "curl");
    desk.bad(
        "search_entities",
        json!({"query": " ", "type_name": null, "limit": null}),
        "query is empty",
    )
    .await;
    let found = desk
        .good(
            "find_similar",
            json!({"entity_id": "libssl3", "types": null, "limit": null}),
        )
        .await;
    assert_eq!(found["entity"]["key"], "libssl3");
    desk.bad(
        "find_similar",
        json!({"entity_id": "nothing-like-it", "types": null, "limit": null}),
        "no entity",
    )
    .await;

    let types = desk.good("list_entity_types", json!({})).await;
    assert_eq!(
        (&types["types"][0]["name"], &types["types"][0]["count"]),
        (&json!("Package"), &json!(3))
    );
    desk.bad("list_entity_types", json!({"all": true}), "all").await;
    assert_eq!(desk.good("schema_version", json!({})).await["cache_hint_ttl"], 300);
    desk.bad("schema_version", json!({"of": 1}), "of").await;
    let tags = desk.good("list_tags", json!({})).await;
    assert_eq!(
        tags,
        json!({"tags": [{"name": "libs", "count": 2}, {"name": "web", "count": 1}], "total": 2})
    );
    desk.bad("list_tags", json!({"limit": 1}), "limit").await;
    let page = desk
        .good(
            "query_entities",
            json!({"type_name": "Package", "limit": 2, "offset": null, "sort_by": "name", "sort_order": "asc"}),
        )
        .await;
    assert_eq!(
        (&page["entities"][0]["key"], &page["pagination"]["has_more"]),
        (&json!("curl"), &json!(true))
    );
    desk.bad(
        "query_entities",
        json!({"type_name": "Package", "sort_by": "size"}),
        "sort_by",
    )
    .await;
    let listed = desk
        .good(
            "list_relationships",
            json!({"type": "DEPENDS_ON", "source_id": "curl", "target_id": null, "limit": null}),
        )
        .await;
    assert_eq!(listed["relationships"][0]["target"]["key"], "libssl3");
    desk.bad("list_relationships", json!({"source_id": "nowhere"}), "source_id")
        .await;
    let edges = desk
        .good("get_entity_edges", json!({"entity_id": "Package:libssl3"}))
        .await;
    assert_eq!(edges["incoming"][0]["connected_entity"]["key"], "curl");
    desk.bad("get_entity_edges", json!({"entity_id": Uuid::nil()}), "no entity")
        .await;
    let walked = desk
        .good(
            "traverse_graph",
            json!({"start_entity_id": "curl", "max_depth": 1, "relationship_types": null, "direction": "outgoing", "query_context": null}),
        )
        .await;
    assert_eq!(walked["edges"].as_array().unwrap().len(), 1);
    desk.bad(
        "traverse_graph",
        json!({"start_entity_id": "curl", "direction": "up"}),
        "direction",
    )
    .await;

    let way = desk
        .good(
            "find_path",
            json!({"from_id": "libssl3", "to_id": "curl", "max_length": null, "relationship_types": null, "direction": "incoming"}),
        )
        .await;
    assert_eq!((&way["found"], &way["length"]), (&json!(true), &json!(1)));
    let none = desk
        .good(
            "find_path",
            json!({"from_id": "curl", "to_id": "libssl-dev", "max_length": 8, "relationship_types": null, "direction": null}),
        )
        .await;
    assert_eq!(none["found"], json!(false));
    desk.bad("find_path", json!({"from_id": "curl"}), "to_id").await;

    let wget = json!({"type": "Package", "properties": {"summary": "gets files"}, "key": "wget", "status": null, "labels": ["web"]});
    let made = desk.good("create_entity", wget.clone()).await;
    assert_eq!(
        (&made["entity"]["key"], &made["entity"]["version"]),
        (&json!("wget"), &json!(1))
    );
    desk.bad("create_entity", wget, "already").await;
    let change = json!({"entity_id": "wget", "properties": {"summary": null, "size": 3}, "status": "old", "labels": null, "replace_labels": null});
    let updated = desk.good("update_entity", change).await;
    assert_eq!(
        (
            &updated["entity"]["properties"],
            &updated["entity"]["labels"],
            &updated["entity"]["version"]
        ),
        (&json!({"size": 3}), &json!(["web"]), &json!(2))
    );
    desk.bad("update_entity", json!({"entity_id": "nowhere"}), "entity_id")
        .await;
    let versions = desk
        .good("get_entity_history", json!({"entity_id": "wget", "limit": null}))
        .await;
    let numbers: Vec<&Value> = versions["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["version"])
        .collect();
    assert_eq!(
        (numbers, &versions["versions"][0]["changed_by"]),
        (vec![&json!(2), &json!(1)], &json!("agent"))
    );
    desk.bad("get_entity_history", json!({"entity_id": Uuid::nil()}), "no object")
        .await;
    let deleted = desk.good("delete_entity", json!({"entity_id": "wget"})).await;
    desk.bad("delete_entity", json!({"entity_id": "wget"}), "no entity")
        .await;
    let restored = desk
        .good("restore_entity", json!({"entity_id": deleted["entity"]["id"]}))
        .await;
    assert_eq!(restored["entity"]["version"], 4);
    desk.bad("restore_entity", json!({"entity_id": "wget"}), "must be an id")
        .await;

    let uses =
        json!({"type": "USES", "source_id": "wget", "target_id": "Package:libssl3", "properties": null, "weight": 0.5});
    let made = desk.good("create_relationship", uses.clone()).await;
    let id = made["relationship"]["id"].clone();
    assert_eq!(made["relationship"]["weight"], 0.5);
    desk.bad("create_relationship", uses, "already").await;
    let change = json!({"relationship_id": id, "properties": {"since": 2020}, "weight": null});
    let updated = desk.good("update_relationship", change).await;
    assert_eq!(
        (
            &updated["relationship"]["properties"],
            &updated["relationship"]["weight"]
        ),
        (&json!({"since": 2020}), &json!(0.5))
    );
    desk.bad("update_relationship", json!({"relationship_id": "it"}), "must be an id")
        .await;
    desk.good("delete_relationship", json!({"relationship_id": id})).await;
    desk.bad(
        "delete_relationship",
        json!({"relationship_id": Uuid::nil()}),
        "no relationship",
    )
    .await;

    let entities = json!({"entities": [{"type": "Package", "key": "git"}, {"type": "Package", "key": "curl"}]});
    let made = desk.good("batch_create_entities", entities).await;
    assert_eq!(
        (&made["success"], &made["failed"], &made["total"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(
        (&made["results"][1]["success"], &made["results"][1]["index"]),
        (&json!(false), &json!(1))
    );
    desk.bad("batch_create_entities", json!({"entities": [{"key": "git"}]}), "type")
        .await;
    let relationships = json!({"relationships": [
        {"type": "USES", "source_id": "git", "target_id": "curl"},
        {"type": "USES", "source_id": "git", "target_id": "nowhere"}
    ]});
    let made = desk.good("batch_create_relationships", relationships).await;
    assert_eq!((&made["success"], &made["failed"]), (&json!(1), &json!(1)));
    desk.bad("batch_create_relationships", json!({"relationships": []}), "empty")
        .await;
    let git = desk.find("git").await;
    let edges = edges::edges(&desk.app.db.pool, desk.app.db.workspace_id, git.id, 10)
        .await
        .unwrap();
    assert_eq!(edges.outgoing[0].connected.id, curl.id);

    let pack = |version: &str, required: Value| {
        json!({
            "name": "errands", "version": version, "description": "things to do", "author": null,
            "object_type_schemas": {"Errand": {
                "type": "object", "description": "something to do",
                "properties": {"title": {"type": "string"}, "due": {"type": "string"}}, "required": required
            }},
            "relationship_type_schemas": {"needs": {"from": ["Errand"], "to": ["Package"]}},
            "ui_configs": null, "extraction_prompts": null
        })
    };
    let first = desk.good("create_template_pack", pack("1", json!(["title"]))).await["pack"].clone();
    let second = desk
        .good("create_template_pack", pack("2", json!(["title", "due"])))
        .await["pack"]
        .clone();
    assert_ne!(first["checksum"], second["checksum"]);
    desk.bad("create_template_pack", pack("1", json!([])), "another version")
        .await;
    let listed = desk
        .good(
            "list_template_packs",
            json!({"search": "errand", "include_deprecated": null, "limit": 1, "page": 1}),
        )
        .await;
    assert_eq!((&listed["total"], &listed["has_more"]), (&json!(2), &json!(true)));
    desk.bad("list_template_packs", json!({"limit": "all"}), "limit").await;
    let shown = desk.good("get_template_pack", json!({"pack_id": first["id"]})).await;
    assert_eq!(shown["pack"], first);
    desk.bad("get_template_pack", json!({"pack_id": Uuid::nil()}), "no template pack")
        .await;
    assert_eq!(desk.good("get_available_templates", json!({})).await["total"], 2);
    desk.bad("get_available_templates", json!({"limit": 1}), "limit").await;
    let assign = |pack: &Value| json!({"template_pack_id": pack["id"], "enabled_types": null, "disabled_types": null});
    let installed = desk.good("assign_template_pack", assign(&first)).await["assignment"].clone();
    desk.bad(
        "assign_template_pack",
        assign(&second),
        "version 1 of the pack errands is installed",
    )
    .await;
    assert_eq!(
        desk.good("get_installed_templates", json!({})).await["templates"][0]["id"],
        installed["id"]
    );
    desk.bad("get_installed_templates", json!({"all": true}), "all").await;
    desk.bad(
        "create_entity",
        json!({"type": "Errand", "properties": {"due": "today"}}),
        "title",
    )
    .await;
    let errand =
        json!({"type": "Errand", "properties": {"title": "buy milk"}, "key": "milk", "status": null, "labels": null});
    let errand = desk.good("create_entity", errand).await["entity"].clone();
    desk.bad(
        "update_entity",
        json!({"entity_id": "milk", "properties": {"title": 7}}),
        "errands@1",
    )
    .await;
    let backwards = json!({"type": "needs", "source_id": "curl", "target_id": "milk"});
    desk.bad("create_relationship", backwards, "cannot come from a Package")
        .await;
    desk.bad(
        "uninstall_template_pack",
        json!({"assignment_id": installed["id"]}),
        "1 live objects",
    )
    .await;
    let both = json!({"from_version": "errands@1", "to_version": second["id"], "sample_size": null});
    let preview = desk.good("preview_schema_migration", both).await;
    assert_eq!(preview["types_changed"][0]["invalid"][0]["key"], "milk");
    desk.bad(
        "preview_schema_migration",
        json!({"from_version": "errands@9", "to_version": "errands@2"}),
        "errands@9",
    )
    .await;
    desk.good(
        "update_template_assignment",
        json!({"assignment_id": installed["id"], "active": false}),
    )
    .await;
    desk.bad(
        "update_template_assignment",
        json!({"assignment_id": installed["id"], "active": null}),
        "active",
    )
    .await;
    desk.good("assign_template_pack", assign(&second)).await;
    desk.good(
        "update_entity",
        json!({"entity_id": "milk", "properties": {"due": "today"}}),
    )
    .await;
    let archives = desk.good("list_migration_archives", json!({"limit": null})).await;
    assert_eq!(
        (
            &archives["archives"][0]["earlier"],
            &archives["archives"][0]["schema_version"]
        ),
        (&json!(["errands@1"]), &json!("errands@2"))
    );
    desk.bad("list_migration_archives", json!({"limit": "x"}), "limit")
        .await;
    let archive = desk
        .good("get_migration_archive", json!({"object_id": errand["id"]}))
        .await;
    assert_eq!(archive["versions"][0]["properties"], json!({"title": "buy milk"}));
    desk.bad("get_migration_archive", json!({"object_id": "milk"}), "must be an id")
        .await;
    desk.bad("delete_template_pack", json!({"pack_id": first["id"]}), "is installed")
        .await;
    desk.good("delete_entity", json!({"entity_id": "milk"})).await;
    desk.good("uninstall_template_pack", json!({"assignment_id": installed["id"]}))
        .await;
    desk.good("delete_template_pack", json!({"pack_id": first["id"]})).await;

    // Consoles have separate tests (`consoles`).
    let builtin = Registry::new(graph::tools());
    let untried: Vec<&str> = builtin.names().filter(|name| !desk.called.contains(*name)).collect();
    assert!(untried.is_empty(), "{untried:?}");
}
