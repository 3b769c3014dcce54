//! The graph over HTTP: what a client may rely on. What the graph itself does is in `store`; imports and exports
//! are in `transfer`.

use rejoin_tests::client::answer;
use rejoin_tests::graph_api::{FILE, Graph, id};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

fn keys(items: &Value) -> Vec<&str> {
    items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["key"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn an_object_is_made_read_changed_deleted_and_restored() {
    let graph = Graph::start().await;
    let request = graph.client.request(Method::POST, &graph.path("objects")).json(&json!({
        "type": "Package", "key": "curl", "name": "cURL", "labels": ["tool", "net"], "status": "new",
        "properties": {"version": "7.88", "size": 5}
    }));
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (location, etag) = (header("location"), header("etag"));
    let (status, made) = answer(response).await;
    assert_eq!((status, etag.as_str()), (StatusCode::CREATED, "\"1\""));
    assert_eq!(location, graph.path(&format!("objects/{}", id(&made))));
    assert_eq!(
        (&made["name"], &made["labels"], &made["actorType"]),
        (&json!("cURL"), &json!(["net", "tool"]), &json!("user"))
    );
    assert_eq!(graph.client.get(&location).await, (StatusCode::OK, made.clone()));

    let patch = json!({"properties": {"version": "8.0", "size": null, "arch": "amd64"}, "labels": ["cli"], "changeSummary": "newer"});
    let (status, changed) = graph.client.patch(&location, patch).await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    assert_eq!(
        changed["properties"],
        json!({"version": "8.0", "arch": "amd64", "name": "cURL"})
    );
    assert_eq!(
        (&changed["labels"], &changed["version"], &changed["id"]),
        (&json!(["cli", "net", "tool"]), &json!(2), &made["id"])
    );
    let (_, replaced) = graph
        .client
        .patch(&location, json!({"labels": ["only"], "replaceLabels": true}))
        .await;
    assert_eq!(
        (&replaced["labels"], &replaced["status"]),
        (&json!(["only"]), &json!("new"))
    );

    assert_eq!(graph.client.delete(&location).await.0, StatusCode::NO_CONTENT);
    for answer in [graph.client.get(&location).await, graph.client.delete(&location).await] {
        assert_eq!(
            (answer.0, &answer.1["code"]),
            (StatusCode::NOT_FOUND, &json!("object_not_found"))
        );
    }
    let history = graph.get(&format!("objects/{}/history", id(&made))).await;
    let versions: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["version"])
        .collect();
    assert_eq!(versions, [4, 3, 2, 1]);
    assert_eq!(
        (
            &history["items"][2]["changeSummary"],
            history["items"][0]["deletedAt"].is_string()
        ),
        (&json!("newer"), true)
    );
    let (status, restored) = graph.client.post(&format!("{location}/restore"), json!({})).await;
    assert_eq!(
        (status, &restored["version"], &restored["deletedAt"]),
        (StatusCode::OK, &json!(5), &Value::Null)
    );
    assert_eq!(graph.client.get(&location).await.1, restored);
}

#[tokio::test]
async fn a_change_for_another_version_is_a_conflict() {
    let graph = Graph::start().await;
    let made = graph
        .make("objects", json!({"type": "T", "key": "k", "properties": {"n": 1}}))
        .await;
    let path = graph.path(&format!("objects/{}", id(&made)));
    let patch = |version: i32| json!({"properties": {"n": 2}, "version": version});
    assert_eq!(graph.client.patch(&path, patch(1)).await.0, StatusCode::OK);
    let (status, problem) = graph.client.patch(&path, patch(1)).await;
    assert_eq!(
        (status, &problem["code"], &problem["version"]),
        (StatusCode::CONFLICT, &json!("version_conflict"), &json!(2))
    );
    for (condition, expected) in [
        ("\"1\"", StatusCode::CONFLICT),
        ("nonsense", StatusCode::BAD_REQUEST),
        ("\"2\"", StatusCode::OK),
    ] {
        let request = graph.client.request(Method::PATCH, &path).header("if-match", condition);
        let response = request.json(&json!({"properties": {"n": 3}})).send().await.unwrap();
        assert_eq!(response.status(), expected, "{condition}");
    }
    assert_eq!(graph.client.get(&path).await.1["properties"], json!({"n": 3}));
    // Without a version, changes of different properties don't conflict.
    let patches = (0..4).map(|n| graph.client.patch(&path, json!({"properties": {format!("p{n}"): n}})));
    let answers = futures::future::join_all(patches.collect::<Vec<_>>()).await;
    assert!(
        answers.iter().all(|(status, _)| *status == StatusCode::OK),
        "{answers:?}"
    );
    assert_eq!(
        graph.client.get(&path).await.1["properties"],
        json!({"n": 3, "p0": 0, "p1": 1, "p2": 2, "p3": 3})
    );
    // A key is unique within its type.
    let (status, problem) = graph
        .client
        .post(&graph.path("objects"), json!({"type": "T", "key": "k"}))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("already_exists"))
    );
    graph.object("Other", "k").await;
}

