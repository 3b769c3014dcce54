//! Connections to PostgreSQL as operators have them: a standby that takes over, TLS, passwords that change, a pooler in transaction mode.

mod failover;
mod manual;
mod passwords;
mod pooled_harness;
mod session_state;
mod tls;
mod transaction_pooler;

use chrono::{DateTime, Utc};
use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{Client, Frame, Stream};
use rejoin_tests::support::{TestDatabase, wait_for};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

/// Logins with the settings that startup options would have given, as docs/operations/poolers.md has them.
pub const API_LOGIN: &str = "pooled_api";
pub const WORKER_LOGIN: &str = "pooled_worker";

/// The database, the model and the key of a [`TestApp`], without its server and workers: tests start processes.
pub async fn without_processes(database: TestDatabase) -> TestApp {
    let options = AppOptions {
        workers: 0,
        ..AppOptions::default()
    };
    let mut app = TestApp::over(database, options).await;
    if let Some(server) = app.server.take() {
        server.stop().await.expect("the API stops");
    }
    app
}

/// An API process with these variables, and its client.
pub async fn api(app: &TestApp, variables: &[(&str, &str)]) -> (Process, Client) {
    let (process, url) = Process::api_with(app, None, variables).await;
    (process, Client::new(url, &app.db.api_key))
}

/// Statements of an operator.
pub async fn run(pool: &PgPool, statements: &str) {
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{statements}: {error}"));
}

/// Creates the logins of API and workers.
pub async fn create_logins(pool: &PgPool) {
    for (login, roles, role) in [
        (API_LOGIN, "rejoin_app, rejoin_gate", "rejoin_app"),
        (WORKER_LOGIN, "rejoin_worker", "rejoin_worker"),
    ] {
        run(
            pool,
            &format!(
                "create role {login} login in role {roles};
                 alter role {login} set role = {role};
                 alter role {login} set statement_timeout = '30s';
                 alter role {login} set lock_timeout = '10s';
                 alter role {login} set synchronous_commit = 'on'"
            ),
        )
        .await;
    }
}

/// Puts lines before those of the server's `pg_hba.conf`.
pub async fn authenticate(postgres: &PrivatePostgres, pool: &PgPool, lines: &str) {
    let file = postgres.cluster_dir().join("pg_hba.conf");
    let before = std::fs::read_to_string(&file).expect("pg_hba.conf");
    std::fs::write(&file, format!("{lines}\n{before}")).expect("pg_hba.conf is written");
    reload(pool).await;
}

/// Lets the server read its configuration files, and waits until new sessions have read them.
pub async fn reload(pool: &PgPool) {
    let asked: DateTime<Utc> = sqlx::query_scalar("select clock_timestamp()")
        .fetch_one(pool)
        .await
        .expect("a time");
    run(pool, "select pg_reload_conf()").await;
    let options = pool.connect_options();
    wait_for("the configuration to be read", async || {
        let mut session = PgConnection::connect_with(&options).await.expect("a session");
        let is_read: bool = sqlx::query_scalar("select pg_conf_load_time() >= $1")
            .bind(asked)
            .fetch_one(&mut session)
            .await
            .expect("an answer");
        is_read.then_some(())
    })
    .await;
}

pub fn tokens(n: usize) -> String {
    (0..n).map(|n| format!("t{n} ")).collect()
}

pub fn events_of(posted: &Value) -> String {
    format!("/api/runs/{}/events", posted["runId"].as_str().expect("a run"))
}

/// Reads until the reply ends with `word`.
pub async fn until_word(client: &Client, path: &str, word: &str) -> Vec<Frame> {
    let mut stream = client.stream(path).await;
    let mut frames = Vec::new();
    loop {
        let frame = stream.next_event().await.expect("the stream goes on");
        let found = frame.kind() == "token" && frame.json()["token"].as_str().expect("text").contains(word);
        frames.push(frame);
        if found {
            return frames;
        }
    }
}

/// Returns the whole log of a run, once it has ended, reconnecting as needed.
pub async fn log_of(client: &Client, path: &str) -> Vec<Frame> {
    wait_for("the run's whole log", async || {
        let response = client.request(Method::GET, path).send().await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let frames = Stream::of(response).rest().await;
        (frames.last()?.kind() == "done").then_some(frames)
    })
    .await
}

/// Checks that a log is complete: its numbers without a gap, and one end.
pub fn assert_whole(frames: &[Frame]) {
    let seqs: Vec<i64> = frames.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(seqs, (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(frames.iter().filter(|frame| frame.kind() == "done").count(), 1);
}
