//! Vertex AI without a key: real worker processes with Google Cloud credentials, and a fake of its tokens, its metadata
//! server and one method of Vertex AI. None of this has been tested against Google.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::issuer::{self, SigningKey};
use rejoin_tests::support::wait_for;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const MODEL: &str = "vertex:gemini-3.8-flash";
const PLACE: &str = "/v1/projects/p1/locations/europe-west4";

/// The requests to the fake, and its responses.
#[derive(Default)]
struct Recorded {
    /// `Authorization` of each model request.
    asked_with: Vec<String>,
    /// `x-goog-user-project` of each.
    billed_to: Vec<Option<String>>,
    /// The form of each token request.
    forms: Vec<Value>,
    tokens: usize,
    /// Lifetime of the next tokens, in seconds.
    lifetime_s: u64,
    refuses: bool,
}

type Shared = Arc<Mutex<Recorded>>;

struct Google {
    url: String,
    recorded: Shared,
    server: JoinHandle<()>,
}

impl Drop for Google {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Google {
    async fn start() -> Self {
        let recorded = Shared::default();
        recorded.lock().expect("no panic").lifetime_s = 3_600;
        let router = Router::new()
            .route("/token", post(token))
            .route(
                "/computeMetadata/v1/instance/service-accounts/default/token",
                get(metadata),
            )
            .route(&format!("{PLACE}/publishers/google/models/{{call}}"), post(answer))
            .with_state(recorded.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { url, recorded, server }
    }

    fn recorded<T>(&self, read: impl FnOnce(&mut Recorded) -> T) -> T {
        read(&mut self.recorded.lock().expect("no panic"))
    }

    /// Returns the variables of a worker with credentials in this file.
    fn variables(&self, file: Option<&PathBuf>) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("VERTEX_BASE_URL", format!("{}{PLACE}", self.url)),
            ("GCE_METADATA_HOST", self.url.trim_start_matches("http://").to_owned()),
            ("HOME", "/nowhere".to_owned()),
        ];
        if let Some(file) = file {
            variables.push(("GOOGLE_APPLICATION_CREDENTIALS", file.display().to_string()));
        }
        variables
    }
}

fn new_token(recorded: &mut Recorded) -> Response {
    if recorded.refuses {
        let body = json!({"error": "invalid_grant", "error_description": "Token has been expired or revoked."});
        return (StatusCode::BAD_REQUEST, axum::Json(body)).into_response();
    }
    recorded.tokens += 1;
    axum::Json(json!({
        "access_token": format!("token-{}", recorded.tokens),
        "expires_in": recorded.lifetime_s,
        "token_type": "Bearer",
    }))
    .into_response()
}

async fn token(State(recorded): State<Shared>, body: String) -> Response {
    let mut recorded = recorded.lock().expect("no panic");
    let form: Value = if body.starts_with('{') {
        serde_json::from_str(&body).expect("JSON")
    } else {
        url::form_urlencoded::parse(body.as_bytes())
            .map(|(name, value)| (name.into_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    recorded.forms.push(form);
    new_token(&mut recorded)
}

async fn metadata(State(recorded): State<Shared>, headers: HeaderMap) -> Response {
    if headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
        return StatusCode::FORBIDDEN.into_response();
    }
    new_token(&mut recorded.lock().expect("no panic"))
}

async fn answer(State(recorded): State<Shared>, Path(call): Path<String>, headers: HeaderMap) -> Response {
    assert_eq!(call, "gemini-3.8-flash:streamGenerateContent");
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let mut recorded = recorded.lock().expect("no panic");
    recorded.asked_with.push(text("authorization").unwrap_or_default());
    recorded.billed_to.push(text("x-goog-user-project"));
    let chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello from Vertex."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 4, "totalTokenCount": 9},
    });
    ([("content-type", "text/event-stream")], format!("data: {chunk}\n\n")).into_response()
}

