//! Identity is in the directory, wherever a project lives: keys, tickets and members.

use rejoin_tests::support;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{CELL, Fleet, rows};

#[tokio::test]
async fn keys_and_tickets_of_a_moved_project_work() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet.move_to(Some(CELL)).await;
    let keys = format!("/api/admin/projects/{project}/keys");
    let (status, made) = client
        .post(&keys, json!({"name": "laptop", "scopes": ["read", "write"]}))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let mut other = fleet.app.client();
    made["key"].as_str().expect("a key").clone_into(&mut other.key);
    assert_eq!(other.get("/api/conversations").await.0, 200);

    fleet
        .app
        .model
        .always("turn", rejoin_tests::model_server::Reply::text("one"));
    let posted = other.post_message(json!({"message": "turn"})).await;
    let run = posted["runId"].as_str().expect("an id");
    let (status, ticket) = other.post("/api/stream-tickets", json!({ "runId": run })).await;
    assert_eq!(status, StatusCode::CREATED, "{ticket}");
    let ticket = ticket["ticket"].as_str().expect("a ticket");
    let url = format!("{}/api/runs/{run}/events?ticket={ticket}", fleet.app.url());
    let http = rejoin_egress::tls::http_client().build().expect("a client");
    let first = http.request(Method::GET, &url).send().await.expect("an answer");
    assert_eq!(first.status(), 200);
    drop(first);
    let again = http.request(Method::GET, &url).send().await.expect("an answer");
    assert_eq!(again.status(), 401, "a ticket is redeemed once");

    let id = made["id"].as_str().expect("an id");
    let (status, _) = client.delete(&format!("{keys}/{id}")).await;
    assert!(status.is_success(), "{status}");
    support::wait_for("the key to be refused", async || {
        (other.get("/api/conversations").await.0 == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn members_are_mirrored_to_the_cell() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet.move_to(Some(CELL)).await;
    assert_eq!(rows(&fleet.cell, "kb.project_members", project).await, 1);
    let (user, _) = fleet.app.db.another_user().await;
    let count = async |wanted: i64| {
        support::wait_for("the members on the cell", async || {
            (rows(&fleet.cell, "kb.project_members", project).await == wanted).then_some(())
        })
        .await;
    };
    count(2).await;
    let (status, _) = client
        .delete(&format!("/api/admin/projects/{project}/members/{user}"))
        .await;
    assert!(status.is_success(), "{status}");
    count(1).await;
    let (_, audit) = client.get(&format!("/api/admin/projects/{project}/audit")).await;
    assert!(audit["items"].is_array(), "the cell's own entries: {audit}");
}
