//! A fake of Google's Calendar API (version 3) and its OAuth, for the parts that Rejoin uses: as strict as Google, and
//! able to fail. Tests can't use Google itself.
//!
//! - `account`  one user's calendars, changed over the API or by the user
//! - `linked`   a calendar of Rejoin linked with one at the fake

pub mod account;
pub mod linked;
mod occurrences;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{AUTHORIZATION, IF_MATCH};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rejoin_calendar::google::GoogleArgs;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

use account::{Account, Refusal};

pub const CLIENT_ID: &str = "stand-in";
pub const CLIENT_SECRET: &str = "not-a-secret";

/// The handling of a request.
pub enum Fate {
    /// Normally.
    Done,
    /// Responds with this, without effect.
    Instead(Response),
    /// Takes effect, and responds with this.
    DoneBut(Response),
    /// Takes effect, without a response.
    DoneInSilence,
}

/// A request, as judged by a test.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    /// Without the API's prefix.
    pub path: String,
    pub query: HashMap<String, String>,
}

type Judge = Box<dyn FnMut(&Asked) -> Fate + Send>;

/// The authorization state.
#[derive(Default)]
struct Doors {
    /// One-time codes, with their requests.
    codes: HashMap<String, HashMap<String, String>>,
    refresh_tokens: BTreeSet<String>,
    access_tokens: BTreeSet<String>,
    issued: u32,
    /// The user deselects some scopes.
    grants: Option<String>,
}

#[derive(Clone)]
pub struct Google {
    pub url: String,
    account: Arc<Mutex<Account>>,
    doors: Arc<Mutex<Doors>>,
    judge: Arc<Mutex<Judge>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Google {
    /// Serves on its own port until the runtime ends.
    pub async fn start() -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 2], 0))).await
    }

    pub async fn listen(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let google = Self {
            url: format!("http://{}", listener.local_addr().expect("an address")),
            account: Arc::default(),
            doors: Arc::default(),
            judge: Arc::new(Mutex::new(Box::new(|_| Fate::Done))),
            asked: Arc::default(),
        };
        let app = Router::new()
            .route("/o/oauth2/v2/auth", get(consent))
            .route("/token", post(token))
            .route("/calendar/v3/users/me/calendarList", get(calendar_list))
            .route("/calendar/v3/calendars/{calendar}/events", get(list).post(insert))
            .route(
                "/calendar/v3/calendars/{calendar}/events/{event}",
                get(show).patch(change).delete(remove),
            )
            .route(
                "/calendar/v3/calendars/{calendar}/events/{event}/instances",
                get(instances),
            )
            .layer(axum::middleware::from_fn_with_state(google.clone(), meddle))
            .with_state(google.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        google
    }

    /// Returns Rejoin's settings for it.
    pub fn args(&self) -> GoogleArgs {
        let url = |path: &str| Url::parse(&format!("{}{path}", self.url)).expect("a URL");
        GoogleArgs {
            google_client_id: Some(CLIENT_ID.to_owned()),
            google_client_secret: Some(CLIENT_SECRET.to_owned()),
            google_auth_url: url("/o/oauth2/v2/auth"),
            google_token_url: url("/token"),
            google_api_url: url("/calendar/v3"),
            google_sync_s: 1,
            google_timeout_ms: 5_000,
            ..GoogleArgs::default()
        }
    }

    /// Returns the user's calendars.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("no panic")
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().expect("no panic")
    }

    /// Sets the judge of all further requests.
    pub fn meddle(&self, judge: impl FnMut(&Asked) -> Fate + Send + 'static) {
        *self.judge.lock().expect("no panic") = Box::new(judge);
    }

    pub fn behave(&self) {
        self.meddle(|_| Fate::Done);
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// The user revokes the grant.
    pub fn revoke(&self) {
        let mut doors = self.doors();
        doors.refresh_tokens.clear();
        doors.access_tokens.clear();
    }

    /// The user grants only this scope from now on.
    pub fn grant_only(&self, scope: &str) {
        self.doors().grants = Some(scope.to_owned());
    }

    /// Returns all issued tokens.
    pub fn tokens(&self) -> Vec<String> {
        let doors = self.doors();
        doors
            .refresh_tokens
            .iter()
            .chain(&doors.access_tokens)
            .cloned()
            .collect()
    }
}

/// Returns an error in Google's format.
pub fn error(status: u16, reason: &str, message: &str) -> Response {
    let body = json!({"error": {"code": status, "message": message, "errors": [{"domain": "calendar", "reason": reason, "message": message}]}});
    let status = StatusCode::from_u16(status).expect("a status");
    (status, axum::Json(body)).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        error(self.status, self.reason, &self.message)
    }
}

