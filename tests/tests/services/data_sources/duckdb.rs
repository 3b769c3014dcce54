//! DuckDB files as data sources, with DuckDB's real program: results, attacks sent without the guard, and its process
//! ends with the query.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rejoin_data_sources::source::{Access, Bounds, Question};
use rejoin_data_sources::{Ask, Opened, SourceArgs, SourceError, Sources};
use rejoin_integrations::data_sources::{Kind, Settings};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::sources::{self, Folder};
use rejoin_tests::support::wait_for;
use serde_json::json;

const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(2),
    max_rows: 100,
    max_bytes: 100_000,
    max_bytes_billed: 0,
};
const ENDLESS: &str = "select count(*) from range(1000000000000) t(i) where hash(i) = 1";

/// A file with 500 orders. None: the program is not installed.
fn shop(folder: &Folder) -> Option<PathBuf> {
    let Some(program) = sources::duckdb() else {
        rejoin_tests::needs::skip("DuckDB's program is not installed: scripts/setup-sources.sh installs it");
        return None;
    };
    let path = folder.0.join("shop.duckdb");
    let made = std::process::Command::new(program)
        .arg(&path)
        .arg("create table orders (id integer primary key, item varchar, price decimal(10, 2)); insert into orders select i, 'thing ' || i, i / 4 from range(1, 501) t(i); create schema old; create view old.names as select item from orders; comment on column orders.item is 'its name'")
        .status()
        .unwrap();
    assert!(made.success());
    Some(path)
}

fn opened(folder: &Folder, path: &Path, args: &SourceArgs) -> Opened {
    let settings = Settings {
        path: Some(path.display().to_string()),
        ..Settings::default()
    };
    Sources::new(args, None)
        .opened(folder.1, &sources::content(Kind::Duckdb, settings), None)
        .unwrap()
}

fn question(query: &str) -> Question<'_> {
    Question {
        database: None,
        query,
        access: Access::Reads,
        bounds: BOUNDS,
    }
}

