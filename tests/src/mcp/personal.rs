//! An MCP server that acts for each user by itself, and its authorization server: two addresses of this machine, real HTTP.
//! Both are as strict as the specifications allow: PKCE, resource indicators, redirect URLs, codes that count once, and
//! refresh tokens that rotate. A used refresh token ends all tokens of its grant.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::{Url, form_urlencoded};
use uuid::Uuid;

/// The scope that every tool needs, and the one that `pay` needs besides.
pub const READ: &str = "tasks:read";
pub const PAY: &str = "tasks:pay";
/// The scope that asks for a refresh token.
const OFFLINE: &str = "offline_access";

/// Both servers; stopped when dropped.
pub struct Personal {
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
    /// Who is signed in at the authorization server.
    pub account: String,
    /// The declared lifetime of tokens, in seconds.
    pub expires_in_s: u64,
    /// Scopes that users do not grant.
    pub withheld: HashSet<String>,
    /// The registered clients: the redirect URL of each.
    pub clients: HashMap<String, String>,
    codes: HashMap<String, Code>,
    grants: HashMap<Uuid, Grant>,
    /// Access tokens, with their grants.
    tokens: HashMap<String, Uuid>,
    /// Refresh tokens, with their grants; a used one is false.
    refresh: HashMap<String, (Uuid, bool)>,
    /// Number of tokens that were issued for refresh tokens.
    pub renewed: usize,
    /// Why requests to the authorization server were refused.
    pub refused: Vec<String>,
    /// Tokens that were revoked by the client.
    pub revoked: usize,
    /// Scopes of each authorization request.
    pub asked: Vec<String>,
}

struct Code {
    client: String,
    redirect_uri: String,
    challenge: String,
    grant: Grant,
}

#[derive(Clone)]
struct Grant {
    account: String,
    client: String,
    scopes: Vec<String>,
}

impl Personal {
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
                account: "anna".to_owned(),
                expires_in_s: 3_600,
                withheld: HashSet::new(),
                clients: HashMap::new(),
                codes: HashMap::new(),
                grants: HashMap::new(),
                tokens: HashMap::new(),
                refresh: HashMap::new(),
                renewed: 0,
                refused: Vec::new(),
                revoked: 0,
                asked: Vec::new(),
            }),
        });
        let mcp_routes = Router::new()
            .route("/mcp", post(speak).get(no_stream).delete(no_stream))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .with_state(shared.clone());
        let login_routes = Router::new()
            .route("/.well-known/oauth-authorization-server", get(issuer_metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(give))
            .route("/revoke", post(revoke))
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

    /// Returns the locked state; hold it briefly.
    pub fn state(&self) -> MutexGuard<'_, Inner> {
        self.shared.state()
    }

    /// Agrees at the authorization server, as the user who is signed in there, and returns the parameters with which the
    /// browser is sent back.
    pub async fn agree(&self, url: &str) -> Value {
        let browser = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        let sent_back = browser.get(url).send().await.expect("an answer");
        assert_eq!(
            sent_back.status(),
            StatusCode::SEE_OTHER,
            "{:?}",
            self.state().refused.last()
        );
        let location = sent_back.headers()[header::LOCATION].to_str().expect("a URL");
        let location = Url::parse(location).expect("a URL");
        assert_eq!(location.path(), "/mcp/connect");
        location
            .query_pairs()
            .into_owned()
            .map(|(name, value)| (name, Value::from(value)))
            .collect()
    }
}

impl Drop for Personal {
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

    fn mcp(&self) -> String {
        format!("{}/mcp", self.resource)
    }

    /// Refuses a request to the authorization server.
    fn refuse(&self, error: &str, why: &str) -> Response {
        self.state().refused.push(why.to_owned());
        (
            StatusCode::BAD_REQUEST,
            Json(json!({"error": error, "error_description": why})),
        )
            .into_response()
    }
}

