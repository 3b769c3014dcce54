//! A fake of the parts of BigQuery's API and of Google's service account tokens that Rejoin uses, as strict as Google's
//! documentation. Tests can't use Google itself.
//!
//! - Tokens: <https://developers.google.com/identity/protocols/oauth2/service-account#httprest> ("Preparing to make an
//!   authorized API call"):   the header is `{"alg":"RS256","typ":"JWT"}` and may have `kid`; the claims are `iss`,
//!   `scope`, `aud` ("When making an access token request   this value is always https://oauth2.googleapis.com/token"),
//!   `exp` ("maximum of 1 hour after the issued time") and `iat`; the request is a   form with `grant_type`
//!   `urn:ietf:params:oauth:grant-type:jwt-bearer` and `assertion`.
//! - Jobs: <https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs>: `location` is required for a job that is
//!   neither in the US nor the   EU (`getQueryResults`, `cancel`); a dry run creates no job.
//! - Lists and results come in pages: `pageToken` of one response is sent by the next request.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use axum::extract::{Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub const PROJECT: &str = "acme";
/// The location of its data: neither in the US nor the EU.
pub const LOCATION: &str = "europe-west1";
/// Rows of `shop.orders`.
pub const ORDERS: usize = 2_500;
const EMAIL: &str = "reader@acme.iam.gserviceaccount.com";
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Number of datasets and rows per page, whatever was requested.
const PAGE: usize = 1_000;