#[tokio::test]
async fn a_relationship_is_made_listed_changed_and_deleted() {
    let graph = Graph::start().await;
    let (a, b) = (graph.object("T", "a").await, graph.object("T", "b").await);
    let new = json!({"type": "KNOWS", "sourceId": a, "targetId": b, "properties": {"since": 2020}, "weight": 0.25});
    let made = graph.make("relationships", new.clone()).await;
    let path = graph.path(&format!("relationships/{}", id(&made)));
    assert_eq!(graph.client.get(&path).await, (StatusCode::OK, made.clone()));
    assert_eq!(
        graph.client.post(&graph.path("relationships"), new).await.0,
        StatusCode::CONFLICT
    );

    let edges = graph.get(&format!("objects/{b}/edges")).await;
    assert_eq!((&edges["incomingTotal"], &edges["outgoing"]), (&json!(1), &json!([])));
    assert_eq!(
        edges["incoming"][0],
        json!({"relationshipId": made["id"], "relationshipType": "KNOWS", "properties": {"since": 2020}, "weight": 0.25,
               "connected": {"id": a, "key": "a", "type": "T", "name": "a"}})
    );
    for (query, count) in [
        ("", 1),
        ("?type=KNOWS", 1),
        ("?type=LIKES", 0),
        (&format!("?sourceId={a}"), 1),
        (&format!("?sourceId={b}"), 0),
    ] {
        let listed = graph.get(&format!("relationships{query}")).await;
        assert_eq!(listed["items"].as_array().unwrap().len(), count, "{query}");
    }
    let (status, changed) = graph
        .client
        .patch(&path, json!({"properties": {"since": null, "x": 1}, "version": 1}))
        .await;
    assert_eq!(
        (status, &changed["properties"], &changed["weight"]),
        (StatusCode::OK, &json!({"x": 1}), &json!(0.25))
    );
    let (status, problem) = graph.client.patch(&path, json!({"weight": 1.0, "version": 1})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("version_conflict"))
    );
    assert_eq!(graph.client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(graph.client.get(&path).await.1["code"], "relationship_not_found");

    let gone = Uuid::now_v7();
    let (status, problem) = graph
        .client
        .post(
            &graph.path("relationships"),
            json!({"type": "R", "sourceId": a, "targetId": gone}),
        )
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("object_not_found"))
    );
    assert!(
        problem["detail"].as_str().unwrap().contains(&gone.to_string()),
        "{problem}"
    );
}

#[tokio::test]
async fn objects_are_listed_in_pages_that_stay_stable() {
    let graph = Graph::start().await;
    for n in 0..5 {
        graph.make("objects", json!({"type": if n == 4 { "Odd" } else { "Even" }, "key": format!("k{n}"), "labels": [format!("l{}", n % 2)]})).await;
    }
    let first = graph.get("objects?limit=2").await;
    assert_eq!(keys(&first["items"]), ["k0", "k1"]);
    graph.object("Even", "late").await;
    let second = graph
        .get(&format!(
            "objects?limit=3&cursor={}",
            first["nextCursor"].as_str().unwrap()
        ))
        .await;
    assert_eq!(keys(&second["items"]), ["k2", "k3", "k4"]);
    let last = graph
        .get(&format!("objects?cursor={}", second["nextCursor"].as_str().unwrap()))
        .await;
    assert_eq!(
        (keys(&last["items"]), &last["nextCursor"]),
        (vec!["late"], &Value::Null)
    );
    assert_eq!(
        keys(&graph.get("objects?type=Even&label=l1").await["items"]),
        ["k1", "k3"]
    );
    for query in ["?limit=0", "?cursor=x", "?limit=many"] {
        assert_eq!(
            graph.client.get(&graph.path(&format!("objects{query}"))).await.0,
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_search_finds_and_types_are_counted_and_a_walk_goes_on() {
    let graph = Graph::start().await;
    let (status, report) = graph.import("", FILE).await;
    assert_eq!(status, StatusCode::OK, "{report}");

    let found = graph.get("search?query=secure%20sockets").await;
    assert_eq!(
        (&found["data"][0]["object"]["key"], &found["total"]),
        (&json!("libssl3"), &json!(1))
    );
    let score = found["data"][0]["score"].as_f64().unwrap();
    assert!(score > 0.0 && score <= 1.0, "{score}");
    assert_eq!(graph.get("search?query=curl&labels=tool,other").await["total"], 1);
    assert_eq!(graph.get("search?query=curl&types=Section").await["total"], 0);
    assert_eq!(
        graph.get("search?query=curl&limit=1").await["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(graph.client.get(&graph.path("search")).await.1["code"], "invalid_query");

    let types = graph.get("types").await;
    assert_eq!(
        (&types["total"], &types["types"][0]["name"], &types["types"][0]["count"]),
        (&json!(4), &json!("Package"), &json!(3))
    );
    assert_eq!(
        types["relationships"],
        json!([{"type": "DEPENDS_ON", "fromType": "Package", "toType": "Package", "count": 2}])
    );

    let start = graph.get("search?query=curl&labels=tool").await["data"][0]["object"]["id"].clone();
    let walk = async |body: Value| graph.client.post(&graph.path("traverse"), body).await;
    let (status, walked) = walk(json!({"startEntityId": start, "maxDepth": 2, "direction": "outgoing"})).await;
    assert_eq!(status, StatusCode::OK, "{walked}");
    let nodes: Vec<_> = walked["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (&node["object"]["key"], &node["depth"]))
        .collect();
    assert_eq!(
        nodes,
        [
            (&json!("curl"), &json!(0)),
            (&json!("libcurl4"), &json!(1)),
            (&json!("libssl3"), &json!(2))
        ]
    );
    assert_eq!(
        (walked["edges"].as_array().unwrap().len(), &walked["truncated"]),
        (2, &json!(false))
    );
    assert_eq!(
        walk(json!({"startEntityId": start, "relationshipTypes": ["OTHER"]}))
            .await
            .1["nodes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        walk(json!({"startEntityId": start, "maxDepth": 9})).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        walk(json!({"startEntityId": Uuid::now_v7()})).await.0,
        StatusCode::NOT_FOUND
    );
}
