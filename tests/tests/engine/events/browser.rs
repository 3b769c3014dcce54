//! A real browser's EventSource: this test's page runs in headless Chromium, and its events are compared with a plain
//! client's.
//!
//! The page and the API share one origin, as behind a reverse proxy: a small server here serves the page, creates
//! tickets, and forwards GETs below `/api/` as streams. The page itself reports its events, so no browser protocol is
//! needed. Without a browser the tests are skipped; in CI they fail.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get, post};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, Frame, kinds, text};
use rejoin_tests::model_server::Reply;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use uuid::Uuid;

use rejoin_tests::support::LIMIT;

/// Program names, best first; `scripts/setup-test.sh` looks for the same.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Maximum number of reports waiting for the test.
const REPORTS: usize = 16;

/// Follows a run like a UI: a ticket for each connection; after a cut, a new one from its cursor. Frames without an id
/// (the browser repeats the last one) are about the connection.
const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><title>following</title><script>
const messages = [];
let cursor = 0, openings = 0;
const report = (value) => fetch('/report', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) });
async function follow() {
    const { ticket } = await (await fetch('/ticket')).json();
    const source = new EventSource(`/api/runs/RUN/events?ticket=${ticket}` + (cursor ? `&after=${cursor}` : ''));
    source.onopen = () => openings++;
    source.onerror = () => { source.close(); setTimeout(follow, 50); };
    source.onmessage = ({ lastEventId, data }) => {
        if (Number(lastEventId) <= cursor) return;
        cursor = Number(lastEventId);
        messages.push({ id: lastEventId, data });
        const type = JSON.parse(data).type;
        if (type === 'token' && messages.filter((m) => JSON.parse(m.data).type === 'token').length === 1) report({ live: cursor });
        if (type === 'done') { source.close(); report({ messages, openings }); document.title = 'done'; }
    };
}
follow();
</script>"#;

/// The page's server.
#[derive(Clone)]
struct Front {
    api: Client,
    run_id: Uuid,
    reports: mpsc::Sender<Value>,
}

impl Front {
    /// Serves until the test's runtime ends; returns the page's URL, and its reports.
    async fn start(api: Client, run_id: Uuid) -> (String, mpsc::Receiver<Value>) {
        let (reports, reported) = mpsc::channel(REPORTS);
        let router = axum::Router::new()
            .route(
                "/",
                get(async |State(front): State<Front>| Html(PAGE.replace("RUN", &front.run_id.to_string()))),
            )
            .route("/ticket", get(ticket))
            .route(
                "/report",
                post(async |State(front): State<Front>, Json(value): Json<Value>| {
                    front.reports.send(value).await.expect("the test listens");
                }),
            )
            .route("/api/{*path}", any(pass))
            .with_state(Front { api, run_id, reports });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (url, reported)
    }
}

/// A UI's server would use the user's own login. While the API restarts there is no ticket: the page waits.
async fn ticket(State(front): State<Front>) -> Response {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        let request = front
            .api
            .request(Method::POST, "/api/stream-tickets")
            .json(&json!({"runId": front.run_id}));
        if let Ok(answer) = request.send().await
            && answer.status() == StatusCode::CREATED
        {
            return Json(answer.json::<Value>().await.expect("a ticket")).into_response();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    StatusCode::BAD_GATEWAY.into_response()
}

/// Forwards chunks as they arrive, like a reverse proxy. The key is not forwarded: the browser only has its ticket.
async fn pass(State(front): State<Front>, uri: Uri, headers: HeaderMap) -> Response {
    let mut request = reqwest::Client::new().get(format!("{}{uri}", front.api.url));
    for name in ["accept", "last-event-id"] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value.clone());
        }
    }
    let Ok(answer) = request.send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    for name in ["content-type", "cache-control"] {
        if let Some(value) = answer.headers().get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    response
}

/// A headless browser with its own profile; ended with its children when dropped.
struct Browser {
    child: Child,
    profile: PathBuf,
}