/// Stopped when it is dropped.
pub struct BigQuery {
    pub url: String,
    key: KeyPair,
    inner: Arc<Mutex<Inner>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Inner {
    public_key: Vec<u8>,
    tokens: HashSet<String>,
    /// Claims of the accepted assertions.
    claims: Vec<Value>,
    /// Running jobs, with their queries.
    jobs: HashMap<String, String>,
    cancelled: Vec<String>,
    /// Number of result requests of one job.
    pages: usize,
    /// The reasons of rejected requests.
    refused: Vec<String>,
}

type Shared = State<Arc<Mutex<Inner>>>;
type Parameters = Query<HashMap<String, String>>;

impl BigQuery {
    pub async fn start() -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let inner = Arc::new(Mutex::new(Inner {
            public_key: key.public_key().as_ref().to_vec(),
            ..Inner::default()
        }));
        let api = Router::new()
            .route("/datasets", get(datasets))
            .route("/datasets/{dataset}/tables", get(tables))
            .route("/datasets/{dataset}/tables/{table}", get(table))
            .route("/jobs", post(insert))
            .route("/jobs/{job}/cancel", post(cancel))
            .route("/queries/{job}", get(results));
        let router = Router::new()
            .route("/token", post(token))
            .nest(&format!("/bigquery/v2/projects/{PROJECT}"), api)
            .with_state(inner.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let server = tokio::spawn(async move {
            // Serving ends with the abort of this task.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            url,
            key,
            inner,
            server,
        }
    }

    pub fn token_url(&self) -> String {
        format!("{}/token", self.url)
    }

    /// Returns the credentials file of a known service account.
    pub fn account(&self) -> String {
        self.account_of(&self.key)
    }

    /// Returns the credentials file of an unknown key.
    pub fn foreign_account(&self) -> String {
        self.account_of(&KeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    fn account_of(&self, key: &KeyPair) -> String {
        let der = AsDer::<Pkcs8V1Der>::as_der(key).expect("a key in DER");
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der.as_ref())
        );
        // The token URI in a project's key file must be ignored.
        json!({"type": "service_account", "client_email": EMAIL, "private_key": pem, "token_uri": "http://127.0.0.1:1/thief"}).to_string()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while it is held")
    }

    pub fn claims(&self) -> Vec<Value> {
        self.lock().claims.clone()
    }

    pub fn running(&self) -> usize {
        self.lock().jobs.len()
    }

    pub fn cancelled(&self) -> usize {
        self.lock().cancelled.len()
    }

    pub fn pages(&self) -> usize {
        self.lock().pages
    }

    pub fn refused(&self) -> Vec<String> {
        self.lock().refused.clone()
    }
}

impl Drop for BigQuery {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().expect("nobody panics while it is held")
}

fn refuse(inner: &Mutex<Inner>, status: StatusCode, said: &str) -> Response {
    lock(inner).refused.push(said.to_owned());
    (
        status,
        Json(json!({"error": {"code": status.as_u16(), "message": said}})),
    )
        .into_response()
}

/// Issues a token for a valid assertion.
async fn token(State(inner): Shared, Form(form): Form<HashMap<String, String>>) -> Response {
    let reply = match form.get("grant_type").map(String::as_str) {
        Some(GRANT) => assertion(
            &lock(&inner).public_key,
            form.get("assertion").map_or("", String::as_str),
        ),
        _ => Err("unsupported_grant_type"),
    };
    match reply {
        Ok(claims) => {
            let mut inner = lock(&inner);
            inner.claims.push(claims);
            let token = format!("token-{}", inner.claims.len());
            inner.tokens.insert(token.clone());
            Json(json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"})).into_response()
        }
        Err(fault) => {
            lock(&inner).refused.push(fault.to_owned());
            let body = json!({"error": "invalid_grant", "error_description": fault});
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

/// Returns the claims of an assertion. Err: why Google rejects it.
fn assertion(public_key: &[u8], text: &str) -> Result<Value, &'static str> {
    let parts: Vec<&str> = text.split('.').collect();
    let [head, claims, signature] = parts.as_slice() else {
        return Err("it is no JWT");
    };
    let document = |part: &str| -> Option<Value> { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok() };
    let header = document(head).ok_or("its header is no JSON")?;
    if (&header["alg"], &header["typ"]) != (&json!("RS256"), &json!("JWT")) {
        return Err("its header is not that of a JWT by RS256");
    }
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| "its signature is no base64url")?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key)
        .verify(format!("{head}.{claims}").as_bytes(), &signature)
        .map_err(|_| "Invalid JWT Signature.")?;
    let claims = document(claims).ok_or("its claims are no JSON")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let (issued, expires) = (claims["iat"].as_u64().unwrap_or(0), claims["exp"].as_u64().unwrap_or(0));
    match () {
        () if claims["iss"] != EMAIL => Err("Invalid grant: account not found"),
        () if claims["aud"] != AUDIENCE => Err("Invalid JWT: Failed audience check."),
        () if claims["scope"] != SCOPE => Err("Invalid OAuth scope or ID token audience provided."),
        () if issued.abs_diff(now) > 60 || expires <= now || expires > issued + 3_600 => {
            Err("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        }
        () => Ok(claims),
    }
}

/// Err: the response to a request without a valid token.
fn signed_in(inner: &Mutex<Inner>, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if token.is_some_and(|token| lock(inner).tokens.contains(token)) {
        Ok(())
    } else {
        Err(Box::new(refuse(
            inner,
            StatusCode::UNAUTHORIZED,
            "Request had invalid authentication credentials.",
        )))
    }
}

/// Returns the requested page of a list, and the token of the next.
fn page<T: Clone>(all: &[T], parameters: &HashMap<String, String>) -> (Vec<T>, Option<String>) {
    let begin: usize = parameters
        .get("pageToken")
        .and_then(|token| token.parse().ok())
        .unwrap_or(0);
    let most = parameters
        .get("maxResults")
        .and_then(|most| most.parse().ok())
        .unwrap_or(PAGE)
        .min(PAGE);
    let end = (begin + most).min(all.len());
    (all[begin..end].to_vec(), (end < all.len()).then(|| end.to_string()))
}

async fn datasets(State(inner): Shared, headers: HeaderMap, Query(parameters): Parameters) -> Response {
    if let Err(refused) = signed_in(&inner, &headers) {
        return *refused;
    }
    let name = |n: usize| if n == 0 { "shop".to_owned() } else { format!("d{n:04}") };
    let all: Vec<Value> = (0..PAGE + 5)
        .map(|n| json!({"datasetReference": {"projectId": PROJECT, "datasetId": name(n)}, "location": LOCATION}))
        .collect();
    let (items, next) = page(&all, &parameters);
    Json(json!({"datasets": items, "nextPageToken": next})).into_response()
}

async fn tables(State(inner): Shared, headers: HeaderMap, Path(dataset): Path<String>) -> Response {
    if let Err(refused) = signed_in(&inner, &headers) {
        return *refused;
    }
    if dataset != "shop" {
        return refuse(&inner, StatusCode::NOT_FOUND, "Not found: Dataset");
    }
    Json(json!({"tables": [{"tableReference": {"tableId": "orders"}, "type": "TABLE"}]})).into_response()
}

fn fields() -> Value {
    json!([{"name": "id", "type": "INTEGER", "mode": "REQUIRED"}, {"name": "customer", "type": "STRING", "mode": "NULLABLE"}])
}

async fn table(State(inner): Shared, headers: HeaderMap, Path((dataset, table)): Path<(String, String)>) -> Response {
    if let Err(refused) = signed_in(&inner, &headers) {
        return *refused;
    }
    if (dataset.as_str(), table.as_str()) != ("shop", "orders") {
        return refuse(&inner, StatusCode::NOT_FOUND, "Not found: Table");
    }
    let about = json!({"schema": {"fields": fields()}, "numRows": ORDERS.to_string(), "numBytes": "60000",
        "timePartitioning": {"type": "DAY", "field": "day"}});
    Json(about).into_response()
}

/// A dry run, or the start of a job.
async fn insert(State(inner): Shared, headers: HeaderMap, Json(job): Json<Value>) -> Response {
    if let Err(refused) = signed_in(&inner, &headers) {
        return *refused;
    }
    let (configuration, reference) = (&job["configuration"], &job["jobReference"]);
    if reference.get("location").is_some_and(|location| location != LOCATION) {
        return refuse(
            &inner,
            StatusCode::NOT_FOUND,
            "Not found: Dataset acme:shop was not found in this location",
        );
    }
    let query = configuration["query"]["query"].as_str().unwrap_or_default().to_owned();
    let is_strict = configuration["query"]["useLegacySql"] == json!(false)
        && configuration["query"]["maximumBytesBilled"].is_string()
        && configuration["jobTimeoutMs"].is_string();
    if !is_strict {
        return refuse(
            &inner,
            StatusCode::BAD_REQUEST,
            "a query in standard SQL with its bounds is expected",
        );
    }
    let statistics = json!({"totalBytesProcessed": "60000", "query": {"statementType": "SELECT"}});
    if configuration["dryRun"] == json!(true) {
        let reference = json!({"projectId": PROJECT, "location": LOCATION});
        return Json(json!({"jobReference": reference, "statistics": statistics, "status": {"state": "DONE"}}))
            .into_response();
    }
    let Some(id) = reference["jobId"].as_str() else {
        return refuse(&inner, StatusCode::BAD_REQUEST, "Required parameter is missing: jobId");
    };
    lock(&inner).jobs.insert(id.to_owned(), query);
    let reference = json!({"projectId": PROJECT, "jobId": id, "location": LOCATION});
    Json(json!({"jobReference": reference, "status": {"state": "RUNNING"}, "statistics": statistics})).into_response()
}

/// Finds a job by its name and location. Err: Google's error if it does not exist.
fn find(inner: &Mutex<Inner>, id: &str, parameters: &HashMap<String, String>) -> Result<String, Box<Response>> {
    let found = lock(inner).jobs.get(id).cloned();
    match found.filter(|_| parameters.get("location").map(String::as_str) == Some(LOCATION)) {
        Some(query) => Ok(query),
        None => Err(Box::new(refuse(
            inner,
            StatusCode::NOT_FOUND,
            &format!("Not found: Job {PROJECT}:{id}"),
        ))),
    }
}

async fn cancel(
    State(inner): Shared,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(parameters): Parameters,
) -> Response {
    if let Err(refused) = signed_in(&inner, &headers).and_then(|()| find(&inner, &id, &parameters)) {
        return *refused;
    }
    let mut inner = lock(&inner);
    inner.jobs.remove(&id);
    inner.cancelled.push(id);
    Json(json!({"kind": "bigquery#jobCancelResponse"})).into_response()
}

/// A query that mentions `slow` never ends by itself.
async fn results(
    State(inner): Shared,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(parameters): Parameters,
) -> Response {
    let query = match signed_in(&inner, &headers).and_then(|()| find(&inner, &id, &parameters)) {
        Ok(query) => query,
        Err(refused) => return *refused,
    };
    if query.contains("slow") {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        return Json(json!({"jobComplete": false})).into_response();
    }
    let all: Vec<Value> = (1..=ORDERS)
        .map(|n| json!({"f": [{"v": n.to_string()}, {"v": format!("c{}", n % 3)}]}))
        .collect();
    let (rows, next) = page(&all, &parameters);
    lock(&inner).pages += 1;
    let answer = json!({"jobComplete": true, "schema": {"fields": fields()}, "rows": rows, "pageToken": next,
        "totalBytesProcessed": "60000", "totalRows": ORDERS.to_string()});
    Json(answer).into_response()
}
