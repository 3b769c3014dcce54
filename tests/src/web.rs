//! Fake sites and search providers, and a project whose agents may use them.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rejoin_graph::embedder::NoEmbedder;
use rejoin_integrations::web_settings::{self, Provider, WebSettings};
use rejoin_secrets::MasterKeys;
use rejoin_tools::{ToolContext, ToolError, arguments};
use rejoin_types::ids;
use rejoin_web_search::tools::for_settings;
use rejoin_web_search::web::{Web, WebArgs};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::mcp::SECRET_KEYS;
use crate::support::{self, TestDatabase};

/// The address of fake sites: test workers may visit it, and nothing else on this machine.
pub const PLACE: &str = "127.0.0.2";

/// A request to a site: method and path with query, headers, body.
pub type Asked = (String, HeaderMap, Bytes);

/// A site with scripted responses.
pub struct Site {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Site {
    /// Serves on its own port until the test ends.
    pub async fn start(answer: impl Fn(&str, &HeaderMap) -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((PLACE, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let told = asked.clone();
        let app = axum::Router::new().fallback(move |request: Request| async move {
            let what = format!("{} {}", request.method(), request.uri());
            let headers = request.headers().clone();
            let body = axum::body::to_bytes(request.into_body(), 1 << 20)
                .await
                .expect("a body");
            let response = answer(&what, &headers);
            told.lock().expect("no panic").push((what, headers, body));
            response
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|(what, _, _)| what).collect()
    }
}

pub fn html(text: impl Into<String>) -> Response {
    ([("content-type", "text/html; charset=utf-8")], text.into()).into_response()
}

pub fn to(place: impl Into<String>) -> Response {
    (StatusCode::FOUND, [("location", place.into())]).into_response()
}

pub fn typed(kind: &str, body: impl Into<Body>) -> Response {
    Response::builder()
        .header("content-type", kind)
        .body(body.into())
        .expect("a response")
}

/// A project with web access for its agents, and their tools.
pub struct Project {
    pub db: TestDatabase,
    web: Web,
}

impl Project {
    pub async fn with(settings: WebSettings) -> Self {
        let db = support::database().await;
        web_settings::set(&db.pool, db.workspace_id, &settings)
            .await
            .expect("settings");
        let keys = MasterKeys::parse(SECRET_KEYS).expect("keys");
        support::set_secret(&db, &keys, "SEARCH_KEY", "the key").await;
        let args = WebArgs {
            web_hosts: vec![PLACE.to_owned()],
            web_timeout_ms: 1_000,
        };
        let web = Web::new(&args, Some(Arc::new(keys)));
        Self { db, web }
    }

    pub async fn visiting() -> Self {
        Self::with(WebSettings {
            visit: true,
            ..WebSettings::default()
        })
        .await
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let all = WebSettings {
            visit: true,
            provider: Some(Provider::Tavily),
            ..WebSettings::default()
        };
        let tools = for_settings(&self.web, &all);
        let tool = tools.iter().find(|tool| tool.spec().name == name).expect("the tool");
        let context = ToolContext {
            db: self.db.pool.clone(),
            workspace_id: self.db.workspace_id,
            model: Arc::new(NoEmbedder),
            run_id: None,
            user_id: Some(self.db.user_id),
            call_id: "call".to_owned(),
            record_id: ids::new(),
            cancel: CancellationToken::new(),
            focus: None,
            bounds: None,
        };
        let arguments = arguments::admit(tool.spec(), &arguments)?;
        tool.call(&context, arguments).await.map_err(|error| match error {
            ToolError::RespondToModel(words) => words,
            ToolError::Internal { attempted, source } => panic!("{attempted}: {source}"),
            asks @ ToolError::NeedsInput(_) => panic!("{asks}"),
        })
    }

    pub async fn visit(&self, url: &str) -> Result<Value, String> {
        self.call("web_visit", json!({"url": url})).await
    }
}
