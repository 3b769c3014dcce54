//! A database that is unreachable for longer than a lease: live workers keep their jobs and log little.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_tests::app::{AppOptions, LEASE, Process, TestApp, binary};
use rejoin_tests::client::{Client, Frame, text};
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use rejoin_tests::support;

/// An outage longer than any lease.
const OUTAGE: Duration = Duration::from_millis(LEASE.as_millis() as u64 * 5 / 2);

pub(super) fn tokens(n: usize) -> String {
    (0..n).map(|n| format!("t{n} ")).collect()
}

pub(super) fn seqs(frames: &[Frame]) -> Vec<i64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

pub(super) fn count(frames: &[Frame], kind: &str) -> usize {
    frames.iter().filter(|frame| frame.kind() == kind).count()
}

pub(super) fn events_of(posted: &Value) -> String {
    format!("/api/runs/{}/events", posted["runId"].as_str().unwrap())
}

/// Reads until the reply ends with `word`.
pub(super) async fn until_word(client: &Client, path: &str, word: &str) -> (rejoin_tests::client::Stream, Vec<Frame>) {
    let mut stream = client.stream(path).await;
    let mut frames = Vec::new();
    loop {
        let frame = stream.next_event().await.expect("the stream goes on");
        let found = frame.kind() == "token" && frame.json()["token"].as_str().unwrap().contains(word);
        frames.push(frame);
        if found {
            return (stream, frames);
        }
    }
}

/// Returns the whole log of a run, once it has ended, reconnecting as needed.
pub(super) async fn log_of(client: &Client, path: &str) -> Vec<Frame> {
    support::wait_for("the run's whole log", async || {
        let response = client.request(Method::GET, path).send().await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let frames = rejoin_tests::client::Stream::of(response).rest().await;
        (frames.last()?.kind() == "done").then_some(frames)
    })
    .await
}

/// Six runs that stream during an outage, on two workers with three slots each.
async fn six_runs_over(outage: impl AsyncFnOnce(&PrivatePostgres, &mut TestApp)) -> Vec<Vec<Frame>> {
    let (postgres, database) = support::own_server_database().await;
    let mut app = TestApp::over(
        database,
        AppOptions {
            workers: 2,
            slots: 3,
            ..AppOptions::default()
        },
    )
    .await;
    let agent = app.agent("writer", &[]).await;
    app.model.always("write", Reply::tokens(400).words_every(20));
    let client = app.client();
    let mut paths = Vec::new();
    for _ in 0..6 {
        let posted = client
            .post_message(json!({"message": "write", "agentDefinitionId": agent}))
            .await;
        paths.push(events_of(&posted));
    }
    for path in &paths {
        until_word(&client, path, "t9 ").await;
    }
    outage(&postgres, &mut app).await;
    let logs = join_all(paths.iter().map(|path| log_of(&client, path))).await;
    for frames in &logs {
        assert_eq!(seqs(frames), (1..=frames.len() as i64).collect::<Vec<_>>());
        assert_eq!(text(frames), tokens(400));
        assert_eq!(count(frames, "done"), 1);
        assert_eq!(frames.last().unwrap().json()["status"], "completed");
    }
    app.wait_until_idle().await;
    drop(app);
    postgres.stop().await.unwrap();
    logs
}

fn resets(logs: &[Vec<Frame>]) -> Vec<usize> {
    let mut resets: Vec<usize> = logs.iter().map(|frames| count(frames, "reset")).collect();
    resets.sort_unstable();
    resets
}

#[tokio::test]
async fn a_long_database_crash_takes_no_run_from_a_live_worker() {
    let logs = six_runs_over(async |postgres, _| {
        postgres.stop_immediate().await.unwrap();
        tokio::time::sleep(OUTAGE).await;
        postgres.restart().await.unwrap();
    })
    .await;
    assert_eq!(resets(&logs), [0; 6]);
}

#[tokio::test]
async fn a_long_database_stall_takes_no_run_from_a_live_worker() {
    let logs = six_runs_over(async |postgres, _| {
        // The server and its backends.
        let server = postgres.pid().unwrap();
        signal("-STOP", &[server.to_string()]);
        let serving = children_of(server);
        signal("-STOP", &serving);
        tokio::time::sleep(OUTAGE).await;
        signal("-CONT", &serving);
        signal("-CONT", &[server.to_string()]);
    })
    .await;
    assert_eq!(resets(&logs), [0; 6]);
}

fn signal(name: &str, processes: &[String]) {
    let status = Command::new("kill").arg(name).args(processes).status();
    assert!(status.unwrap().success());
}

fn children_of(pid: u32) -> Vec<String> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn after_an_outage_only_dead_workers_runs_are_taken_over() {
    let logs = six_runs_over(async |postgres, app| {
        postgres.stop_immediate().await.unwrap();
        app.workers.remove(0).crash();
        tokio::time::sleep(OUTAGE).await;
        postgres.restart().await.unwrap();
    })
    .await;
    assert_eq!(resets(&logs), [0, 0, 0, 1, 1, 1]);
}

