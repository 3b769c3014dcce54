//! An MCP server that requires bearer tokens, and its authorization server: two addresses of this machine, real HTTP.
//! They are as strict as the standards allow, and leak on purpose: errors and results repeat what they were sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::form_urlencoded;
use uuid::Uuid;

/// The known client id.
pub const CLIENT_ID: &str = "rejoin tests";
/// Contains characters that a form must encode.
pub const CLIENT_SECRET: &str = "canary 5f+c2%e:9a";
/// The scope required by the MCP server.
pub const SCOPE: &str = "mcp:tools";

/// Both servers; stopped when dropped.
pub struct Guarded {
    /// The MCP server's URL.
    pub url: String,
    shared: Arc<Shared>,
    servers: [JoinHandle<()>; 2],
}

struct Shared {
    /// The MCP server's URL without a path.
    resource: String,
    issuer: String,
    state: Mutex<Inner>,
}

/// State that a test may change, and records.
pub struct Inner {
    /// The declared lifetime of tokens, in seconds.
    pub expires_in_s: Option<u64>,
    /// Rejects every token.
    pub accepts_none: bool,
    /// 401 responses don't mention the authorization server.
    pub is_silent: bool,
    /// The token endpoint in the metadata, if not the real one.
    pub token_endpoint: Option<String>,
    /// The token endpoint has moved here.
    pub moved_to: Option<String>,
    /// Valid tokens.
    good: Vec<String>,
    /// All issued tokens.
    pub issued: Vec<String>,
    /// Requests to the token endpoint: the forms.
    pub asked: Vec<Vec<(String, String)>>,
    /// Number of 401 responses of the MCP server.
    pub refused: usize,
}

impl Guarded {
    /// Starts both.
    pub async fn start() -> Self {
        let at = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its number");
            (listener, format!("http://{address}"))
        };
        let ((mcp, resource), (login, issuer)) = (at().await, at().await);
        let shared = Arc::new(Shared {
            resource,
            issuer,
            state: Mutex::new(Inner {
                expires_in_s: Some(3_600),
                accepts_none: false,
                is_silent: false,
                token_endpoint: None,
                moved_to: None,
                good: Vec::new(),
                issued: Vec::new(),
                asked: Vec::new(),
                refused: 0,
            }),
        });
        let mcp_routes = Router::new()
            .route("/mcp", post(speak).get(no_stream).delete(no_stream))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .with_state(shared.clone());
        let login_routes = Router::new()
            .route("/.well-known/oauth-authorization-server", get(issuer_metadata))
            .route("/token", post(give))
            .with_state(shared.clone());
        let serve = |listener, routes: Router| {
            tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") })
        };
        Self {
            url: format!("{}/mcp", shared.resource),
            servers: [serve(mcp, mcp_routes), serve(login, login_routes)],
            shared,
        }
    }

    /// Returns the token endpoint.
    pub fn token_url(&self) -> String {
        format!("{}/token", self.shared.issuer)
    }

    /// Returns the locked state; hold it briefly.
    pub fn state(&self) -> MutexGuard<'_, Inner> {
        self.shared.state()
    }

    /// Returns the number of issued tokens, and of 401 responses of the MCP server.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.issued.len(), state.refused)
    }

    /// Invalidates all tokens issued so far.
    pub fn revoke(&self) {
        self.state().good.clear();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        for server in &self.servers {
            server.abort();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type There = State<Arc<Shared>>;

async fn resource_metadata(State(shared): There) -> Json<Value> {
    Json(json!({
        "resource": format!("{}/mcp", shared.resource),
        "authorization_servers": [shared.issuer],
        "scopes_supported": [SCOPE],
    }))
}

async fn issuer_metadata(State(shared): There) -> Json<Value> {
    let endpoint = shared.state().token_endpoint.clone();
    Json(json!({
        "issuer": shared.issuer,
        "token_endpoint": endpoint.unwrap_or_else(|| format!("{}/token", shared.issuer)),
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

/// The token endpoint.
async fn give(State(shared): There, headers: HeaderMap, body: Bytes) -> Response {
    let form: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| {
        form.iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.clone())
    };
    let mut state = shared.state();
    state.asked.push(form.clone());
    if let Some(there) = &state.moved_to {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, there.clone())]).into_response();
    }
    let refused = |status: StatusCode, error: &str, description: String| {
        (status, Json(json!({"error": error, "error_description": description}))).into_response()
    };
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.unwrap_or_default().to_owned();
    if who(&sent) != Some((CLIENT_ID.to_owned(), CLIENT_SECRET.to_owned())) {
        let description = format!("who is {sent}, and what is {:?}?", who(&sent));
        return refused(StatusCode::UNAUTHORIZED, "invalid_client", description);
    }
    if field("grant_type").as_deref() != Some("client_credentials") {
        return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type", String::new());
    }
    if field("resource") != Some(format!("{}/mcp", shared.resource)) {
        return refused(StatusCode::BAD_REQUEST, "invalid_target", String::new());
    }
    let scope = field("scope").unwrap_or_default();
    let token = format!("token-{}-{}", scope.replace(':', "."), Uuid::now_v7().simple());
    state.good.push(token.clone());
    state.issued.push(token.clone());
    Json(json!({
        "access_token": token, "token_type": "Bearer", "expires_in": state.expires_in_s, "scope": scope,
    }))
    .into_response()
}

/// Parses id and secret of a header.
fn who(authorization: &str) -> Option<(String, String)> {
    let decoded = STANDARD.decode(authorization.strip_prefix("Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (id, secret) = text.split_once(':')?;
    let plain = |part: &str| {
        // A form of one field without a value.
        let mut form = form_urlencoded::parse(part.as_bytes());
        form.next().map(|(name, _)| name.into_owned())
    };
    Some((plain(id)?, plain(secret)?))
}

async fn no_stream() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

/// The MCP server: one tool, which returns its caller.
async fn speak(State(shared): There, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(|sent| sent.strip_prefix("Bearer ")).map(str::to_owned);
    {
        let mut state = shared.state();
        let is_good = token.as_ref().is_some_and(|token| state.good.contains(token));
        if !is_good || state.accepts_none {
            state.refused += 1;
            let mut challenge = format!(
                "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\", scope=\"{SCOPE}\"",
                shared.resource
            );
            if let Some(token) = &token {
                challenge += &format!(", error=\"invalid_token\", error_description=\"{token} is not good\"");
            }
            return if state.is_silent {
                StatusCode::UNAUTHORIZED.into_response()
            } else {
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
            };
        }
    }
    if !token.is_some_and(|token| token.starts_with("token-mcp.tools-")) {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{SCOPE}\"");
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1.0.0"},
            "instructions": format!("You sent {}.", sent.unwrap_or_default()),
        }),
        "tools/list" => json!({"tools": [{
            "name": "whoami", "description": "Tells who calls.", "inputSchema": {"type": "object", "properties": {}},
        }]}),
        "tools/call" => {
            json!({"content": [{"type": "text", "text": format!("you sent {}", sent.unwrap_or_default())}]})
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}
