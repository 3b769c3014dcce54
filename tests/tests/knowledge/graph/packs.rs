//! Template packs over HTTP: installed packs validate every write; and restored relationships.

use rejoin_identity::auth;
use rejoin_identity::workspaces;
use rejoin_tests::client::{Client, answer};
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use rejoin_tests::graph_api::{Graph, id};

fn errands(version: &str) -> Value {
    json!({
        "name": "errands", "version": version,
        "objectTypes": {"Errand": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}},
        "relationshipTypes": {"blocks": {"from": ["Errand"], "to": ["Errand"]}}
    })
}

async fn put(graph: &Graph, path: &str, body: Value) -> (StatusCode, Value) {
    let request = graph.client.request(Method::PUT, &graph.path(path));
    answer(request.json(&body).send().await.unwrap()).await
}

#[tokio::test]
async fn what_is_installed_holds_every_way_to_write() {
    let graph = Graph::start().await;
    let pack = graph.make("packs", errands("1")).await;
    assert_eq!(
        graph.make("packs", errands("1")).await["id"],
        pack["id"],
        "the same pack once more is that pack"
    );
    let mut other = errands("1");
    other["objectTypes"]["Errand"]["required"] = json!([]);
    let (status, problem) = graph.client.post(&graph.path("packs"), other).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("already_exists"))
    );
    for broken in [
        json!({"name": "x", "version": "1"}),
        json!({"name": "x", "version": "1", "objectTypes": {"T": {"type": "thing"}}}),
        json!({"name": "x", "version": "1", "relationshipTypes": {"r": {"upto": []}}}),
    ] {
        let (status, problem) = graph.client.post(&graph.path("packs"), broken).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_graph_data"))
        );
    }
    let installed = format!("installed-packs/{}", id(&pack));
    let (status, _) = put(&graph, &installed, json!({"disabledTypes": ["Nothing"]})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, told) = put(&graph, &installed, json!({})).await;
    assert_eq!(
        (status, &told["active"], &told["objects"]),
        (StatusCode::OK, &json!(true), &json!(0))
    );

    let refused = async |body: Value, words: &str| {
        let (status, problem) = graph.client.post(&graph.path("objects"), body).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_graph_data"))
        );
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    };
    refused(json!({"type": "Errand", "properties": {"title": 7}}), "errands@1").await;
    let errand = graph
        .make(
            "objects",
            json!({"type": "Errand", "key": "milk", "properties": {"title": "milk"}}),
        )
        .await;
    assert_eq!(errand["schemaVersion"], "errands@1");
    let request = graph
        .client
        .request(Method::PATCH, &graph.path(&format!("objects/{}", id(&errand))));
    let change = request.json(&json!({"properties": {"title": null}}));
    assert_eq!(change.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    let free = graph.object("Thing", "anything").await;
    let between = json!({"type": "blocks", "sourceId": id(&errand), "targetId": free});
    let (status, problem) = graph.client.post(&graph.path("relationships"), between).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
    let import = graph
        .client
        .request(Method::POST, &graph.path("import"))
        .header("content-type", "application/x-ndjson");
    let (status, problem) = answer(
        import
            .body(r#"{"kind":"object","type":"Errand","key":"tea"}"#)
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, &problem["badLines"][0]["line"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!(1)),
        "{problem}"
    );

    for path in [&installed, &format!("packs/{}", id(&pack))] {
        let (status, problem) = graph.client.delete(&graph.path(path)).await;
        assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    }
    let (status, told) = put(&graph, &installed, json!({"active": false})).await;
    assert_eq!(
        (status, &told["active"], &told["objects"]),
        (StatusCode::OK, &json!(false), &json!(1))
    );
    graph
        .make("objects", json!({"type": "Errand", "key": "anything goes"}))
        .await;
    for (key, gone) in [
        ("milk", StatusCode::NO_CONTENT),
        ("anything goes", StatusCode::NO_CONTENT),
    ] {
        let listed = graph.get("objects?type=Errand").await;
        let item = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["key"] == key)
            .unwrap();
        let (status, _) = graph.client.delete(&graph.path(&format!("objects/{}", id(item)))).await;
        assert_eq!(status, gone);
    }
    for path in [&installed, &format!("packs/{}", id(&pack))] {
        assert_eq!(
            graph.client.delete(&graph.path(path)).await.0,
            StatusCode::NO_CONTENT,
            "{path}"
        );
    }
    assert_eq!(graph.get("packs").await["total"], 0);
}