impl Inner {
    /// Issues tokens of a grant.
    fn issue(&mut self, id: Uuid) -> Response {
        let grant = self.grants[&id].clone();
        let token = format!("access-{}", Uuid::now_v7().simple());
        let refresh = format!("refresh-{}", Uuid::now_v7().simple());
        self.tokens.insert(token.clone(), id);
        let mut answer = json!({
            "access_token": token, "token_type": "Bearer", "expires_in": self.expires_in_s, "scope": grant.scopes.join(" "),
        });
        if grant.scopes.iter().any(|scope| scope == OFFLINE) {
            self.refresh.insert(refresh.clone(), (id, true));
            answer["refresh_token"] = refresh.into();
        }
        Json(answer).into_response()
    }

    /// Ends a grant with all its tokens.
    fn end(&mut self, id: Uuid) {
        self.grants.remove(&id);
        self.tokens.retain(|_, grant| *grant != id);
    }
}

type There = State<Arc<Shared>>;

async fn resource_metadata(State(shared): There) -> Json<Value> {
    Json(json!({
        "resource": shared.mcp(), "authorization_servers": [shared.issuer], "scopes_supported": [READ, PAY],
    }))
}

async fn issuer_metadata(State(shared): There) -> Json<Value> {
    let issuer = &shared.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "scopes_supported": [READ, PAY, OFFLINE],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

/// The registration endpoint (RFC 7591).
async fn register(State(shared): There, Json(asked): Json<Value>) -> Response {
    let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
    let is_right = asked["token_endpoint_auth_method"] == "none"
        && asked["grant_types"] == json!(["authorization_code", "refresh_token"])
        && asked["response_types"] == json!(["code"])
        && asked["application_type"] == "native"
        && Url::parse(&redirect).is_ok();
    if !is_right {
        return shared.refuse("invalid_client_metadata", &format!("a registration of {asked}"));
    }
    let id = Uuid::now_v7().to_string();
    shared.state().clients.insert(id.clone(), redirect);
    let mut answer = asked;
    answer["client_id"] = id.into();
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// The authorization endpoint: the user who is signed in agrees at once.
async fn authorize(State(shared): There, Query(asked): Query<HashMap<String, String>>) -> Response {
    let field = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let redirect = shared.state().clients.get(field("client_id")).cloned();
    if redirect.as_deref() != Some(field("redirect_uri")) {
        return shared.refuse("invalid_request", "another redirect URL than the registered one");
    }
    let mcp = shared.mcp();
    for (name, expected) in [
        ("response_type", "code"),
        ("code_challenge_method", "S256"),
        ("resource", mcp.as_str()),
    ] {
        if field(name) != expected {
            return shared.refuse("invalid_request", &format!("{name} is {}", field(name)));
        }
    }
    if field("code_challenge").len() != 43 || field("state").len() < 22 {
        return shared.refuse("invalid_request", "a challenge or a state that is too short");
    }
    let scopes: Vec<String> = field("scope").split(' ').map(str::to_owned).collect();
    let known = [READ, PAY, OFFLINE];
    if !scopes.iter().all(|scope| known.contains(&scope.as_str())) {
        return shared.refuse("invalid_scope", field("scope"));
    }
    let mut state = shared.state();
    state.asked.push(field("scope").to_owned());
    let grant = Grant {
        account: state.account.clone(),
        client: field("client_id").to_owned(),
        scopes: scopes
            .into_iter()
            .filter(|scope| !state.withheld.contains(scope))
            .collect(),
    };
    let code = format!("code-{}", Uuid::now_v7().simple());
    state.codes.insert(
        code.clone(),
        Code {
            client: grant.client.clone(),
            redirect_uri: field("redirect_uri").to_owned(),
            challenge: field("code_challenge").to_owned(),
            grant,
        },
    );
    drop(state);
    let mut back = Url::parse(field("redirect_uri")).expect("it was registered");
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", field("state"))
        .append_pair("iss", &shared.issuer);
    (StatusCode::SEE_OTHER, [(header::LOCATION, back.to_string())]).into_response()
}

fn form(body: &Bytes) -> HashMap<String, String> {
    form_urlencoded::parse(body).into_owned().collect()
}

/// The token endpoint.
async fn give(State(shared): There, headers: HeaderMap, body: Bytes) -> Response {
    let asked = form(&body);
    let field = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    if headers.contains_key(header::AUTHORIZATION) || asked.contains_key("client_secret") {
        return shared.refuse("invalid_client", "a public client has no secret");
    }
    if field("resource") != shared.mcp() {
        return shared.refuse("invalid_target", "another resource");
    }
    match field("grant_type") {
        "authorization_code" => {
            let Some(code) = shared.state().codes.remove(field("code")) else {
                return shared.refuse("invalid_grant", "an unknown or used code");
            };
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier").as_bytes()));
            if code.challenge != challenge {
                return shared.refuse("invalid_grant", "a verifier that does not fit the challenge");
            }
            if code.redirect_uri != field("redirect_uri") || code.client != field("client_id") {
                return shared.refuse("invalid_grant", "another client or redirect URL");
            }
            let mut state = shared.state();
            let id = Uuid::now_v7();
            state.grants.insert(id, code.grant);
            state.issue(id)
        }
        "refresh_token" => {
            let found = shared.state().refresh.get(field("refresh_token")).copied();
            let Some((id, is_unused)) = found else {
                return shared.refuse("invalid_grant", "an unknown refresh token");
            };
            if !is_unused {
                shared.state().end(id);
                return shared.refuse("invalid_grant", "a used refresh token");
            }
            let client = shared.state().grants.get(&id).map(|grant| grant.client.clone());
            if client.as_deref() != Some(field("client_id")) {
                return shared.refuse(
                    "invalid_grant",
                    "a refresh token of an ended grant, or of another client",
                );
            }
            let mut state = shared.state();
            state.refresh.insert(field("refresh_token").to_owned(), (id, false));
            state.renewed += 1;
            state.issue(id)
        }
        other => shared.refuse("unsupported_grant_type", other),
    }
}

/// The revocation endpoint (RFC 7009).
async fn revoke(State(shared): There, body: Bytes) -> StatusCode {
    let asked = form(&body);
    let token = asked.get("token").map(String::as_str).unwrap_or_default();
    let mut state = shared.state();
    let refresh = state.refresh.get(token).map(|(id, _)| *id);
    if let Some(id) = refresh.or(state.tokens.get(token).copied()) {
        state.end(id);
        state.revoked += 1;
    }
    StatusCode::OK
}

async fn no_stream() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

/// The MCP server: a tool that returns whose account it acts with, and one that needs more rights.
async fn speak(State(shared): There, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(|sent| sent.strip_prefix("Bearer ")).unwrap_or_default();
    let grant = {
        let state = shared.state();
        state.tokens.get(token).and_then(|id| state.grants.get(id)).cloned()
    };
    let Some(grant) = grant else {
        let challenge = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\", scope=\"{READ}\"",
            shared.resource
        );
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    };
    let needs = |scope: &str| {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
    };
    let has = |scope: &str| grant.scopes.iter().any(|own| own == scope);
    if !has(READ) {
        return needs(READ);
    }
    let tool = |name: &str| json!({"name": name, "description": "Acts with your account.", "inputSchema": {"type": "object", "properties": {}}});
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "personal", "version": "1.0.0"},
        }),
        "tools/list" => json!({"tools": [tool("whoami"), tool("pay")]}),
        "tools/call" if message["params"]["name"] == "pay" && !has(PAY) => return needs(PAY),
        "tools/call" => {
            let verb = if message["params"]["name"] == "pay" {
                "paid by"
            } else {
                "you are"
            };
            json!({"content": [{"type": "text", "text": format!("{verb} {}", grant.account)}]})
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}