struct Fleet {
    app: TestApp,
    google: Google,
    agent: uuid::Uuid,
    folder: PathBuf,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Remains are left to the system.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fleet {
    async fn start() -> Self {
        let app = TestApp::with(AppOptions {
            workers: 0,
            ..AppOptions::default()
        })
        .await;
        let agent = app
            .agent_with("vertex", &[], |content| {
                content.model.as_mut().expect("a model").name = MODEL.to_owned();
            })
            .await;
        let folder = std::env::temp_dir().join(format!("rejoin-vertex-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).expect("a folder");
        Self {
            app,
            google: Google::start().await,
            agent,
            folder,
        }
    }

    fn file(&self, content: &str) -> PathBuf {
        let path = self.folder.join("credentials.json");
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Returns the answer, or the error.
    async fn ask(&self) -> Result<String, Value> {
        let body = json!({"message": "Hello?", "agentDefinitionId": self.agent});
        let frames = self.app.client().chat(body).await;
        let events = json_of(&frames);
        match of_kind(&events, "error").first() {
            Some(error) => Err((*error).clone()),
            None => Ok(text(&frames)),
        }
    }
}

fn user(google: &Google) -> String {
    json!({
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": "client-secret",
        "refresh_token": "refresh-1",
        "quota_project_id": "billed",
        "token_uri": format!("{}/token", google.url),
    })
    .to_string()
}

#[tokio::test]
async fn a_service_account_signs_its_own_tokens() {
    let fleet = Fleet::start().await;
    let key = SigningKey::rsa("key-1");
    let file = fleet.file(
        &json!({
            "type": "service_account",
            "project_id": "p1",
            "private_key_id": "key-1",
            "private_key": key.private_pem(),
            "client_email": "agents@p1.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": format!("{}/token", fleet.google.url),
        })
        .to_string(),
    );
    let _worker = Process::worker_with(&fleet.app, &fleet.google.variables(Some(&file)));
    assert_eq!(fleet.ask().await.expect("an answer"), "Hello from Vertex.");
    let asked_with = fleet.google.recorded(|recorded| recorded.asked_with.clone());
    let token = asked_with[0].strip_prefix("Bearer ").expect("a token");
    let (header, claims) = key.opened(token).expect("signed with the account's key");
    assert_eq!((&header["alg"], &header["kid"]), (&json!("RS256"), &json!("key-1")));
    for name in ["iss", "sub"] {
        assert_eq!(claims[name], "agents@p1.iam.gserviceaccount.com", "{claims}");
    }
    assert_eq!(
        claims["scope"], "https://www.googleapis.com/auth/cloud-platform",
        "{claims}"
    );
    let (issued, ends) = (
        claims["iat"].as_i64().expect("iat"),
        claims["exp"].as_i64().expect("exp"),
    );
    let now = issuer::now();
    assert!(issued <= now && now < ends && ends - issued <= 3_700, "{claims}");
    assert!(SigningKey::rsa("other").opened(token).is_none());
    assert!(
        fleet.google.recorded(|recorded| recorded.forms.is_empty()),
        "no server of tokens is needed"
    );
}

#[tokio::test]
async fn a_users_token_is_refreshed_before_it_runs_out() {
    let fleet = Fleet::start().await;
    let file = fleet.file(&user(&fleet.google));
    // google-cloud-auth requests the next one four minutes before expiry.
    fleet.google.recorded(|recorded| recorded.lifetime_s = 241);
    let _worker = Process::worker_with(&fleet.app, &fleet.google.variables(Some(&file)));
    assert_eq!(fleet.ask().await.expect("an answer"), "Hello from Vertex.");
    assert_eq!(
        fleet.google.recorded(|recorded| recorded.asked_with.clone()),
        ["Bearer token-1"]
    );
    assert_eq!(
        fleet.google.recorded(|recorded| recorded.billed_to.clone()),
        [Some("billed".to_owned())]
    );
    let form = fleet.google.recorded(|recorded| {
        recorded.lifetime_s = 3_600;
        recorded.forms[0].clone()
    });
    assert_eq!(
        (&form["grant_type"], &form["refresh_token"], &form["client_id"]),
        (&json!("refresh_token"), &json!("refresh-1"), &json!("client"))
    );
    wait_for("the next token", async || {
        fleet.google.recorded(|recorded| recorded.tokens >= 2).then_some(())
    })
    .await;
    wait_for("an answer with the next token", async || {
        fleet.ask().await.expect("an answer");
        let last = fleet.google.recorded(|recorded| recorded.asked_with.last().cloned());
        (last.as_deref() != Some("Bearer token-1")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn refused_credentials_are_reported_and_work_once_repaired() {
    let fleet = Fleet::start().await;
    let file = fleet.file(&user(&fleet.google));
    fleet.google.recorded(|recorded| recorded.refuses = true);
    let _worker = Process::worker_with(&fleet.app, &fleet.google.variables(Some(&file)));
    let error = fleet.ask().await.expect_err("no token");
    assert_eq!(error["code"], "model_key_rejected", "{error}");
    let words = error["error"].as_str().expect("words");
    for part in ["invalid_grant", "GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_API_KEY"] {
        assert!(words.contains(part), "{words}");
    }
    for secret in ["client-secret", "refresh-1"] {
        assert!(!words.contains(secret), "{words}");
    }
    fleet.google.recorded(|recorded| recorded.refuses = false);
    assert_eq!(fleet.ask().await.expect("an answer"), "Hello from Vertex.");

    // A file of unknown kind, and none at all.
    let broken = Fleet::start().await;
    let file = broken.file(r#"{"type": "nonsense", "private_key": "very-secret"}"#);
    let _worker = Process::worker_with(&broken.app, &broken.google.variables(Some(&file)));
    let error = broken.ask().await.expect_err("no credentials");
    assert_eq!(error["code"], "model_key_rejected", "{error}");
    assert!(!error.to_string().contains("very-secret"), "{error}");
    std::fs::remove_file(&file).expect("it was there");
    let error = broken.ask().await.expect_err("no file");
    assert_eq!(error["code"], "model_key_missing", "{error}");
}

#[tokio::test]
async fn a_machine_of_googles_gives_tokens_and_a_key_goes_first() {
    let fleet = Fleet::start().await;
    let worker = Process::worker_with(&fleet.app, &fleet.google.variables(None));
    assert_eq!(fleet.ask().await.expect("an answer"), "Hello from Vertex.");
    assert_eq!(
        fleet.google.recorded(|recorded| recorded.asked_with.clone()),
        ["Bearer token-1"]
    );
    worker.kill();
    let mut variables = fleet.google.variables(None);
    variables.push(("VERTEX_API_KEY", "a-token-of-ones-own".to_owned()));
    let _worker = Process::worker_with(&fleet.app, &variables);
    assert_eq!(fleet.ask().await.expect("an answer"), "Hello from Vertex.");
    let last = fleet.google.recorded(|recorded| recorded.asked_with.last().cloned());
    assert_eq!(last.as_deref(), Some("Bearer a-token-of-ones-own"));
    assert_eq!(fleet.google.recorded(|recorded| recorded.tokens), 1);
}