impl Browser {
    /// None: there is none on this machine, and none is required.
    fn find() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .flat_map(|dir| BROWSERS.map(|name| dir.join(name)))
            .find(|program| program.is_file());
        if found.is_none() {
            rejoin_tests::needs::skip(&format!(
                "no browser ({BROWSERS:?}) on the PATH: make setup-test installs one"
            ));
        }
        found
    }

    fn open(program: &PathBuf, url: &str) -> Self {
        let profile = std::env::temp_dir().join(format!("rejoin-browser-{}", Uuid::now_v7()));
        std::fs::create_dir_all(&profile).expect("a folder for the profile");
        let child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            // Without it, some versions end as soon as the page has loaded.
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(url)
            .env("HOME", &profile)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the browser starts");
        Self { child, profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The whole process group.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.child.id())])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

async fn next(reported: &mut mpsc::Receiver<Value>) -> Value {
    tokio::time::timeout(LIMIT, reported.recv())
        .await
        .expect("the page reports within the limit")
        .expect("the page's server lives")
}

/// Returns the frames received by the page.
fn received(report: &Value) -> Vec<Frame> {
    let messages = report["messages"]
        .as_array()
        .unwrap_or_else(|| panic!("messages: {report}"));
    let frame = |message: &Value| Frame {
        id: Some(message["id"].as_str().expect("an id").parse().expect("a number")),
        data: Some(message["data"].as_str().expect("text").to_owned()),
        comment: None,
        retry: None,
    };
    messages.iter().map(frame).collect()
}

fn words(n: usize) -> String {
    (0..n).map(|i| format!("Wörter-{i} ")).collect()
}

/// Posts a message whose answer pauses half-way until the gate opens.
async fn gated_turn(app: &TestApp, whole: &str) -> (Uuid, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    app.model.script([Reply::text(whole).gate(gate.clone())]);
    let agent = app.agent("writer", &[]).await;
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    (posted["runId"].as_str().unwrap().parse().unwrap(), gate)
}

async fn plainly_read(app: &TestApp, run_id: Uuid) -> Vec<Frame> {
    app.client()
        .stream(&format!("/api/runs/{run_id}/events"))
        .await
        .rest()
        .await
}

#[tokio::test]
async fn a_browsers_event_source_follows_a_live_turn_to_its_done() {
    let Some(program) = Browser::find() else { return };
    let app = TestApp::start().await;
    let whole = words(60);
    let (run_id, gate) = gated_turn(&app, &whole).await;
    let (url, mut reported) = Front::start(app.client(), run_id).await;
    let _browser = Browser::open(&program, &url);
    assert!(
        next(&mut reported).await["live"].is_i64(),
        "the browser has the first half while the run goes on"
    );
    gate.notify_one();
    let report = next(&mut reported).await;
    let frames = received(&report);
    assert_eq!(
        frames,
        plainly_read(&app, run_id).await,
        "every id and every byte of data"
    );
    assert_eq!(text(&frames), whole);
    assert_eq!(kinds(&frames), ["message", "meta", "token", "usage", "message", "done"]);
    assert_eq!(report["openings"], 1);
}

#[tokio::test]
async fn a_disconnected_browser_resumes_and_has_every_word_once() {
    let Some(program) = Browser::find() else { return };
    let mut app = TestApp::start().await;
    let whole = words(40);
    let (run_id, gate) = gated_turn(&app, &whole).await;
    let (url, mut reported) = Front::start(app.client(), run_id).await;
    let _browser = Browser::open(&program, &url);
    next(&mut reported).await;
    app.restart_api().await;
    gate.notify_one();
    let report = next(&mut reported).await;
    let frames = received(&report);
    assert_eq!(
        frames,
        plainly_read(&app, run_id).await,
        "every id and every byte of data"
    );
    assert_eq!(text(&frames), whole);
    assert!(
        report["openings"].as_i64().is_some_and(|openings| openings >= 2),
        "{}",
        report["openings"]
    );
}
