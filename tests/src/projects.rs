//! Projects of the work graph, and requests about them.

use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{AppOptions, TestApp};
use crate::client::Client;

/// An app without workers, and its user's client.
pub async fn start() -> (TestApp, Client) {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    (app, client)
}

/// A project with a goal, two tasks of which one depends on the other, and a document: ids by temporary ids.
pub async fn project(client: &Client, name: &str) -> Value {
    let (status, made) = client
        .post(
            "/api/onto/projects/instantiate",
            json!({
                "project": {"name": name, "description": "a beginning"},
                "entities": [
                    {"tempId": "goal", "kind": "goal", "name": "Be done"},
                    {"temp_id": "first", "kind": "task", "title": "First", "dueAt": "2030-02-01T00:00:00Z", "priority": 2},
                    {"temp_id": "second", "kind": "task", "title": "Second", "due_at": "2030-01-01T00:00:00Z"},
                    {"temp_id": "notes", "kind": "document", "title": "Notes", "content": "secretnotes"},
                ],
                "relationships": [
                    {"type": "supports_goal", "source": "first", "target": "goal"},
                    {"rel": "depends_on", "from": "second", "to": "first"},
                    {"type": "parent_of", "source": "context_document", "target": "notes"},
                ],
                "contextDocument": {"title": "About", "content": "what it is about"},
            }),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["ids"].clone()
}

pub async fn get(client: &Client, path: &str) -> Value {
    let (status, body) = client.get(path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

pub fn id(ids: &Value, name: &str) -> String {
    ids[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} in {ids}"))
        .to_owned()
}

pub fn names(items: &Value) -> Vec<&str> {
    let items = items.as_array().unwrap().iter();
    items
        .map(|item| item["name"].as_str().or(item["title"].as_str()).unwrap())
        .collect()
}

pub async fn refused(answer: (StatusCode, Value), status: u16, words: &str) {
    assert_eq!(answer.0.as_u16(), status, "{}", answer.1);
    let detail = answer.1["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(words), "{words}: {}", answer.1);
}

/// The focus of a conversation on a project.
pub fn focus(id: Uuid, name: &str) -> Value {
    json!({"projectId": id, "projectName": name})
}
