//! Members of the test project, and runs outside conversations on their behalf.

use rejoin_identity::workspaces::{self, Role};
use reqwest::StatusCode;
use serde_json::json;
use uuid::Uuid;

use crate::app::TestApp;
use crate::client::Client;

/// A new member of the project, with a key of all the role's scopes.
pub async fn member(app: &TestApp, role: Role) -> (Uuid, Client) {
    let (user, key) = app.db.another_user().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, app.db.workspace_id, user, role)
        .await
        .unwrap();
    (user, Client::new(app.url(), &key))
}

/// Starts a run of an agent outside a conversation. Returns its id.
pub async fn trigger(client: &Client, app: &TestApp, agent: &str, input: &str) -> String {
    let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    let (status, answer) = client.post(&path, json!({"input": input})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    answer["runId"].as_str().unwrap().to_owned()
}