async fn meddle(State(google): State<Google>, request: Request, next: axum::middleware::Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let path = request.uri().path();
    let asked = Asked {
        method: request.method().clone(),
        path: path.strip_prefix("/calendar/v3").unwrap_or(path).to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
    };
    google.asked.lock().expect("no panic").push(asked.clone());
    let fate = (google.judge.lock().expect("no panic"))(&asked);
    if asked.path.starts_with("/calendars/") || asked.path.starts_with("/users/") {
        let bearer = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let token = bearer
            .and_then(|bearer| bearer.strip_prefix("Bearer "))
            .unwrap_or_default();
        if !google.doors().access_tokens.contains(token) {
            return error(401, "authError", "Invalid Credentials");
        }
    }
    match fate {
        Fate::Done => next.run(request).await,
        Fate::Instead(response) => response,
        Fate::DoneBut(response) => {
            next.run(request).await;
            response
        }
        Fate::DoneInSilence => {
            next.run(request).await;
            std::future::pending().await
        }
    }
}

/// The consent page, on which the user grants access immediately.
async fn consent(State(google): State<Google>, Query(query): Query<HashMap<String, String>>) -> Response {
    let is = |name: &str, value: &str| query.get(name).is_some_and(|given| given == value);
    let sound = is("client_id", CLIENT_ID)
        && is("response_type", "code")
        && is("access_type", "offline")
        && is("code_challenge_method", "S256")
        && query
            .get("code_challenge")
            .is_some_and(|challenge| challenge.len() == 43);
    let Some(mut back) = query
        .get("redirect_uri")
        .and_then(|url| Url::parse(url).ok())
        .filter(|_| sound)
    else {
        return (StatusCode::BAD_REQUEST, "Error 400: invalid_request").into_response();
    };
    let mut doors = google.doors();
    doors.issued += 1;
    let code = format!("4/code-{}", doors.issued);
    back.query_pairs_mut()
        .append_pair("state", query.get("state").map_or("", String::as_str))
        .append_pair("code", &code);
    doors.codes.insert(code, query);
    Redirect::to(back.as_str()).into_response()
}

async fn token(State(google): State<Google>, body: Bytes) -> Response {
    let form: HashMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let refuse = |code: &str| (StatusCode::BAD_REQUEST, axum::Json(json!({"error": code}))).into_response();
    let given = |name: &str| form.get(name).map_or("", String::as_str);
    if given("client_id") != CLIENT_ID || given("client_secret") != CLIENT_SECRET {
        return refuse("invalid_client");
    }
    let mut doors = google.doors();
    doors.issued += 1;
    let access = format!("ya29.access-{}", doors.issued);
    let mut answer = json!({"access_token": access, "expires_in": 3599, "token_type": "Bearer"});
    match given("grant_type") {
        "authorization_code" => {
            let Some(asked) = doors.codes.remove(given("code")) else {
                return refuse("invalid_grant");
            };
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, given("code_verifier").as_bytes());
            let challenge = URL_SAFE_NO_PAD.encode(digest);
            if asked["code_challenge"] != challenge || asked["redirect_uri"] != given("redirect_uri") {
                return refuse("invalid_grant");
            }
            let refresh = format!("1//refresh-{}", doors.issued);
            let scope = doors.grants.clone().unwrap_or_else(|| asked["scope"].clone());
            answer["refresh_token"] = json!(refresh);
            answer["scope"] = json!(scope);
            doors.refresh_tokens.insert(refresh);
        }
        "refresh_token" if doors.refresh_tokens.contains(given("refresh_token")) => {}
        "refresh_token" => return refuse("invalid_grant"),
        _ => return refuse("unsupported_grant_type"),
    }
    doors.access_tokens.insert(access);
    axum::Json(answer).into_response()
}

async fn calendar_list(State(google): State<Google>) -> Response {
    axum::Json(google.account().list()).into_response()
}

fn answered(outcome: Result<Value, Refusal>) -> Response {
    match outcome {
        Ok(value) => axum::Json(value).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn list(
    State(google): State<Google>,
    Path(calendar): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    answered(google.account().page(&calendar, &query))
}

async fn insert(State(google): State<Google>, Path(calendar): Path<String>, body: axum::Json<Value>) -> Response {
    answered(google.account().insert(&calendar, body.0))
}

async fn show(State(google): State<Google>, Path((calendar, event)): Path<(String, String)>) -> Response {
    answered(google.account().get(&calendar, &event))
}

fn etag(headers: &HeaderMap) -> Option<&str> {
    headers.get(IF_MATCH).and_then(|value| value.to_str().ok())
}

async fn change(
    State(google): State<Google>,
    Path((calendar, event)): Path<(String, String)>,
    headers: HeaderMap,
    body: axum::Json<Value>,
) -> Response {
    answered(google.account().patch(&calendar, &event, etag(&headers), &body.0))
}

async fn remove(
    State(google): State<Google>,
    Path((calendar, event)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    match google.account().delete(&calendar, &event, etag(&headers)) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn instances(
    State(google): State<Google>,
    Path((calendar, event)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let original = query.get("originalStart").map_or("", String::as_str);
    answered(google.account().occurrence(&calendar, &event, original))
}
