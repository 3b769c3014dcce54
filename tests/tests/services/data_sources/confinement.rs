//! Confinement of SQLite's processes: memory, disk and time limits, their end with the caller's, and access to the
//! project's files only.

use std::path::Path;
use std::time::Duration;

use rejoin_data_sources::source::{Access, Bounds, Question};
use rejoin_data_sources::{Ask, Opened, SourceArgs, SourceError, Sources};
use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_integrations::data_sources::{Content, Kind, Settings};
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::sources::{self, Folder};
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use serde_json::{Value, json};

/// Sorts 2 GB of rows.
const BOMB: &str = "with recursive n(i) as (select 1 union all select i + 1 from n limit 5000)
    select hex(randomblob(200000)) as h, i from n order by h";
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(60),
    max_rows: 100,
    max_bytes: 1024 * 1024,
    max_bytes_billed: 0,
};
const MIB: u64 = 1024 * 1024;

/// A file with three orders.
fn shop(folder: &Folder) -> std::path::PathBuf {
    let path = folder.0.join("shop.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("create table orders (id integer primary key, item text); insert into orders (item) values ('a'), ('b'), ('c')")
        .unwrap();
    path
}

fn content(path: &Path, read_only: bool) -> Content {
    let settings = Settings {
        path: Some(path.display().to_string()),
        ..Settings::default()
    };
    Content {
        read_only,
        ..sources::content(Kind::Sqlite, settings)
    }
}

fn opened(folder: &Folder, path: &Path, read_only: bool, args: &SourceArgs) -> Opened {
    Sources::new(args, None)
        .opened(folder.1, &content(path, read_only), None)
        .unwrap()
}

fn question(query: &str, access: Access) -> Question<'_> {
    Question {
        database: None,
        query,
        access,
        bounds: BOUNDS,
    }
}

/// Processes that have the file open, except this one.
fn processes(path: &Path) -> Vec<u32> {
    let path = path.canonicalize().unwrap();
    let opens = |id: u32| {
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?;
        let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.any(|link| link == path).then_some(id)
    };
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_string_lossy().parse::<u32>().ok()
    });
    ids.filter(|id| *id != std::process::id()).filter_map(opens).collect()
}

/// Reads a line of `/proc/<id>/status`, in KiB.
fn status_kb(id: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_query_that_sorts_gigabytes_leaves_the_apis_memory_alone() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let folder = Folder::of(app.db.workspace_id);
    let path = shop(&folder);
    let folders = std::env::temp_dir().display().to_string();
    let (api, url) = Process::api_with(&app, None, &[("REJOIN_SOURCE_FOLDERS", folders.as_str())]).await;
    let client = Client::new(url, &app.db.api_key);
    let all = format!("/api/projects/{}/data-sources", app.db.workspace_id);
    let (status, added) = client
        .post(
            &all,
            json!({"name": "shop", "kind": "sqlite", "settings": {"path": path}}),
        )
        .await;
    assert_eq!(status, 201, "{added}");
    let query = format!("{all}/{}/query", added["id"].as_str().unwrap());
    let (status, answer) = client
        .post(&query, json!({"query": "select count(*) from orders"}))
        .await;
    assert_eq!((status.as_u16(), &answer["rows"]), (200, &json!([[3]])), "{answer}");
    let before = status_kb(api.id(), "VmHWM");
    let asked = (0..3).map(|_| client.post(&query, json!({"query": BOMB})));
    for (status, problem) in futures::future::join_all(asked).await {
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (422, &json!("answer_too_large")),
            "{problem}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("more than 256 MiB of memory"), "{detail}");
    }
    let joined = json!({
        "queries": [{"name": "a", "source": "shop", "query": "select id from orders"},
                    {"name": "b", "source": "shop", "query": "select item from orders"}],
        "sql": BOMB,
    });
    let (status, problem) = client.post(&format!("{all}/join"), joined).await;
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("256 MiB"), "{problem}");
    let grown = status_kb(api.id(), "VmHWM").saturating_sub(before);
    assert!(grown < 32 * 1024, "the API's peak memory grew by {grown} KiB");
    let (_, answer) = client
        .post(&query, json!({"query": "select max(item) from orders"}))
        .await;
    assert_eq!(answer["rows"], json!([["c"]]), "it still answers");
}

