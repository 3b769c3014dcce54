//! Protections behind the guard of data sources: the attacks that it refuses, sent without it to real servers; queries
//! that are too slow, too large, or abandoned.

use std::time::Duration;

use rejoin_data_sources::source::{Access, Bounds, Question, Source};
use rejoin_data_sources::{Ask, Opened, SourceError, Sources};
use rejoin_integrations::data_sources::{Kind, Limits, Settings};
use rejoin_tests::sources::{self, Folder, MariaDb};
use rejoin_tests::support::{self, wait_for};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_millis(500),
    max_rows: 100,
    max_bytes: 100_000,
    max_bytes_billed: 0,
};

fn opened(kind: Kind, settings: Settings) -> Opened {
    opened_in(Uuid::now_v7(), kind, settings)
}

fn opened_in(workspace_id: Uuid, kind: Kind, settings: Settings) -> Opened {
    Sources::new(&sources::args(), None)
        .opened(workspace_id, &sources::content(kind, settings), None)
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

/// Sends each attack as if the guard had accepted it. Those that the server accepts, since they have no or only a
/// reverted effect, are marked.
async fn all_refused(list: &str, source: &dyn Source) {
    let mut passed = Vec::new();
    for attack in list.lines().filter(|line| !line.starts_with('#')) {
        let (query, is_undone) = match attack.strip_prefix('~') {
            Some(query) => (query, true),
            None => (attack, false),
        };
        if source.execute(&question(query)).await.is_ok() && !is_undone {
            passed.push(query);
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

/// Returns everything in a database that an attack could have changed.
async fn state(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select 'orders ' || count(*) || ' ' || sum(id) || ' ' || md5(string_agg(item, ',' order by id)) from shop.orders
         union all select 'tables ' || string_agg(relname, ',' order by relname) from pg_class where relkind in ('r', 'v', 'm')
         union all select 'roles ' || string_agg(rolname || rolsuper, ',' order by rolname) from pg_roles where rolname not like 'reader%'
         union all select 'objects ' || count(*) from pg_largeobject_metadata
         union all select 'sequences ' || last_value || is_called from shop.numbers
         union all select 'functions ' || count(*) from pg_proc
         union all select 'settings ' || count(*) from pg_db_role_setting where setrole::regrole::text not like 'reader%'",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn behind_the_guard_postgresql_itself_refuses_every_attack() {
    let db = support::database().await;
    let opened = opened(Kind::Postgresql, sources::postgresql(&db).await);
    let before = state(&db.pool).await;
    all_refused(
        include_str!("../../../../extensions/data-sources/tests/attacks/postgresql.sql"),
        &**opened.unguarded(),
    )
    .await;
    assert_eq!(state(&db.pool).await, before);
    let answer = opened
        .query(Ask::reading(None, "select count(*) from orders"))
        .await
        .unwrap();
    assert_eq!(answer.rows.rows, [[json!(500)]], "it still answers");
}

#[tokio::test]
async fn behind_the_guard_sqlite_itself_refuses_every_attack() {
    let folder = Folder::new();
    let path = folder.0.join("shop.db");
    let file = path.display().to_string();
    let made = std::process::Command::new("python3")
        .args(["-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('create table orders (id integer primary key, item text)'); db.executemany('insert into orders values (?, ?)', [(n, f'thing {n}') for n in range(1, 501)]); db.execute('create index by_item on orders (item)'); db.commit()"])
        .arg(&path)
        .status();
    if !made.is_ok_and(|made| made.success()) {
        rejoin_tests::needs::skip("there is no Python that can make a SQLite file");
        return;
    }
    let before = std::fs::read(&path).unwrap();
    let settings = Settings {
        path: Some(file),
        ..Settings::default()
    };
    let opened = opened_in(folder.1, Kind::Sqlite, settings);
    all_refused(
        include_str!("../../../../extensions/data-sources/tests/attacks/sqlite.sql"),
        &**opened.unguarded(),
    )
    .await;
    assert!(std::fs::read(&path).unwrap() == before, "not a byte has changed");
    let entries = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(entries, 1, "no other file was made");

    let answer = opened
        .query(Ask::reading(None, "select count(*), max(item) from orders"))
        .await
        .unwrap();
    assert_eq!(answer.rows.rows, [[json!(500), json!("thing 99")]]);
    assert_eq!(opened.tables(None).await.unwrap()[0].name, "orders");
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(schema["columns"][0]["primaryKey"], json!(true), "{schema}");
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    assert!(matches!(
        opened.unguarded().execute(&question(endless)).await,
        Err(SourceError::TimedOut(500))
    ));
    let outside = Settings {
        path: Some("/etc/hostname".to_owned()),
        ..Settings::default()
    };
    let refused = self::opened(Kind::Sqlite, outside).test().await.unwrap_err();
    assert!(refused.to_string().contains("REJOIN_SOURCE_FOLDERS"), "{refused}");
}

#[tokio::test]
async fn behind_the_guard_mariadb_itself_refuses_every_attack() {
    let Some(server) = MariaDb::start().await else { return };
    let all = "select count(*), sum(id) from shop.orders; select table_schema, table_name from information_schema.tables where table_schema not in ('information_schema', 'sys') order by 1, 2; select user, host from mysql.user order by 1; select @@global.max_connections, @@global.sql_mode; select routine_name from information_schema.routines where routine_schema = 'shop'; select event_name from information_schema.events";
    let before = server.output(all).await.unwrap();
    let opened = opened(Kind::Mysql, server.settings());
    all_refused(
        include_str!("../../../../extensions/data-sources/tests/attacks/mysql.sql"),
        &**opened.unguarded(),
    )
    .await;
    assert_eq!(server.output(all).await.unwrap(), before);

    let tested = opened.test().await.unwrap();
    assert!(
        tested.server.contains("MariaDB") && tested.warnings.is_empty(),
        "{tested:?}"
    );
    assert_eq!(opened.databases().await.unwrap(), ["shop"]);
    assert_eq!(opened.tables(None).await.unwrap()[0].name, "orders");
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(schema["columns"][0]["primaryKey"], json!(true), "{schema}");
    let answer = opened
        .query(Ask::reading(
            None,
            "select id, item, price, at from orders where id = 3",
        ))
        .await
        .unwrap();
    assert_eq!(
        answer.rows.rows,
        [[json!(3), json!("thing 3"), json!("0.75"), json!("2026-01-02 03:04:05")]]
    );
    let some = Ask {
        max_rows: Some(5),
        ..Ask::reading(None, "select id from orders")
    };
    let answer = opened.query(some).await.unwrap();
    assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (5, true));
    let plan = opened
        .explain(Ask::reading(None, "select * from orders"))
        .await
        .unwrap();
    assert!(plan["query_block"].is_object(), "{plan}");

    let source = opened.unguarded().clone();
    let long = Bounds {
        timeout: Duration::from_secs(60),
        ..BOUNDS
    };
    let asking = tokio::spawn(async move {
        let question = Question {
            bounds: long,
            ..question("select sleep(59) from orders")
        };
        source.execute(&question).await
    });
    let count = "select count(*) from information_schema.processlist where info like 'select sleep(59)%'";
    let runs = async |wanted: &str| (server.output(count).await?.trim() == wanted).then_some(());
    wait_for("the query to run", async || runs("1").await).await;
    asking.abort();
    wait_for("the query to be killed", async || runs("0").await).await;
}

#[tokio::test]
async fn an_abandoned_query_ends_on_the_server() {
    let db = support::database().await;
    let opened = opened(Kind::Postgresql, sources::postgresql(&db).await);
    let source = opened.unguarded().clone();
    let asking = tokio::spawn(async move {
        let question = Question {
            bounds: Bounds {
                timeout: Duration::from_secs(60),
                ..BOUNDS
            },
            ..question("select pg_sleep(59)")
        };
        source.execute(&question).await
    });
    let runs = async |wanted: bool| {
        let found: bool = sqlx::query_scalar(
            "select exists (select from pg_stat_activity where application_name = 'rejoin' and state = 'active'
                            and datname = current_database() and query like '%fetch forward%')",
        )
        .fetch_one(&db.pool)
        .await
        .unwrap();
        (found == wanted).then_some(())
    };
    wait_for("the query to run", async || runs(true).await).await;
    asking.abort();
    wait_for("the query to be cancelled", async || runs(false).await).await;
}

#[tokio::test]
async fn a_query_has_bounds_of_time_rows_and_bytes() {
    let db = support::database().await;
    let mut content = sources::content(Kind::Postgresql, sources::postgresql(&db).await);
    content.limits = Limits {
        timeout_ms: Some(700),
        max_rows: Some(50),
        max_bytes: Some(10_000),
        ..Limits::default()
    };
    let opened = Sources::new(&sources::args(), None)
        .opened(Uuid::now_v7(), &content, None)
        .unwrap();
    let ask = async |query: &str| opened.query(Ask::reading(None, query)).await;
    let slow = "select count(*) from generate_series(1, 1000000000) a, generate_series(1, 1000) b";
    assert!(
        matches!(ask(slow).await, Err(SourceError::TimedOut(700))),
        "{:?}",
        ask(slow).await
    );
    let answer = ask("select id from orders limit 1000000").await.unwrap();
    assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (50, true));
    let answer = ask("select repeat('x', 1000) from orders").await.unwrap();
    assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (9, true));
    let huge = ask("select repeat('x', 5000000)").await;
    assert!(matches!(huge, Err(SourceError::TooLarge(_))), "{huge:?}");
    assert_eq!(
        ask("select 1 as a").await.unwrap().rows.rows,
        [[json!(1)]],
        "and goes on"
    );
    let answer = ask("show server_version").await.unwrap();
    assert_eq!(answer.rows.rows.len(), 1);
}

#[tokio::test]
async fn a_host_that_the_operator_does_not_name_is_not_asked() {
    let nobody = Sources::new(&rejoin_data_sources::SourceArgs::default(), None);
    for host in [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "10.1.2.3",
        "/var/run/postgresql",
    ] {
        let settings = Settings {
            host: Some(host.to_owned()),
            database: Some("x".to_owned()),
            user: Some("x".to_owned()),
            tls: Some(false),
            ..Settings::default()
        };
        for kind in [Kind::Postgresql, Kind::Mysql, Kind::Mongodb] {
            if kind == Kind::Mongodb && host.starts_with('/') {
                continue;
            }
            let refused = nobody
                .opened(Uuid::now_v7(), &sources::content(kind, settings.clone()), None)
                .unwrap()
                .test()
                .await
                .unwrap_err();
            assert!(
                refused.to_string().contains("REJOIN_SOURCE_HOSTS"),
                "{kind:?} {host}: {refused}"
            );
        }
    }
}