#[tokio::test]
async fn a_pack_is_its_projects_own() {
    let graph = Graph::start().await;
    let pack = graph.make("packs", errands("1")).await;
    let mut db = graph.app.db.pool.acquire().await.unwrap();
    let second = workspaces::create(&mut db, "second").await.unwrap();
    let user = graph.app.db.user_id;
    workspaces::add_member(&mut db, second, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut db, user, Some(second), "test", &Scope::ALL, None)
        .await
        .unwrap();
    let other = Client::new(graph.app.url(), &key);
    let path = |rest: String| format!("/api/projects/{second}/graph/{rest}");
    let (status, problem) = other.get(&path(format!("packs/{}", id(&pack)))).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("pack_not_found"))
    );
    assert_eq!(other.get(&path("packs".into())).await.1["total"], 0);
    let install = other
        .request(Method::PUT, &path(format!("installed-packs/{}", id(&pack))))
        .json(&json!({}));
    assert_eq!(install.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(other.get(&graph.path("packs")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_deleted_relationship_returns_unless_it_was_replaced() {
    let graph = Graph::start().await;
    let (one, two) = (graph.object("T", "one").await, graph.object("T", "two").await);
    let new = json!({"type": "R", "sourceId": one, "targetId": two, "weight": 1.0});
    let made = graph.make("relationships", new.clone()).await;
    let path = format!("relationships/{}", id(&made));
    assert_eq!(graph.client.delete(&graph.path(&path)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(graph.client.delete(&graph.path(&path)).await.0, StatusCode::NOT_FOUND);
    let restore = graph.path(&format!("{path}/restore"));
    let (status, back) = graph.client.post(&restore, json!({})).await;
    assert_eq!(
        (status, &back["version"], &back["weight"]),
        (StatusCode::OK, &json!(3), &json!(1.0))
    );
    assert_eq!(
        graph.client.post(&restore, json!({})).await.1["version"],
        3,
        "it lives: nothing changes"
    );
    let history = graph.get(&format!("{path}/history")).await;
    let deleted: Vec<bool> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["deletedAt"].is_string())
        .collect();
    assert_eq!(deleted, [false, true, false]);
    graph.client.delete(&graph.path(&path)).await;
    graph.make("relationships", new).await;
    assert_eq!(graph.client.post(&restore, json!({})).await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn imports_have_their_packs_version_unless_the_line_differs() {
    let graph = Graph::start().await;
    let import = async |lines: &str| {
        let request = graph
            .client
            .request(Method::POST, &graph.path("import"))
            .header("content-type", "application/x-ndjson");
        let (status, report) = answer(request.body(lines.to_owned()).send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{report}");
        report
    };
    let versions = async || {
        let listed = graph.get("objects?limit=100").await;
        let items = listed["items"].as_array().unwrap().iter();
        let mut versions: Vec<(String, Value)> = items
            .map(|item| (item["key"].as_str().unwrap().to_owned(), item["schemaVersion"].clone()))
            .collect();
        versions.sort_by(|a, b| a.0.cmp(&b.0));
        versions
    };
    let is = |key: &str, version: Value| (key.to_owned(), version);
    import(r#"{"kind":"object","type":"Errand","key":"before","properties":{"title":"a"}}"#).await;
    let pack = graph.make("packs", errands("1")).await;
    let (status, _) = put(&graph, &format!("installed-packs/{}", id(&pack)), json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let lines = r#"{"kind":"object","type":"Errand","key":"before","properties":{"title":"a"}}
{"kind":"object","type":"Errand","key":"milk","properties":{"title":"b"}}
{"kind":"object","type":"Errand","key":"tea","schema_version":"errands@0","properties":{"title":"c"}}
{"kind":"object","type":"Free","key":"x"}
{"kind":"object","type":"Free","key":"y","schemaVersion":"other@7"}
"#;
    let report = import(lines).await;
    assert_eq!(
        (&report["created"], &report["unchanged"]),
        (&json!(4), &json!(1)),
        "{report}"
    );
    let mut expected = [
        is("before", Value::Null),
        is("milk", json!("errands@1")),
        is("tea", json!("errands@0")),
        is("x", Value::Null),
        is("y", json!("other@7")),
    ];
    assert_eq!(versions().await, expected);
    // A new version of an object keeps its schema; one of a type without a pack has its line's last value.
    import(
        &lines
            .replace("\"a\"", "\"A\"")
            .replace("\"c\"", "\"C\"")
            .replace("\"schema_version\":\"errands@0\",", ""),
    )
    .await;
    import(r#"{"kind":"object","type":"Free","key":"y","status":"new"}"#).await;
    expected[0].1 = json!("errands@1");
    expected[2].1 = json!("errands@1");
    assert_eq!(versions().await, expected);
}
