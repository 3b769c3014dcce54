//! Wake-ups over NATS between real processes: two APIs and two workers, and a server that is killed, or was never there.

use std::fs::File;
use std::sync::Arc;

use rejoin_tests::app::{AppOptions, Process, TestApp, binary};
use rejoin_tests::client::{Client, Frame, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::nats::NatsServer;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Notify;
use uuid::Uuid;

use super::outages::{count, events_of, seqs, tokens};
use rejoin_tests::support::wait_for;

/// Nothing listens there.
const NOWHERE: &str = "nats://user:secret-word@127.0.0.1:1";

/// Processes that wake each other over NATS.
struct Fleet {
    app: TestApp,
    agent: Uuid,
    clients: Vec<Client>,
    _processes: Vec<Process>,
}

impl Fleet {
    /// Two APIs, and two workers whose log is written to the file.
    async fn start(nats_url: &str, log: Option<&File>) -> Self {
        let app = TestApp::with(AppOptions {
            workers: 0,
            ..AppOptions::default()
        })
        .await;
        let agent = app.agent("writer", &[]).await;
        app.model.always("short", Reply::tokens(20).words_every(10));
        let variables = [("REJOIN_BUS", "nats"), ("REJOIN_NATS_URL", nats_url)];
        let owned = variables.map(|(name, value)| (name, value.to_owned()));
        let mut processes = Vec::new();
        for _ in 0..2 {
            processes.push(match log {
                Some(log) => Process::worker_logging(&app, &owned, log.try_clone().expect("the same log")),
                None => Process::worker_with(&app, &owned),
            });
        }
        let mut clients = Vec::new();
        for _ in 0..2 {
            let (api, url) = Process::api_with(&app, None, &variables).await;
            processes.push(api);
            clients.push(Client::new(url, &app.db.api_key));
        }
        Self {
            app,
            agent,
            clients,
            _processes: processes,
        }
    }

    /// A short turn that one API accepts, and that the other one reads.
    async fn turn(&self, from: usize, to: usize) {
        let body = json!({"message": "short", "agentDefinitionId": self.agent});
        let posted = self.clients[from].post_message(body).await;
        let frames = self.clients[to].stream(&events_of(&posted)).await.rest().await;
        check(&frames, &tokens(20));
    }

    /// Takes turns until an API has got events with hints, without a query.
    async fn wait_for_hints(&self, from: usize, to: usize) {
        let before = by_hint(&self.clients[to]).await;
        wait_for("events that come with hints", async || {
            self.turn(from, to).await;
            (by_hint(&self.clients[to]).await > before).then_some(())
        })
        .await;
    }

    /// Waits until both APIs report that they receive hints, or that they do not.
    async fn wait_until_listening(&self, is_listening: bool) {
        let line = format!("rejoin_wakeups_listening {}", i32::from(is_listening));
        wait_for(&line, async || {
            for client in &self.clients {
                client.metrics().await.lines().find(|found| *found == line)?;
            }
            Some(())
        })
        .await;
    }
}

async fn by_hint(client: &Client) -> f64 {
    client.metric_sum(&["rejoin_events_by_hint_total"]).await
}

/// A whole answer without a gap, a repetition or a reset.
fn check(frames: &[Frame], expected: &str) {
    assert_eq!(seqs(frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(frames), expected);
    assert_eq!((count(frames, "reset"), count(frames, "done")), (0, 1));
    assert_eq!(frames.last().expect("frames").json()["status"], "completed");
}

#[tokio::test]
async fn hints_over_nats_carry_events_to_each_api() {
    let Some(nats) = NatsServer::start().await else { return };
    let fleet = Fleet::start(&nats.url(), None).await;
    fleet.wait_until_listening(true).await;
    fleet.wait_for_hints(0, 1).await;
    fleet.wait_for_hints(1, 0).await;
    let locks: i64 = sqlx::query_scalar("select count(*) from queue.workers where session_lock")
        .fetch_one(&fleet.app.db.pool)
        .await
        .unwrap();
    assert_eq!(locks, 0, "without a session for LISTEN, workers have leases only");
    fleet.app.wait_until_idle().await;
}

#[tokio::test]
async fn an_answer_is_whole_when_its_nats_server_is_killed() {
    let Some(mut nats) = NatsServer::start().await else {
        return;
    };
    let fleet = Fleet::start(&nats.url(), None).await;
    fleet.wait_for_hints(0, 1).await;
    let gate = Arc::new(Notify::new());
    fleet.app.model.on("long", [Reply::tokens(400).gate(gate.clone())]);
    let body = json!({"message": "long", "agentDefinitionId": fleet.agent});
    let posted = fleet.clients[0].post_message(body).await;
    let mut reader = fleet.clients[1].stream(&events_of(&posted)).await;
    let mut frames = reader.until("token").await;
    nats.kill();
    fleet.wait_until_listening(false).await;
    gate.notify_one();
    frames.extend(reader.rest().await);
    check(&frames, &tokens(400));
    // New turns, too.
    fleet.turn(1, 0).await;
    nats.restart().await;
    fleet.wait_until_listening(true).await;
    fleet.wait_for_hints(0, 1).await;
    fleet.wait_for_hints(1, 0).await;
    fleet.app.wait_until_idle().await;
}

#[tokio::test]
async fn without_a_nats_server_processes_poll_and_say_so_once() {
    let path = std::env::temp_dir().join(format!("rejoin-nats-{}", Uuid::now_v7()));
    let log = File::create(&path).expect("a log");
    let fleet = Fleet::start(NOWHERE, Some(&log)).await;
    fleet.wait_until_listening(false).await;
    let written = || std::fs::read_to_string(&path).expect("the log");
    let reports = |log: &str| log.matches("listening for wake-ups failed").count();
    wait_for("both workers to report it", async || {
        (reports(&written()) == 2).then_some(())
    })
    .await;
    fleet.turn(0, 1).await;
    fleet.turn(1, 0).await;
    let written = written();
    assert_eq!(reports(&written), 2, "once for each worker: {written}");
    assert!(
        written.contains("127.0.0.1:1") && !written.contains("secret-word"),
        "{written}"
    );
    std::fs::remove_file(&path).expect("it was there");
}

#[tokio::test]
async fn the_bus_nats_without_a_server_is_refused() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let worker: &[&str] = &["worker"];
    let api: &[&str] = &["api", "--listen", "127.0.0.1:0"];
    for words in [worker, api] {
        let output = Command::new(binary())
            .args(words)
            .env("DATABASE_URL", &app.db.url)
            .env("REJOIN_EMBEDDINGS", "off")
            .env("REJOIN_BUS", "nats")
            .output()
            .await
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("set REJOIN_NATS_URL"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn doctor_sends_itself_a_message_over_nats() {
    let Some(mut nats) = NatsServer::start_with(&["--user", "rejoin", "--pass", "right-word"]).await else {
        return;
    };
    let address = nats.address();
    let doctor = async |bus: &str, password: &str| {
        let output = Command::new(binary())
            .args(["doctor", "--only", "bus"])
            .env("REJOIN_BUS", bus)
            .env("REJOIN_NATS_URL", format!("nats://rejoin:{password}@{address}"))
            .output()
            .await
            .expect("it runs");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(!said.contains(password), "{said}");
        (output.status.success(), said)
    };
    let (is_good, said) = doctor("nats", "right-word").await;
    assert_eq!(
        (is_good, said.trim()),
        (true, format!("ok    wake-ups arrive over NATS: {address}").as_str())
    );
    assert_eq!(doctor("postgres", "right-word").await, (true, String::new()));
    let (is_good, said) = doctor("nats", "wrong-word").await;
    assert!(!is_good && said.contains("authorization violation"), "{said}");
    nats.kill();
    let (is_good, said) = doctor("nats", "right-word").await;
    assert!(!is_good && said.contains("check REJOIN_NATS_URL"), "{said}");
}