/// Processes that have the file open.
fn processes(path: &Path) -> usize {
    let path = path.display().to_string();
    let lines = std::fs::read_dir("/proc").unwrap().filter_map(|process| {
        let line = std::fs::read(process.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(&path).then_some(())
    });
    lines.count()
}

#[tokio::test]
async fn behind_the_guard_duckdb_itself_refuses_every_attack() {
    let folder = Folder::new();
    let Some(path) = shop(&folder) else { return };
    let before = std::fs::read(&path).unwrap();
    let opened = opened(&folder, &path, &sources::args());
    let mut passed = Vec::new();
    for attack in include_str!("../../../../extensions/data-sources/tests/attacks/duckdb.sql").lines() {
        let is_harmless = attack.starts_with(['#', '~']);
        let query = attack.trim_start_matches('~');
        let answer = opened.unguarded().execute(&question(query)).await;
        if answer.is_ok() && !is_harmless {
            passed.push(query);
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
    assert!(std::fs::read(&path).unwrap() == before, "not a byte has changed");
    assert_eq!(
        std::fs::read_dir(&folder.0).unwrap().count(),
        1,
        "no other file was made"
    );
    for stolen in ["stolen", "stolen.db", "stolen.csv", "stolen.parquet"] {
        assert!(!Path::new("/tmp").join(stolen).exists(), "{stolen}");
    }
    let answer = opened.query(Ask::reading(None, "select count(*) from orders")).await;
    assert_eq!(answer.unwrap().rows.rows, [[json!(500)]], "it still answers");
}

#[tokio::test]
async fn a_duckdb_query_is_bounded_and_its_process_ends_with_it() {
    let folder = Folder::new();
    let Some(path) = shop(&folder) else { return };
    let opened = opened(&folder, &path, &sources::args());
    let tested = opened.test().await.unwrap();
    assert!(
        tested.server.starts_with("DuckDB v") && tested.warnings.is_empty(),
        "{tested:?}"
    );
    let tables: Vec<(String, String)> = opened
        .tables(None)
        .await
        .unwrap()
        .into_iter()
        .map(|table| (table.name, table.kind))
        .collect();
    let named = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    assert_eq!(tables, [named("old.names", "view"), named("orders", "table")]);
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(
        (
            &schema["columns"][0]["name"],
            &schema["columns"][0]["primaryKey"],
            &schema["columns"][2]["type"]
        ),
        (&json!("id"), &json!(true), &json!("decimal(10,2)")),
        "{schema}"
    );
    assert_eq!(schema["columns"][1]["comment"], "its name");
    assert!(
        opened
            .schema(None, "it's not")
            .await
            .unwrap_err()
            .to_string()
            .contains("does not exist")
    );

    let ask = async |query: &str| opened.query(Ask::reading(None, query)).await;
    let answer = ask(
        "select id, id, price, [1, 2] as list, {'a': 'ä\"'} as doc, null as none, date '2026-01-02' as day, true as ok
         from orders where id = 3; -- done",
    )
    .await
    .unwrap();
    assert_eq!(
        answer.rows.rows,
        [[
            json!(3),
            json!(3),
            json!("0.75"),
            json!([1, 2]),
            json!({"a": "ä\""}),
            json!(null),
            json!("2026-01-02"),
            json!(true)
        ]]
    );
    assert_eq!(answer.rows.columns[2].type_name, "decimal(10,2)");
    let none = ask("select id, item from orders where false").await.unwrap();
    assert_eq!((none.rows.columns.len(), none.rows.rows.len()), (2, 0));
    assert_eq!(
        ask("from orders select max(id)").await.unwrap().rows.rows,
        [[json!(500)]]
    );
    let some = Ask {
        max_rows: Some(5),
        ..Ask::reading(None, "select id from orders order by id")
    };
    let answer = opened.query(some).await.unwrap();
    assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (5, true));
    let plan = opened
        .explain(Ask::reading(None, "select * from orders"))
        .await
        .unwrap();
    assert!(plan["plan"].as_str().unwrap().contains("SEQ_SCAN"), "{plan}");

    let wrong = ask("select nothing from orders").await;
    assert!(
        matches!(&wrong, Err(SourceError::Failed(said)) if said.contains("\"nothing\"")),
        "{wrong:?}"
    );
    let unknown = ask("select 1e308::double * 10 as x").await;
    assert!(matches!(unknown, Err(SourceError::Failed(_))), "{unknown:?}");
    let huge = ask("select repeat('x', 5000000)").await;
    assert!(matches!(huge, Err(SourceError::TooLarge(_))), "{huge:?}");
    let late = opened.unguarded().execute(&question(ENDLESS)).await;
    assert!(matches!(late, Err(SourceError::TimedOut(2000))), "{late:?}");
    let greedy = "select count(*) from (select distinct i::text || repeat('x', 100) from range(200000000) t(i))";
    let greedy = opened.unguarded().execute(&question(greedy)).await;
    assert!(greedy.is_err(), "{greedy:?}");

    let source = opened.unguarded().clone();
    let asking = tokio::spawn(async move {
        let long = Bounds {
            timeout: Duration::from_secs(60),
            ..BOUNDS
        };
        source
            .execute(&Question {
                bounds: long,
                ..question(ENDLESS)
            })
            .await
    });
    wait_for("the program to run", async || (processes(&path) == 1).then_some(())).await;
    asking.abort();
    wait_for("the program to be ended", async || {
        (processes(&path) == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn duckdb_takes_a_program_and_a_folder_of_the_operators() {
    let folder = Folder::new();
    let path = folder.0.join("shop.duckdb");
    let without = SourceArgs {
        source_duckdb: None,
        ..sources::args()
    };
    let refused = opened(&folder, &path, &without).test().await.unwrap_err();
    assert!(refused.to_string().contains("REJOIN_DUCKDB"), "{refused}");
    let nowhere = SourceArgs {
        source_duckdb: Some("/nowhere/duckdb".into()),
        ..sources::args()
    };
    std::fs::write(&path, "no database").unwrap();
    let refused = opened(&folder, &path, &nowhere).test().await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("running the DuckDB program /nowhere/duckdb failed"),
        "{refused}"
    );
    let refused = opened(&folder, Path::new("/etc/hostname"), &nowhere)
        .test()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("REJOIN_SOURCE_FOLDERS"), "{refused}");
}

#[tokio::test]
async fn a_duckdb_source_is_added_asked_and_never_written_to() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| config.sources = sources::args(),
        ..AppOptions::default()
    })
    .await;
    let folder = Folder::of(app.db.workspace_id);
    let Some(path) = shop(&folder) else { return };
    let client = app.client();
    let all = format!("/api/projects/{}/data-sources", app.db.workspace_id);
    let mut body = json!({"name": "shop", "kind": "duckdb", "settings": {"path": path}, "readOnly": false});
    let (status, problem) = client.post(&all, body.clone()).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("invalid_data_source")),
        "{problem}"
    );
    body["readOnly"] = json!(true);
    let (status, added) = client.post(&all, body).await;
    assert_eq!(status, 201, "{added}");
    let query = format!("{all}/{}/query", added["id"].as_str().unwrap());
    let (_, answer) = client
        .post(&query, json!({"query": "select sum(id) as n from orders"}))
        .await;
    assert_eq!(answer["rows"], json!([["125250"]]), "{answer}");
    for write in [false, true] {
        let (status, problem) = client
            .post(&query, json!({"query": "delete from orders", "write": write}))
            .await;
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (422, &json!("query_refused")),
            "{problem}"
        );
    }
}
