//! Only the connection that listens keeps state in its session: a proxy reads every statement of an API and a worker.

use rejoin_tests::app::Process;
use rejoin_tests::client::{answer, text};
use rejoin_tests::graph_api::FILE;
use rejoin_tests::model_server::Reply;
use rejoin_tests::statements::{Connection, Server, Statements};
use rejoin_tests::support::{self, wait_for};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{API_LOGIN, WORKER_LOGIN, api, create_logins, events_of, without_processes};

/// Returns why a pooler in transaction mode must not see a statement, if so: what it leaves behind in the session.
fn left_behind(statement: &str) -> Option<&'static str> {
    let plain: Vec<String> = statement
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default().trim().to_lowercase())
        .collect();
    plain.join(" ").split(';').find_map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let part = words.join(" ");
        let begins = |beginning: &str| part.starts_with(beginning);
        let is_local = ["set local ", "set transaction ", "set constraints "]
            .into_iter()
            .any(begins);
        if (begins("set ") && !is_local) || begins("reset ") || begins("discard ") {
            return Some("a setting");
        }
        if part.contains("set_config(") && part.contains(", false)") {
            return Some("a setting");
        }
        if begins("listen ") || begins("unlisten ") {
            return Some("a channel");
        }
        if part.contains("pg_advisory_lock")
            || part.contains("pg_try_advisory_lock")
            || part.contains("pg_advisory_unlock")
        {
            return Some("a lock");
        }
        let is_temporary = begins("create temp") || begins("create local temp");
        if is_temporary && !part.contains("on commit drop") {
            return Some("a table");
        }
        if begins("declare ") && part.contains(" with hold") {
            return Some("a cursor");
        }
        (begins("prepare ") || begins("deallocate ")).then_some("a statement by name")
    })
}

#[test]
fn what_a_statement_leaves_in_its_session_is_known() {
    for (statement, left) in [
        ("set role rejoin_app", Some("a setting")),
        ("set local role rejoin_gate; begin", None),
        ("begin; set lock_timeout = 1", Some("a setting")),
        ("update t set a = 1", None),
        ("-- set role x\nselect 1", None),
        ("select set_config('a', $1, true)", None),
        ("select set_config('a', $1, false)", Some("a setting")),
        ("LISTEN rejoin", Some("a channel")),
        ("select pg_advisory_lock_shared(1, 2)", Some("a lock")),
        ("select pg_try_advisory_xact_lock(1)", None),
        ("create temporary table t (a int) on commit drop", None),
        ("create temp table t (a int)", Some("a table")),
        ("declare c cursor with hold for select 1", Some("a cursor")),
    ] {
        assert_eq!(left_behind(statement), left, "{statement}");
    }
}

/// Checks the connections of the pools.
fn assert_nothing_left(connections: &[Connection]) {
    let mut statements = 0;
    for connection in connections {
        assert_eq!(connection.startup.get("options"), None, "{connection:?}");
        for statement in &connection.statements {
            let left = left_behind(statement);
            assert_eq!(left, None, "{} sent: {statement}", connection.application());
            statements += 1;
        }
    }
    assert!(statements > 20, "only {statements} statements were seen");
}

/// Checks the connection that listens.
fn assert_listens(connections: &[Connection], application: &str) {
    assert!(!connections.is_empty());
    for connection in connections {
        assert_eq!(connection.application(), application);
        let options = connection.startup.get("options").expect("its role is a startup option");
        assert!(options.contains("role=rejoin_"), "{options}");
    }
    let sent = |words: &str| {
        let mut statements = connections.iter().flat_map(|connection| &connection.statements);
        statements.any(|statement| statement.contains(words))
    };
    assert!(sent("listen rejoin"));
    // A worker's session also holds its lock.
    assert_eq!(sent("pg_advisory_lock_shared"), application == "rejoin-worker-listen");
}

#[tokio::test]
async fn pooled_connections_leave_nothing_in_their_sessions() {
    let (postgres, database) = support::own_server_database().await;
    create_logins(&database.pool).await;
    let socket = Server::Socket(postgres.socket_dir().join(".s.PGSQL.5432"));
    let watch = async || Statements::watch(socket.clone()).await;
    let (of_api, of_api_listen) = (watch().await, watch().await);
    let (of_worker, of_worker_listen) = (watch().await, watch().await);
    let app = without_processes(database).await;
    let (_api, client) = api(
        &app,
        &[
            ("DATABASE_URL", of_api.url(API_LOGIN).as_str()),
            ("REJOIN_DB_POOLER", "transaction"),
            ("REJOIN_LISTEN_URL", of_api_listen.url(API_LOGIN).as_str()),
        ],
    )
    .await;
    let _worker = Process::worker_with(
        &app,
        &[
            ("DATABASE_URL", of_worker.url(WORKER_LOGIN)),
            ("REJOIN_DB_POOLER", "transaction".to_owned()),
            ("REJOIN_LISTEN_URL", of_worker_listen.url(WORKER_LOGIN)),
        ],
    );
    let agent = app.agent("asker", &["*"]).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("There is a schema."),
        Reply::hang_after(3),
    ]);
    let frames = client.ask(Some(agent), "What is there?").await;
    assert_eq!(text(&frames), "There is a schema.");
    let posted = client
        .post_message(json!({"message": "talk", "agentDefinitionId": agent}))
        .await;
    let mut reader = client.stream(&events_of(&posted)).await;
    reader.until("token").await;
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    assert_eq!(client.post(&cancel, json!({})).await.0, StatusCode::ACCEPTED);
    reader.rest().await;
    // An import has temporary tables, an export a transaction of several statements, and a search its own planner settings.
    let graph = format!("/api/projects/{}/graph", app.db.workspace_id);
    let import = client.request(Method::POST, &format!("{graph}/import"));
    let import = import.header("content-type", "application/x-ndjson").body(FILE);
    let (status, report) = answer(import.send().await.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{report}");
    let export = client.request(Method::GET, &format!("{graph}/export")).send().await;
    assert!(export.unwrap().text().await.unwrap().contains("libcurl4"));
    let (status, found) = client.get(&format!("{graph}/search?query=curl")).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    // The worker looks for others by their locks.
    wait_for("the worker's rounds", async || {
        let looked = of_worker.connections().iter().any(|connection| {
            let mut statements = connection.statements.iter();
            statements.any(|statement| statement.contains("pg_try_advisory_xact_lock"))
        });
        looked.then_some(())
    })
    .await;
    assert_nothing_left(&of_api.connections());
    assert_nothing_left(&of_worker.connections());
    assert_listens(&of_api_listen.connections(), "rejoin-api-listen");
    assert_listens(&of_worker_listen.connections(), "rejoin-worker-listen");
    let names: Vec<String> = of_api
        .connections()
        .iter()
        .map(|c| c.application().to_owned())
        .collect();
    for expected in ["rejoin-start", "rejoin-api", "rejoin-api-transfers"] {
        assert!(names.iter().any(|name| name == expected), "{expected} in {names:?}");
    }
    drop((client, app));
    postgres.stop().await.unwrap();
}