#[tokio::test]
async fn a_worker_says_once_that_it_can_not_claim_and_why() {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(
        database,
        AppOptions {
            workers: 0,
            ..AppOptions::default()
        },
    )
    .await;
    let agent = app.agent("writer", &[]).await;
    app.model.always("write", Reply::tokens(100).words_every(50));
    let client = app.client();
    let mut posted = Vec::new();
    for _ in 0..10 {
        posted.push(
            client
                .post_message(json!({"message": "write", "agentDefinitionId": agent}))
                .await,
        );
    }
    let log = std::env::temp_dir().join(format!("rejoin-outage-{}.log", Uuid::now_v7().simple()));
    let file = std::fs::File::create(&log).unwrap();
    // With free slots, so that it keeps claiming.
    let _worker = Process::worker_logging(&app, &[("REJOIN_SLOTS", "20".to_owned())], file);
    support::wait_for("the worker to be busy", async || {
        (app.model.counts().requests >= 10).then_some(())
    })
    .await;
    postgres.stop_immediate().await.unwrap();
    tokio::time::sleep(2 * OUTAGE).await;
    let printed = std::fs::read_to_string(&log).unwrap();
    postgres.restart().await.unwrap();
    let claims: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("claiming failed"))
        .collect();
    assert_eq!(claims.len(), 1, "{} lines: {:?}", claims.len(), claims.first());
    let printed = printed.to_lowercase();
    let warnings: Vec<&str> = printed.lines().filter(|line| line.contains(" warn rejoin")).collect();
    assert!(
        warnings.len() < 60,
        "{} warnings: {:#?}",
        warnings.len(),
        &warnings[..20]
    );
    for warning in warnings {
        assert!(
            [
                "os error",
                "connection closed",
                "connection was closed",
                "terminating connection",
                "shutting down",
                "unexpected eof",
                "end of file",
                // sqlx, if the connection ended between two messages: "got 0 bytes at EOF".
                "bytes at eof",
                "pool timed out",
                "reset by peer"
            ]
            .iter()
            .any(|cause| warning.contains(cause)),
            "it names no cause: {warning}"
        );
    }
    support::wait_for("the API to take another message", async || {
        let body = json!({"message": "write", "agentDefinitionId": agent, "clientTurnId": "another"});
        let request = client.request(reqwest::Method::POST, "/api/chat/stream");
        let request = request.header("accept", "application/json").json(&body);
        let answer = request.send().await.ok()?;
        (answer.status() == 202).then_some(())
    })
    .await;
    support::wait_for("the worker to claim again", async || {
        (app.model.counts().requests > 10).then_some(())
    })
    .await;
    let printed = std::fs::read_to_string(&log).unwrap();
    assert!(printed.contains("claiming works again"), "{printed}");
    drop(app);
    postgres.stop().await.unwrap();
    let _ = std::fs::remove_file(log);
}

/// A definition whose runs time out after this, and are aborted a second later.
async fn hasty(app: &TestApp, timeout_s: i32) -> Uuid {
    app.agent_with("hasty", &[], |content| content.default_timeout = Some(timeout_s))
        .await
}

fn patient_worker(config: &mut rejoin_worker::WorkerConfig) {
    config.run_grace_s = 1;
}

#[tokio::test]
async fn time_without_a_worker_does_not_count_against_a_runs_timeout() {
    let mut app = TestApp::with(AppOptions {
        worker: patient_worker,
        ..AppOptions::default()
    })
    .await;
    let agent = hasty(&app, 4).await;
    app.model
        .script([Reply::hang_after(5), Reply::tokens(20).words_every(10)]);
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    until_word(&app.client(), &events_of(&posted), "t").await;
    app.crash_workers();
    tokio::time::sleep(Duration::from_secs(6)).await;
    app.add_worker();
    let frames = log_of(&app.client(), &events_of(&posted)).await;
    assert_eq!(text(&frames), tokens(20));
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
}

#[tokio::test]
async fn database_downtime_does_not_count_against_a_runs_timeout() {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(
        database,
        AppOptions {
            worker: patient_worker,
            ..AppOptions::default()
        },
    )
    .await;
    let agent = hasty(&app, 4).await;
    let gate = Arc::new(Notify::new());
    app.model.script([Reply::tokens(40).gate(gate.clone())]);
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    until_word(&app.client(), &events_of(&posted), "t19 ").await;
    postgres.stop_immediate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    postgres.restart().await.unwrap();
    gate.notify_one();
    let frames = log_of(&app.client(), &events_of(&posted)).await;
    assert_eq!(text(&frames), tokens(40));
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    drop(app);
    postgres.stop().await.unwrap();
}

/// Runs `rejoin` with these arguments, on a database.
fn rejoin(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(words)
        .env("DATABASE_URL", url)
        .env("REJOIN_EMBEDDINGS", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn migrate_up_waits_for_a_starting_database_within_limits() {
    let (postgres, database) = support::own_server_database().await;
    database.pool.close().await;
    let url = database.url.clone();
    postgres.stop_immediate().await.unwrap();
    let at_once = rejoin(&url, &["migrate", "up", "--wait-s", "0"]).output().unwrap();
    assert_eq!(at_once.status.code(), Some(3), "{at_once:?}");
    let waits = rejoin(&url, &["migrate", "up", "--wait-s", "60"]).spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    postgres.restart().await.unwrap();
    let ended = tokio::task::spawn_blocking(|| waits.wait_with_output()).await.unwrap();
    assert!(ended.unwrap().status.success());
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn doctor_knows_whether_this_machines_worker_is_alive() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let ask = |more: &[&str]| {
        let mut words = vec!["doctor", "--only", "worker"];
        words.extend(more);
        let output = rejoin(&app.db.url, &words).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (healthy, said) = ask(&[]);
    assert!(!healthy && said.contains("no worker"), "{said}");
    let worker = Process::worker(&app);
    support::wait_for("a worker", async || ask(&[]).0.then_some(())).await;
    let (healthy, said) = ask(&["--host", "elsewhere"]);
    assert!(!healthy && said.contains("elsewhere"), "{said}");
    // A hanging one is unhealthy.
    worker.signal(19);
    sqlx::query("update queue.workers set seen_at = now() - interval '1 minute'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let (healthy, said) = ask(&[]);
    assert!(!healthy && said.contains("60 s"), "{said}");
    worker.signal(18);
}
