//! Passwords that change while processes run: from a file, and from a command.

use std::path::PathBuf;

use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_tests::app::Process;
use rejoin_tests::support::{self, wait_for};
use sqlx::PgPool;
use uuid::Uuid;

use super::{authenticate, run, without_processes};

const LOGIN: &str = "rotating";
const FIRST: &str = "first-5ecret";
const SECOND: &str = "second-5ecret";

/// A file of this test.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("rejoin-{name}-{}", Uuid::now_v7().simple()))
}

async fn create_login(pool: &PgPool) {
    run(
        pool,
        &format!("create role {LOGIN} login password '{FIRST}' in role rejoin_app, rejoin_gate, rejoin_worker"),
    )
    .await;
}

/// Changes the password and ends all sessions, so that new ones are needed.
async fn rotate(pool: &PgPool) {
    run(pool, &format!("alter role {LOGIN} password '{SECOND}'")).await;
    run(
        pool,
        &format!("select pg_terminate_backend(pid) from pg_stat_activity where usename = '{LOGIN}'"),
    )
    .await;
}

fn login(url: &str) -> String {
    url.replace("//rejoin@", &format!("//{LOGIN}@"))
}

/// Whether both drivers' pools give a connection.
async fn connects(db: &Db) -> bool {
    let by_sqlx = sqlx::query("select 1").execute(&db.pool_sqlx).await.is_ok();
    let by_tokio_postgres = match db.pool_pg.get().await {
        Ok(client) => client.batch_execute("select 1").await.is_ok(),
        Err(_) => false,
    };
    by_sqlx && by_tokio_postgres
}

#[tokio::test]
async fn a_password_file_is_read_for_each_new_connection() {
    let (postgres, database) = support::own_server_database().await;
    create_login(&database.pool).await;
    authenticate(&postgres, &database.pool, &format!("local all {LOGIN} scram-sha-256")).await;
    let secret = file("password");
    std::fs::write(&secret, format!("{FIRST}\n")).unwrap();
    let args = DatabaseArgs {
        db_password_file: Some(secret.clone()),
        ..DatabaseArgs::new(login(&database.url))
    };
    let db = Db::connect_lazy(&args, "rejoin-test", Role::Worker).unwrap();
    assert!(connects(&db).await);
    std::fs::write(&secret, "wrong\n").unwrap();
    let wrong = Db::connect_lazy(&args, "rejoin-test", Role::Worker).unwrap();
    let refused = wrong.pool_pg.get().await.expect_err("a wrong password");
    assert!(!format!("{refused:?}").contains("wrong"), "{refused:?}");
    rotate(&database.pool).await;
    std::fs::write(&secret, format!("{SECOND}\n")).unwrap();
    wait_for("connections with the new password", async || {
        connects(&db).await.then_some(())
    })
    .await;
    drop((db, wrong));
    std::fs::remove_file(secret).unwrap();
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_password_command_runs_once_and_again_when_refused() {
    let (postgres, database) = support::own_server_database().await;
    create_login(&database.pool).await;
    authenticate(&postgres, &database.pool, &format!("local all {LOGIN} scram-sha-256")).await;
    let app = without_processes(database).await;
    let (secret, runs, log) = (file("secret"), file("runs"), file("log"));
    std::fs::write(&secret, FIRST).unwrap();
    let command = format!("echo run >>'{}'; cat '{}'", runs.display(), secret.display());
    let variables = [
        ("DATABASE_URL", login(&app.db.url)),
        ("REJOIN_DB_PASSWORD_COMMAND", command),
    ];
    let worker = Process::worker_logging(&app, &variables, std::fs::File::create(&log).unwrap());
    let times = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    wait_for("the worker", async || is_alive(&app.db.pool).await.then_some(())).await;
    assert_eq!(times(), 1, "one for the checks at the start and all pools");
    // First the new answer, so that no run in between gets the old one.
    std::fs::write(&secret, SECOND).unwrap();
    rotate(&app.db.pool).await;
    wait_for("the command's second run", async || (times() == 2).then_some(())).await;
    run(
        &app.db.pool,
        "update queue.workers set seen_at = now() - interval '1 hour'",
    )
    .await;
    wait_for("a heartbeat with the new password", async || {
        is_alive(&app.db.pool).await.then_some(())
    })
    .await;
    assert_eq!(times(), 2);
    worker.kill();
    let printed = std::fs::read_to_string(&log).unwrap();
    assert!(!printed.contains("5ecret"), "{printed}");
    for file in [secret, runs, log] {
        std::fs::remove_file(file).unwrap();
    }
    drop(app);
    postgres.stop().await.unwrap();
}

/// Whether a worker has sent a heartbeat lately.
async fn is_alive(pool: &PgPool) -> bool {
    sqlx::query_scalar("select exists (select from queue.workers where seen_at > now() - interval '1 minute')")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn two_sources_of_a_password_are_refused_with_their_names() {
    let args = DatabaseArgs {
        db_password_file: Some("/password".into()),
        db_password_command: Some("echo x".to_owned()),
        ..DatabaseArgs::new("postgres://u@h/db")
    };
    let Err(refused) = Db::connect_lazy(&args, "rejoin-test", Role::Login) else {
        panic!("both are used");
    };
    let text = refused.to_string();
    assert!(
        text.contains("REJOIN_DB_PASSWORD_FILE") && text.contains("REJOIN_DB_PASSWORD_COMMAND"),
        "{text}"
    );
}
