//! Operation under stress: overload, locks, a database that is not up yet, a stopping server. Refusals say
//! when to retry; nothing is half done.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rejoin_commands::{OnBusy, PostMessage};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role, vacuum_blockers};
use rejoin_event_log::group_commit::WriterOptions;
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::{EventWriter, wakeup};
use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::ports::free_address;
use rejoin_tests::support::{self, wait_for};
use rejoin_types::events::{Event, Kind};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use sqlx::Connection;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

async fn quiet(api: fn(&mut rejoin_api::ApiConfig)) -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        api,
        ..AppOptions::default()
    })
    .await
}

/// Asserts a refusal that says when to retry, and why, as a problem. Returns its code.
pub(super) async fn refused_for_now(response: Response) -> String {
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let (_, problem) = answer(response).await;
    problem["code"].as_str().expect("a problem has a code").to_owned()
}

/// Returns the processes of this database that wait for a lock.
async fn waiting_for_a_lock(app: &TestApp) -> Vec<i32> {
    sqlx::query_scalar(
        "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn overload_is_refused_at_once_and_the_rest_is_served() {
    let app = quiet(|config| {
        // One user may use all of them.
        (config.max_in_flight_user_percent, config.max_in_flight_project_percent) = (100, 100);
        config.max_in_flight = 2;
    })
    .await;
    let client = app.client();
    let list = || client.request(Method::GET, "/api/conversations").send();
    assert!(list().await.unwrap().status().is_success());
    let mut holder = rejoin_db::begin(&app.db.pool).await.unwrap();
    sqlx::query("lock table kb.chat_conversations in access exclusive mode")
        .execute(&mut *holder)
        .await
        .unwrap();
    let under_way: Vec<_> = (0..2).map(|_| tokio::spawn(list())).collect();
    wait_for("both to wait", async || {
        (waiting_for_a_lock(&app).await.len() == 2).then_some(())
    })
    .await;

    assert_eq!(refused_for_now(list().await.unwrap()).await, "overloaded");
    // Operators' endpoints respond anyway.
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(
            client.request(Method::GET, path).send().await.unwrap().status(),
            StatusCode::OK,
            "{path}"
        );
    }
    holder.rollback().await.unwrap();
    for one in under_way {
        assert!(one.await.unwrap().unwrap().status().is_success());
    }
    assert!(list().await.unwrap().status().is_success());
}

#[tokio::test]
async fn streams_have_a_bound_for_the_whole_process() {
    let app = quiet(|config| config.streams.max_streams = 1).await;
    let client = app.client();
    let posted = client.post_message(json!({"message": "hello"})).await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let first = client.stream(&path).await;
    let refused = client.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(refused_for_now(refused).await, "overloaded");
    drop(first);
    wait_for("the place to be free", async || {
        let again = client.request(Method::GET, &path).send().await.unwrap();
        again.status().is_success().then_some(())
    })
    .await;
}

/// Short timeouts: a statement has 300 ms, of which 200 ms may be spent waiting for locks.
fn impatient(args: &mut DatabaseArgs) {
    args.db_statement_timeout_ms = 300;
    args.db_lock_timeout_ms = 200;
}

#[tokio::test]
async fn a_locked_out_command_retries_then_is_refused_whole() {
    let app = quiet(|config| impatient(&mut config.database)).await;
    let client = app.client();
    let posted = client.post_message(json!({"message": "first"})).await;
    let conversation = posted["conversationId"].as_str().unwrap();
    let mut holder = rejoin_db::begin(&app.db.pool).await.unwrap();
    sqlx::query("select from stream.logs where log_id = $1 for update")
        .bind(conversation.parse::<Uuid>().unwrap())
        .execute(&mut *holder)
        .await
        .unwrap();
    let counts = async || -> (i64, i64, i64) {
        sqlx::query_as("select (select count(*) from kb.chat_messages), (select count(*) from kb.agent_runs), (select count(*) from queue.jobs)")
            .fetch_one(&app.db.pool)
            .await
            .unwrap()
    };
    let before = counts().await;
    let second = || {
        client
            .request(Method::POST, "/api/chat/stream")
            .header("accept", "application/json")
            .header("idempotency-key", "second")
            .json(&json!({"message": "second", "conversationId": conversation}))
            .send()
    };
    assert_eq!(refused_for_now(second().await.unwrap()).await, "database_unavailable");
    assert_eq!(counts().await, before);
    holder.rollback().await.unwrap();
    assert_eq!(second().await.unwrap().status(), StatusCode::ACCEPTED);
    assert_eq!(counts().await, (before.0 + 1, before.1 + 1, before.2 + 1));
}

