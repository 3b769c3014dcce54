//! A cell that is down takes only its own projects down.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::client::{Client, kinds};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use rejoin_types::access::Scope;
use serde_json::json;

use super::{CELL, Fleet};

#[tokio::test]
async fn a_cell_that_is_down_takes_only_its_projects_down() {
    let (server, cell) = support::own_server_database().await;
    let fleet = Fleet::with(cell).await;
    fleet.app.model.always("turn", Reply::text("one two three"));
    let ours = fleet.app.client();
    let mut connection = fleet.app.db.pool.acquire().await.expect("a connection");
    let other = workspaces::create(&mut connection, "other").await.expect("a project");
    let user = fleet.app.db.user_id;
    workspaces::add_member(&mut connection, other, user, workspaces::Role::Owner)
        .await
        .expect("a member");
    let (_, key) = auth::create_key(&mut connection, user, Some(other), "other", &Scope::ALL, None)
        .await
        .expect("a key");
    drop(connection);
    let theirs = Client::new(fleet.app.url(), &key);
    fleet.move_to(Some(CELL)).await;
    assert_eq!(ours.get("/api/conversations").await.0, 200);

    server.stop_immediate().await.expect("it stops");
    fleet.wait_for_cell("unavailable").await;
    let (status, problem) = ours.get("/api/conversations").await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (503, &json!("database_unavailable"))
    );
    assert_eq!(ours.get("/api/me").await.0, 200, "identity is in the directory");
    let frames = theirs.chat(json!({"message": "turn"})).await;
    assert_eq!(kinds(&frames).last().map(String::as_str), Some("done"));
    let metrics = theirs.metrics().await;
    assert!(metrics.contains("rejoin_cell_up{cell=\"b\"} 0"), "{metrics}");
    assert!(metrics.contains("rejoin_cell_projects{cell=\"b\"} 1"), "{metrics}");

    server.restart().await.expect("it starts");
    fleet.wait_for_cell("ok").await;
    let frames = ours.chat(json!({"message": "turn"})).await;
    assert_eq!(kinds(&frames).last().map(String::as_str), Some("done"));
}
