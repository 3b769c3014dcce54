//! The graph tools called directly: errors that a model can correct, and calls repeated after a crash.

use std::sync::Arc;

use rejoin_graph::embedder::NoEmbedder;
use rejoin_graph::import::{self, OnError};
use rejoin_graph::objects::{self, Filter, Resolved};
use rejoin_graph::{Actor, ActorKind};
use rejoin_runs::builtin;
use rejoin_tools::arguments::admit;
use rejoin_tools::{ToolContext, ToolError};
use serde_json::{Value, json};
use uuid::Uuid;

const ACTOR: Actor = Actor {
    kind: ActorKind::User,
    id: None,
};

const FILE: &str = r#"{"kind":"object","type":"Package","key":"curl"}
{"kind":"object","type":"Package","key":"libssl3","properties":{"summary":"Secure Sockets Layer toolkit"}}
{"kind":"object","type":"SourcePackage","key":"openssl"}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"}}
"#;

#[tokio::test]
async fn tools_give_citable_entities_and_repairable_errors() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    import::import(pool, workspace_id, FILE.as_bytes(), OnError::Refuse, ACTOR, |_| ())
        .await
        .unwrap();
    let context = ToolContext {
        db: pool.clone(),
        workspace_id,
        model: Arc::new(NoEmbedder),
        run_id: Some(Uuid::now_v7()),
        user_id: Some(database.user_id),
        call_id: "call-1".to_owned(),
        record_id: Uuid::now_v7(),
        cancel: Default::default(),
        focus: None,
        bounds: None,
    };
    let registry = builtin::tools();
    let call = async |tool: &str, arguments: Value| {
        let tool = registry.get(tool).unwrap();
        let arguments = admit(tool.spec(), &arguments).map_err(ToolError::RespondToModel)?;
        tool.call(&context, arguments).await
    };

    let found = call("hybrid_search", json!({"query": "libssl3"})).await.unwrap();
    let Resolved::One(libssl3) = objects::resolve(pool, workspace_id, "libssl3").await.unwrap() else {
        panic!("there is one libssl3");
    };
    let object = &found["data"][0]["object"];
    assert_eq!(
        (&object["id"], &object["key"], &object["type"]),
        (&json!(libssl3.id), &json!("libssl3"), &json!("Package"))
    );
    assert_eq!(found["data"][0]["vectorScore"], Value::Null);

    let edges = call("get_entity_edges", json!({"entity_id": "Package:libssl3"}))
        .await
        .unwrap();
    assert_eq!(edges["incoming"][0]["connected_entity"]["key"], "curl");
    assert_eq!(edges["incoming"][0]["relationship_type"], "DEPENDS_ON");

    for (tool, arguments, words) in [
        ("hybrid_search", json!({"q": "x"}), "query"),
        ("get_entity_edges", json!({"entity_id": "libssl33"}), "libssl3"),
        ("get_entity_edges", json!({"entity_id": Uuid::now_v7()}), "no entity"),
    ] {
        match call(tool, arguments).await {
            Err(ToolError::RespondToModel(told)) => assert!(told.contains(words), "{told}"),
            other => panic!("{tool}: {other:?}"),
        }
    }
    let unknown = call("query_entities", json!({"type_name": "package"})).await.unwrap();
    assert!(
        unknown["note"]
            .as_str()
            .unwrap()
            .contains("known: Package, SourcePackage"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_call_that_is_repeated_after_a_crash_makes_nothing_twice() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    let registry = builtin::tools();
    let context = ToolContext {
        db: pool.clone(),
        workspace_id,
        model: Arc::new(NoEmbedder),
        run_id: Some(Uuid::now_v7()),
        user_id: None,
        call_id: "call-1".to_owned(),
        record_id: Uuid::now_v7(),
        cancel: Default::default(),
        focus: None,
        bounds: None,
    };
    let batch = registry.get("batch_create_entities").unwrap();
    assert!(batch.spec().idempotent, "so that the executor repeats it");
    let entities = json!({"entities": [{"type": "T", "key": "a"}, {"type": "T"}]});
    let arguments = admit(batch.spec(), &entities).unwrap();
    let first = batch.call(&context, arguments.clone()).await.unwrap();
    let again = batch.call(&context, arguments.clone()).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(first["success"], 2);
    let all = objects::list(pool, workspace_id, &Filter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(all.len(), 2);
    // Another call with the same arguments is distinct: the key is taken, an item without one is created again.
    let other = ToolContext {
        record_id: Uuid::now_v7(),
        ..context
    };
    let third = batch.call(&other, arguments).await.unwrap();
    assert_eq!((&third["success"], &third["failed"]), (&json!(1), &json!(1)));
}