#[tokio::test]
async fn a_query_has_system_limits_and_ends_when_none_waits() {
    let folder = Folder::new();
    let path = shop(&folder);
    let source = opened(&folder, &path, true, &sources::args()).unguarded().clone();
    let asking = tokio::spawn(async move { source.execute(&question(ENDLESS, Access::Reads)).await });
    let id = wait_for("the process to run", async || processes(&path).first().copied()).await;
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let limit = |name: &str| -> u64 {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().expect(name)
    };
    let memory = limit("Max address space");
    assert!(memory < status_kb(id, "VmSize") * 1024 + 600 * MIB, "{memory}");
    assert_eq!(limit("Max file size"), 4 * MIB);
    assert_eq!(limit("Max cpu time"), 62);
    assert_eq!(limit("Max core file size"), 0);
    assert_eq!(
        std::fs::read(format!("/proc/{id}/environ")).unwrap(),
        b"",
        "it has no environment"
    );
    asking.abort();
    wait_for("the process to be ended", async || {
        processes(&path).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_question_waits_for_a_place_within_its_time() {
    let folder = Folder::new();
    let path = shop(&folder);
    let args = SourceArgs {
        source_sqlite_processes: 1,
        ..sources::args()
    };
    let all = Sources::new(&args, None);
    let (first, second) = (
        all.opened(folder.1, &content(&path, true), None).unwrap(),
        all.opened(folder.1, &content(&path, true), None).unwrap(),
    );
    let source = first.unguarded().clone();
    let asking = tokio::spawn(async move { source.execute(&question(ENDLESS, Access::Reads)).await });
    wait_for("the process to run", async || {
        (processes(&path).len() == 1).then_some(())
    })
    .await;
    let ask = Ask {
        timeout: Some(Duration::from_millis(300)),
        ..Ask::reading(None, "select 1")
    };
    assert_eq!(second.query(ask).await.unwrap_err(), SourceError::TimedOut(300));
    asking.abort();
    let answer = second.query(Ask::reading(None, "select 1")).await.unwrap();
    assert_eq!(answer.rows.rows, [[json!(1)]]);
}

#[tokio::test]
async fn an_abandoned_write_is_rolled_back_and_files_are_bounded() {
    let folder = Folder::new();
    let path = shop(&folder);
    let args = SourceArgs {
        source_sqlite_file_mb: 1,
        ..sources::args()
    };
    let opened = opened(&folder, &path, false, &args);
    let rows = async || {
        let answer = opened.query(Ask::reading(None, "select count(*) from orders")).await;
        answer.unwrap().rows.rows
    };
    let write = |query| Ask {
        access: Access::Writes,
        ..Ask::reading(None, query)
    };
    let written = opened
        .query(write("insert into orders (item) values ('d')"))
        .await
        .unwrap();
    assert_eq!(written.rows.affected_rows, Some(1));
    let huge = "insert into orders (item) with recursive n(i) as (select 1 union all select i + 1 from n limit 5000) select hex(zeroblob(500)) from n";
    let refused = opened.query(write(huge)).await.unwrap_err();
    assert!(
        matches!(&refused, SourceError::TooLarge(said) if said.contains("1 MiB") && said.contains("REJOIN_SOURCE_SQLITE_FILE_MB")),
        "{refused:?}"
    );
    assert_eq!(rows().await, [[json!(4)]]);

    let source = opened.unguarded().clone();
    let asking = tokio::spawn(async move {
        let endless = "update orders set item = 'x' where id = 1 or (with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n) > 0";
        source.execute(&question(endless, Access::Writes)).await
    });
    wait_for("the process to run", async || {
        (processes(&path).len() == 1).then_some(())
    })
    .await;
    asking.abort();
    wait_for("the process to be ended", async || {
        processes(&path).is_empty().then_some(())
    })
    .await;
    assert_eq!(rows().await, [[json!(4)]]);
    let answer = opened
        .query(Ask::reading(None, "select item from orders order by id"))
        .await
        .unwrap();
    assert_eq!(
        answer.rows.rows,
        [[json!("a")], [json!("b")], [json!("c")], [json!("d")]]
    );
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "no journal is left");
}

#[tokio::test]
async fn a_program_of_another_version_is_named_in_the_error() {
    let folder = Folder::new();
    let path = shop(&folder);
    for (program, said) in [
        ("/nowhere/rejoin", "/nowhere/rejoin"),
        ("/bin/true", "REJOIN_SOURCE_SQLITE_PROGRAM"),
    ] {
        let args = SourceArgs {
            source_sqlite_program: Some(program.into()),
            ..sources::args()
        };
        let refused = opened(&folder, &path, true, &args).test().await.unwrap_err();
        assert!(
            matches!(&refused, SourceError::Unconfigured(text) if text.contains(said)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn an_admin_opens_no_file_of_another_project() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| config.sources = sources::args(),
        ..AppOptions::default()
    })
    .await;
    let own = Folder::of(app.db.workspace_id);
    let path = shop(&own);
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    let eve = workspaces::ensure_user(&mut db, "eve@example.org").await.unwrap();
    workspaces::add_member(&mut db, other, eve, Role::Owner).await.unwrap();
    let (_, key) = auth::create_key(&mut db, eve, Some(other), "eve", &Scope::ALL, None)
        .await
        .unwrap();
    drop(db);
    let theirs = Folder::of(other);
    std::os::unix::fs::symlink(&path, theirs.0.join("link.db")).unwrap();
    std::os::unix::fs::symlink(&own.0, theirs.0.join("folder")).unwrap();
    std::fs::copy(&path, theirs.0.join("copy.db")).unwrap();
    let add = async |client: &Client, project, kind: &str, path: &Path, read_only: bool| {
        let body = json!({"name": format!("s{}", uuid::Uuid::now_v7().simple()), "kind": kind, "settings": {"path": path}, "readOnly": read_only});
        client
            .post(&format!("/api/projects/{project}/data-sources"), body)
            .await
    };
    let eve = Client::new(app.url(), &key);
    for kind in ["sqlite", "duckdb"] {
        for refused in [
            path.clone(),
            theirs.0.join("link.db"),
            theirs.0.join("folder/shop.db"),
            theirs
                .0
                .join("..")
                .join(app.db.workspace_id.to_string())
                .join("shop.db"),
        ] {
            let (status, problem): (_, Value) = add(&eve, other, kind, &refused, true).await;
            assert_eq!(status, 422, "{kind} {}: {problem}", refused.display());
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("is not a file of this project"), "{kind}: {detail}");
        }
    }
    let (status, problem) = add(&eve, other, "sqlite", &path, false).await;
    assert_eq!(status, 422, "{problem}");
    let (status, added) = add(&eve, other, "sqlite", &theirs.0.join("copy.db"), true).await;
    assert_eq!(status, 201, "{added}");
    let (status, added) = add(&app.client(), app.db.workspace_id, "sqlite", &path, true).await;
    assert_eq!(status, 201, "{added}");
}
