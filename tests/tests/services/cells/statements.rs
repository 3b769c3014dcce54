//! With a warm cache, a turn on a cell asks the directory nothing.

use rejoin_api::ApiConfig;
use rejoin_identity::cells::moving::{self, Databases, Limits, Phase};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::kinds;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;

use super::{CELL, UrlFile, add, limits, wait_for_cell, worker};

/// Turns that are counted together: what happens less than once a turn is not the turn's.
const TURNS: i64 = 12;

/// Placements are read once.
fn read_once(config: &mut ApiConfig) {
    config.cells.cells = true;
    config.cells.cells_refresh_ms = 60_000;
    config.cells.cells_stale_ms = 600_000;
}

#[tokio::test]
async fn a_warm_turn_on_a_cell_asks_the_directory_nothing() {
    let (_server, directory) = support::with_counted_statements().await;
    let cell = support::database().await;
    let url = UrlFile::new(&cell.url);
    add(&directory, &url).await;
    let mut moved = moving::begin(&directory.pool, directory.workspace_id, Some(CELL))
        .await
        .expect("a move");
    let databases = Databases {
        directory: directory.pool.clone(),
        from: directory.pool.clone(),
        to: cell.pool.clone(),
    };
    // No API is there that would have to notice.
    let at_once = Limits {
        settle: std::time::Duration::ZERO,
        ..limits()
    };
    while moved.phase != Phase::Moved {
        moving::step(&databases, &at_once, &mut moved).await.expect("a step");
    }
    let options = AppOptions {
        workers: 0,
        api: read_once,
        ..AppOptions::default()
    };
    let app = TestApp::over(directory, options).await;
    let _worker = worker(&app, &cell);
    wait_for_cell(&app, "ok").await;
    app.model.always("turn", Reply::text("one two three"));
    let turns = async |count: i64| {
        for _ in 0..count {
            let frames = app.client().ask(None, "turn").await;
            assert_eq!(kinds(&frames).last().map(String::as_str), Some("done"));
        }
    };
    turns(3).await;
    sqlx::query("select pg_stat_statements_reset()")
        .execute(&app.db.pool)
        .await
        .expect("a reset");
    turns(TURNS).await;
    let executed: Vec<(i64, String)> = sqlx::query_as(
        "select calls, query from pg_stat_statements
         where dbid = (select oid from pg_database where datname = current_database()) and calls >= $1",
    )
    .bind(TURNS)
    .fetch_all(&app.db.pool)
    .await
    .expect("the statements");
    assert!(executed.is_empty(), "statements of each turn: {executed:#?}");
}
