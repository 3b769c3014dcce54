//! Migrations are additive (requirement C52): they keep existing data, and don't affect earlier runs.

use std::path::Path;

use rejoin_cli::migrate::{self, MIGRATOR};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::older_schema;

/// The last migration before those of tasks, routing, tools, data sources, calendars and files.
const BEFORE_TASKS: i64 = 7;

/// What migrations remove or tighten, with the reason. New ones are additive; see `migrations/README.md`.
const KNOWN: [(&str, &str, &str); 2] = [
    (
        "0007_graph.up.sql",
        "alter table kb.graph_embeddings add column vector real[] not null",
        "the table is made in the same migration, and empty",
    ),
    (
        "0007_graph.up.sql",
        "alter table kb.graph_embeddings add column vector halfvec not null",
        "the table is made in the same migration, and empty",
    ),
];

/// Returns statements that remove something from existing tables, or add requirements to their rows.
fn not_additive(sql: &str) -> Vec<String> {
    let code: Vec<&str> = sql
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default())
        .collect();
    let code = code.join(" ").to_lowercase();
    let words: Vec<&str> = code.split_whitespace().collect();
    let code = words.join(" ");
    let mut found = Vec::new();
    for statement in code.split(';').map(str::trim) {
        let Some(at) = ["alter table ", "drop table "]
            .iter()
            .find_map(|begin| statement.find(begin))
        else {
            continue;
        };
        let statement = &statement[at..];
        let is_one = statement.starts_with("drop table ")
            || statement.contains(" drop column ")
            || statement.contains(" rename ")
            || statement.contains(" set not null")
            || statement.contains(" type ") && statement.contains(" alter column ")
            || statement.contains(" set data type ")
            || statement.split(", add ").any(demands);
        if is_one {
            found.push(statement.to_owned());
        }
    }
    found
}

/// Returns whether a part of an `alter table` adds a required column without a default.
fn demands(part: &str) -> bool {
    let filled = [" default ", " generated ", " drop not null"];
    part.contains("column ") && part.contains(" not null") && !filled.iter().any(|words| part.contains(words))
}

/// Requirements: C52.
#[test]
fn what_is_not_additive_is_found() {
    for bad in [
        "drop table kb.things;",
        "alter table kb.things drop column name;",
        "alter table kb.things\n    rename column a to b;",
        "alter table kb.things alter column a set not null;",
        "alter table kb.things alter column a type bigint;",
        "alter table kb.things add column a int not null;",
        "alter table kb.things add column a int, add column b text not null; -- default '' in a comment",
    ] {
        assert_eq!(not_additive(bad).len(), 1, "{bad}");
    }
    for good in [
        "create table kb.things (id uuid primary key, name text not null);",
        "alter table kb.things add column a int;",
        "alter table kb.things add column a int not null default 0;",
        "alter table kb.things alter column a drop not null;",
        "alter table kb.things drop constraint c, add constraint c check (true);",
        "-- drop table kb.things;",
    ] {
        assert_eq!(not_additive(good), [""; 0], "{good}");
    }
}

/// Requirements: C52.
#[test]
fn migrations_add_and_take_nothing_away() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".up.sql") {
            let sql = std::fs::read_to_string(&path).unwrap();
            found.extend(
                not_additive(&sql)
                    .into_iter()
                    .map(|statement| (name.clone(), statement)),
            );
        }
    }
    found.sort();
    let known: Vec<(String, String)> = KNOWN
        .iter()
        .map(|(file, statement, _)| ((*file).to_owned(), (*statement).to_owned()))
        .collect();
    let mut known = known;
    known.sort();
    assert_eq!(found, known, "a migration adds: see migrations/README.md");
    assert_eq!(not_additive(older_schema::ADDED), [""; 0], "nor does that of the tests");
}

/// Returns all rows of a table, as JSON, with these columns only.
async fn rows(connection: &mut PgConnection, table: &str, columns: &[String]) -> Vec<Value> {
    let columns = columns.join("\", \"");
    let statement = format!("select to_jsonb(t) from (select \"{columns}\" from {table} order by 1) t");
    sqlx::query_scalar(AssertSqlSafe(statement))
        .fetch_all(connection)
        .await
        .unwrap()
}

async fn columns(connection: &mut PgConnection, table: &str) -> Vec<String> {
    sqlx::query_scalar(
        "select attname::text from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum",
    )
    .bind(table)
    .fetch_all(connection)
    .await
    .unwrap()
}

/// Tables of runs and their conversations.
const TABLES: [&str; 5] = [
    "kb.agent_runs",
    "kb.agent_run_messages",
    "kb.agent_run_tool_calls",
    "kb.chat_conversations",
    "kb.chat_messages",
];

/// Returns each table with its columns and rows.
async fn stored(url: &str) -> Vec<(&'static str, Vec<String>, Vec<Value>)> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let mut stored = Vec::new();
    for table in TABLES {
        let columns = columns(&mut connection, table).await;
        let rows = rows(&mut connection, table, &columns).await;
        assert!(!rows.is_empty(), "{table}");
        stored.push((table, columns, rows));
    }
    stored
}

/// Asserts that the stored rows are unchanged.
async fn are_the_same(url: &str, before: Vec<(&'static str, Vec<String>, Vec<Value>)>) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    for (table, columns, then) in before {
        assert_eq!(rows(&mut connection, table, &columns).await, then, "{table}");
    }
}

/// Requirements: C52.
#[tokio::test]
async fn older_runs_and_conversations_survive_a_migration() {
    let mut app = TestApp::start().await;
    let agent = app.agent("asker", &["schema_version"]).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("There is a schema."),
    ]);
    let events = json_of(&app.client().ask(Some(agent), "What is there?").await);
    let (run, conversation) = (&events[1]["runId"], &events[1]["conversationId"]);
    let run = run.as_str().unwrap().to_owned();
    app.wait_until_idle().await;
    app.crash_workers();
    app.server.take().unwrap().stop().await.unwrap();

    // The schema of then, with runs in it: without the newer migrations, …
    let url = app.db.url.clone();
    let newer = MIGRATOR
        .iter()
        .filter(|migration| migration.migration_type.is_up_migration() && migration.version > BEFORE_TASKS)
        .count();
    migrate::down(&url, newer).await.unwrap();
    let before = stored(&url).await;
    migrate::up(&url).await.unwrap();
    are_the_same(&url, before).await;
    // … and without columns that a newer one added.
    let older = older_schema::back(&url).await;
    let before = stored(&url).await;
    older_schema::upgraded(&url, older).await;
    are_the_same(&url, before).await;

    let db = support::populated_again(&app.db).await;
    let app = TestApp::over(db, AppOptions::default()).await;
    let client = app.client();
    let path = format!("/api/projects/{}/agent-runs/{run}", app.db.workspace_id);
    let (status, detail) = client.get(&path).await;
    assert_eq!(
        (
            status.as_u16(),
            &detail["state"],
            &detail["summary"],
            &detail["stepCount"]
        ),
        (200, &json!("completed"), &json!("There is a schema."), &json!(2))
    );
    let (_, calls) = client.get(&format!("{path}/tool-calls")).await;
    assert_eq!(calls["items"][0]["tool"], "schema_version");
    app.model.script([Reply::text("Still the same.")]);
    let frames = client
        .chat(json!({"message": "And now?", "conversationId": conversation}))
        .await;
    assert_eq!(text(&frames), "Still the same.");
    assert_eq!(of_kind(&json_of(&frames), "done")[0]["status"], "completed");
}
