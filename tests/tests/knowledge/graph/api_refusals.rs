//! Requests to the graph that are refused: those of another project, without the scope, or invalid.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::client::Client;
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::json;

use rejoin_tests::graph_api::{Graph, id};

#[tokio::test]
async fn another_projects_caller_sees_nothing_of_it() {
    let graph = Graph::start().await;
    let (a, b) = (graph.object("T", "a").await, graph.object("T", "b").await);
    let relationship = id(&graph
        .make("relationships", json!({"type": "R", "sourceId": a, "targetId": b}))
        .await);
    let mut connection = graph.app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    let user = workspaces::ensure_user(&mut connection, "stranger@example.org")
        .await
        .unwrap();
    workspaces::add_member(&mut connection, other, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut connection, user, Some(other), "test", &Scope::ALL, None)
        .await
        .unwrap();
    drop(connection);
    let stranger = Client::new(graph.app.url(), &key);
    for project in [graph.app.db.workspace_id, other] {
        let path = |rest: &str| format!("/api/projects/{project}/graph/{rest}");
        let mut requests = vec![
            (Method::GET, path(&format!("objects/{a}"))),
            (Method::PATCH, path(&format!("objects/{a}"))),
            (Method::DELETE, path(&format!("objects/{a}"))),
            (Method::POST, path(&format!("objects/{a}/restore"))),
            (Method::GET, path(&format!("objects/{a}/history"))),
            (Method::GET, path(&format!("objects/{a}/edges"))),
            (Method::GET, path(&format!("relationships/{relationship}"))),
            (Method::PATCH, path(&format!("relationships/{relationship}"))),
            (Method::DELETE, path(&format!("relationships/{relationship}"))),
        ];
        if project != other {
            let lists = ["objects", "relationships", "search?query=a", "types", "export"];
            requests.extend(lists.map(|rest| (Method::GET, path(rest))));
            requests.push((Method::POST, path("import")));
        }
        for (method, path) in requests {
            let response = stranger
                .request(method.clone(), &path)
                .json(&json!({}))
                .send()
                .await
                .unwrap();
            assert_eq!(
                response.headers()["content-type"],
                "application/problem+json",
                "{method} {path}"
            );
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
    // Nor can objects of two projects be linked.
    let theirs = stranger
        .post(&format!("/api/projects/{other}/graph/objects"), json!({"type": "T"}))
        .await
        .1;
    let joined = json!({"type": "R", "sourceId": theirs["id"], "targetId": a});
    let (status, _) = stranger
        .post(&format!("/api/projects/{other}/graph/relationships"), joined)
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(graph.get("types").await["total"], 2);
}

#[tokio::test]
async fn reading_needs_the_scope_to_read_and_changes_the_one_to_write() {
    let graph = Graph::start().await;
    let mut connection = graph.app.db.pool.acquire().await.unwrap();
    let (user, project) = (graph.app.db.user_id, graph.app.db.workspace_id);
    let (_, key) = auth::create_key(&mut connection, user, Some(project), "test", &[Scope::Read], None)
        .await
        .unwrap();
    let reader = Client::new(graph.app.url(), &key);
    for rest in ["objects", "types", "search?query=x", "export"] {
        assert_eq!(reader.stream_status(&graph.path(rest)).await, StatusCode::OK, "{rest}");
    }
    for rest in ["objects", "relationships", "import"] {
        let (status, problem) = reader.post(&graph.path(rest), json!({})).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing")),
            "{rest}"
        );
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_reason() {
    let graph = Graph::start().await;
    for (body, code) in [
        (json!({"type": "T", "colour": "red"}), "unknown_field"),
        (json!({"key": "k"}), "invalid_body"),
        (json!({"type": " "}), "invalid_graph_data"),
        (json!({"type": "T", "properties": {"a": "\u{0}"}}), "invalid_graph_data"),
        (json!({"type": "T", "properties": []}), "invalid_body"),
    ] {
        let (status, problem) = graph.client.post(&graph.path("objects"), body.clone()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{body}: {problem}"
        );
    }
    assert_eq!(
        graph.client.get(&graph.path("objects/nonsense")).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        graph.client.get(&graph.path("objects?type=%00")).await.0,
        StatusCode::BAD_REQUEST
    );
}