#[tokio::test]
async fn a_locked_out_flush_retries_and_writes_each_event_once() {
    let app = quiet(|_| {}).await;
    let command = PostMessage {
        on_busy: OnBusy::Enqueue,
        ..PostMessage::new(app.db.owner(), "hello")
    };
    let posted = rejoin_commands::execute(&app.db.pool, &command).await.unwrap();
    let lease = Duration::from_secs(60);
    let claimed = rejoin_queue::claim(
        &app.db.db.pool_pg,
        "default",
        Uuid::now_v7(),
        lease,
        1,
        &mut rejoin_queue::ClaimCursor::default(),
    )
    .await;
    assert_eq!(claimed.unwrap().len(), 1);
    let mut args = app.db.args();
    impatient(&mut args);
    let db = Db::connect_lazy(&args, "impatient", Role::Worker).unwrap();
    let writer = EventWriter::start(db.clone(), wakeup::polling(), WriterOptions::default());
    let stream = Arc::new(RunStream {
        log_id: posted.conversation_id,
        root_run_id: posted.run_id,
        run_id: posted.run_id,
        attempt: 1,
        lost: CancellationToken::new(),
        seen: Default::default(),
    });

    let mut holder = rejoin_db::begin(&app.db.pool).await.unwrap();
    sqlx::query("select from stream.logs where log_id = $1 for update")
        .bind(posted.conversation_id)
        .execute(&mut *holder)
        .await
        .unwrap();
    for token in ["one ", "two"] {
        let event = Event::of(posted.run_id, Kind::Token { token: token.into() });
        writer.append(&stream, &event).await.unwrap();
    }
    let flushing = tokio::spawn({
        let (writer, stream) = (writer.clone(), stream.clone());
        async move { writer.flush(&stream).await }
    });
    // Each attempt is a separate connection.
    let mut tries = std::collections::BTreeSet::new();
    wait_for("three tries", async || {
        tries.extend(waiting_for_a_lock(&app).await);
        (tries.len() >= 3).then_some(())
    })
    .await;
    assert!(!flushing.is_finished());
    holder.rollback().await.unwrap();
    flushing.await.unwrap().unwrap();
    let events: Vec<(i64, String)> =
        sqlx::query_as("select seq, data->>'token' from (select seq, data::json as data from stream.each_event where log_id = $1 and type = 'token') e order by seq")
            .bind(posted.conversation_id)
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let text: String = events.iter().map(|(_, token)| token.as_str()).collect();
    assert_eq!((events[0].0, text.as_str()), (2, "one two"));
}

#[tokio::test]
async fn a_server_that_stops_is_not_ready_while_it_still_answers() {
    let mut app = quiet(|config| config.drain_grace_ms = 60_000).await;
    let client = app.client();
    assert_eq!(client.get("/readyz").await.0, StatusCode::OK);
    let server = app.server.take().unwrap();
    let state = server.state.clone();
    let stopping = tokio::spawn(server.stop());
    let (status, body) = wait_for("it to drain", async || {
        let (status, body) = client.get("/readyz").await;
        (status != StatusCode::OK).then_some((status, body))
    })
    .await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["reasons"][0].as_str().unwrap().contains("draining"), "{body}");
    assert!(state.draining.is_cancelled());
    // Late requests are served; only streams must reconnect elsewhere.
    assert_eq!(client.get("/api/conversations").await.0, StatusCode::OK);
    let run = client.post_message(json!({"message": "late"})).await;
    let events = format!("/api/runs/{}/events", run["runId"].as_str().unwrap());
    let refused = client.request(Method::GET, &events).send().await.unwrap();
    assert_eq!(refused_for_now(refused).await, "draining");
    stopping.abort();
}

/// A process of the product; killed when dropped.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str], database_url: &str) -> Self {
        let child = Command::new(binary())
            .args(arguments)
            .env("DATABASE_URL", database_url)
            .env("REJOIN_MODEL", "demo:graph")
            .env("REJOIN_DEMO_WORD_MS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn status_of(url: &str) -> Option<(StatusCode, Value)> {
    let response = reqwest::get(url).await.ok()?;
    let status = response.status();
    Some((status, response.json().await.unwrap_or_default()))
}

#[tokio::test]
async fn api_and_worker_start_before_the_database_and_become_ready() {
    let (postgres, database) = support::own_server_database().await;
    database.pool.close().await;
    postgres.stop_immediate().await.unwrap();

    let address = free_address();
    let url = format!("http://{address}");
    let api = Running::start(&["api", "--listen", &address.to_string()], &database.url);
    let worker = Running::start(&["worker"], &database.url);
    wait_for("it to be alive", async || {
        let (status, _) = status_of(&format!("{url}/livez")).await?;
        (status == StatusCode::OK).then_some(())
    })
    .await;
    let (status, body) = status_of(&format!("{url}/readyz")).await.unwrap();
    assert_eq!(
        (status, &body["status"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("unavailable"))
    );

    postgres.restart().await.unwrap();
    wait_for("it to be ready", async || {
        let (status, _) = status_of(&format!("{url}/readyz")).await?;
        (status == StatusCode::OK).then_some(())
    })
    .await;
    // And the worker is running, too.
    let frames = Client::new(url, &database.api_key)
        .chat(json!({"message": "hello"}))
        .await;
    assert_eq!(frames.last().unwrap().json()["type"], "done");
    drop((api, worker));
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_stays_open_is_reported() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.old_transaction_s = 1,
        ..AppOptions::default()
    })
    .await;
    let mut looker = app.db.pool.acquire().await.unwrap();
    let url = format!("{}?application_name=forgotten", app.db.url);
    let mut holder = sqlx::PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from stream.logs")
        .execute(&mut holder)
        .await
        .unwrap();
    let oldest = wait_for("it to be seen", async || {
        vacuum_blockers::oldest(&mut looker)
            .await
            .unwrap()
            .filter(|holder| holder.age_s > 1.0)
    })
    .await;
    assert!(
        oldest.what.contains("forgotten") && oldest.what.contains("idle in transaction"),
        "{oldest:?}"
    );
    let gauge = async || app.client().metric_sum(&["rejoin_oldest_transaction_seconds"]).await;
    wait_for("it to be measured", async || {
        Some(gauge().await).filter(|age_s| *age_s > 1.0)
    })
    .await;
    drop(holder);
}
