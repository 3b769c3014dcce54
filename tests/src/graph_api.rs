//! The graph over HTTP.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{AppOptions, TestApp};
use crate::client::{Client, answer};

/// Four packages and sections, two dependencies.
pub const FILE: &str = r#"{"kind":"object","type":"Package","key":"curl","name":"curl","labels":["tool"],"properties":{"version":"7.88.1"}}
{"kind":"object","type":"Package","key":"libcurl4","properties":{"summary":"easy-to-use client-side URL transfer library"}}
{"kind":"object","type":"Package","key":"libssl3","status":"installed","properties":{"summary":"Secure Sockets Layer toolkit","size":{"kb":6024}}}
{"kind":"object","type":"Section","key":"web"}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libcurl4"},"properties":{"constraint":"= 7.88.1"}}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"libcurl4"},"target":{"type":"Package","key":"libssl3"},"weight":0.5}
"#;

/// An app with an empty graph, and its user's client.
pub struct Graph {
    pub app: TestApp,
    pub client: Client,
}

impl Graph {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(api: fn(&mut rejoin_api::ApiConfig)) -> Self {
        let app = TestApp::with(AppOptions {
            workers: 0,
            api,
            ..AppOptions::default()
        })
        .await;
        let client = app.client();
        Self { app, client }
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/api/projects/{}/graph/{rest}", self.app.db.workspace_id)
    }

    pub async fn get(&self, rest: &str) -> Value {
        let (status, body) = self.client.get(&self.path(rest)).await;
        assert_eq!(status, StatusCode::OK, "{rest}: {body}");
        body
    }

    pub async fn make(&self, rest: &str, body: Value) -> Value {
        let (status, made) = self.client.post(&self.path(rest), body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made
    }

    pub async fn object(&self, object_type: &str, key: &str) -> String {
        id(&self.make("objects", json!({"type": object_type, "key": key})).await)
    }

    pub async fn import(&self, query: &str, lines: impl Into<reqwest::Body>) -> (StatusCode, Value) {
        let request = self.client.request(Method::POST, &self.path(&format!("import{query}")));
        let request = request.header("content-type", "application/x-ndjson").body(lines);
        answer(request.send().await.unwrap()).await
    }

    pub async fn export(&self) -> String {
        let response = self
            .client
            .request(Method::GET, &self.path("export"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        response.text().await.unwrap()
    }
}

pub fn id(body: &Value) -> String {
    body["id"].as_str().expect("an id").to_owned()
}
