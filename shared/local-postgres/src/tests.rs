//! Tests of a private PostgreSQL: as root and not, killed, restarted, orphaned.
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use sqlx::{Connection, PgConnection};

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn fresh_dir(parent: &Path) -> PathBuf {
    let dir = parent.join(format!("rejoin-test-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&dir).unwrap();
    // Like mkdtemp's.
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn quick(data_dir: &Path) -> PostgresOptions {
    PostgresOptions {
        durable: false,
        ..PostgresOptions::durable(data_dir)
    }
}

async fn ask(url: &str, sql: &'static str) -> Result<String> {
    let mut connection = PgConnection::connect(url).await?;
    Ok(sqlx::query_scalar(sql).fetch_one(&mut connection).await?)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        sleep(LOOK_EVERY).await;
    }
}

#[tokio::test]
async fn it_keeps_its_data_over_a_restart_and_a_crash_and_stops() {
    let dir = fresh_dir(&std::env::temp_dir());
    let postgres = PrivatePostgres::start(quick(&dir)).await.unwrap();
    let url = postgres.url();
    assert_eq!(
        ask(&url, "select current_database() || ' ' || current_user")
            .await
            .unwrap(),
        "rejoin rejoin"
    );
    assert_eq!(
        ask(&url, "select upper('ä') || current_setting('server_encoding')")
            .await
            .unwrap(),
        "ÄUTF8"
    );
    assert_eq!(
        ask(
            &url,
            "select current_setting('listen_addresses') || current_setting('fsync')"
        )
        .await
        .unwrap(),
        "off"
    );
    ask(&url, "create table kept as select 'here' as word; select 'ok'")
        .await
        .unwrap_err();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("create table kept as select 'here' as word")
        .execute(&mut connection)
        .await
        .unwrap();

    let first = postgres.pid().unwrap();
    postgres.restart().await.unwrap();
    assert_ne!(postgres.pid().unwrap(), first);
    assert_eq!(ask(&url, "select word from kept").await.unwrap(), "here");

    // SIGKILL of the server leaves its lock file and, for a moment, its children.
    process::send(postgres.pid().unwrap(), Signal::Kill).unwrap();
    assert!(postgres.exited().await.is_some());
    postgres.restart().await.unwrap();
    assert_eq!(ask(&url, "select word from kept").await.unwrap(), "here");
    postgres.stop_immediate().await.unwrap();
    assert_eq!(postgres.pid(), None);
    assert!(ask(&url, "select 'x'").await.is_err());
    drop(postgres);

    // Another owner later: the same directory, URL and data.
    let again = PrivatePostgres::start(quick(&dir)).await.unwrap();
    assert_eq!(again.url(), url);
    assert_eq!(ask(&url, "select word from kept").await.unwrap(), "here");

    // A second owner learns of the first.
    let refused = format!("{:#}", PrivatePostgres::start(quick(&dir)).await.unwrap_err());
    assert!(
        refused.contains(&format!("is in use by pid {}", std::process::id())),
        "{refused}"
    );
    again.stop().await.unwrap();
    assert!(dir.join("rejoin.lock").exists(), "a durable directory stays");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn an_ephemeral_one_leaves_nothing_behind() {
    let options = PostgresOptions::ephemeral();
    let dir = options.data_dir.clone();
    let postgres = PrivatePostgres::start(options).await.unwrap();
    let socket_dir = postgres.setup.place.socket_dir.clone();
    assert!(dir.exists() && socket_dir.exists());
    drop(postgres);
    assert!(!dir.exists() && !socket_dir.exists());
}

#[tokio::test]
async fn as_root_an_unreachable_directory_gets_a_cluster_elsewhere() {
    if process::server_user().unwrap().is_none() {
        eprintln!("SKIPPED: only root starts PostgreSQL as another user");
        return;
    }
    let closed = fresh_dir(&std::env::temp_dir());
    let dir = closed.join("data");
    let postgres = PrivatePostgres::start(quick(&dir)).await.unwrap();
    let cluster = postgres.cluster_dir().to_owned();
    assert!(cluster.starts_with("/var/lib/rejoin"), "{}", cluster.display());
    assert_eq!(ask(&postgres.url(), "select 'there'").await.unwrap(), "there");
    postgres.stop().await.unwrap();
    drop(postgres);
    // It is found again; and a removed directory starts again, without the old cluster.
    let again = PrivatePostgres::start(quick(&dir)).await.unwrap();
    assert_eq!(again.cluster_dir(), cluster);
    drop(again);
    std::fs::remove_dir_all(&dir).unwrap();
    let anew = PrivatePostgres::start(PostgresOptions {
        ephemeral: true,
        ..quick(&dir)
    })
    .await
    .unwrap();
    assert_ne!(anew.cluster_dir(), cluster);
    assert!(!cluster.exists());
    let cluster = anew.cluster_dir().to_owned();
    drop(anew);
    assert!(!cluster.exists());
    std::fs::remove_dir_all(closed).unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_start_shows_its_log() {
    let options = PostgresOptions {
        extra_settings: vec![("no_such_setting".to_owned(), "1".to_owned())],
        ..PostgresOptions::ephemeral()
    };
    let dir = options.data_dir.clone();
    let error = format!("{:#}", PrivatePostgres::start(options).await.unwrap_err());
    assert!(error.contains("no_such_setting"), "{error}");
    until("the directory to be removed", || !dir.exists()).await;
}

/// Not a test: the owner killed by the next test, in a separate process.
#[tokio::test]
async fn owner_for_the_next_test() {
    let Some(dir) = std::env::var_os("REJOIN_TEST_POSTGRES_DIR").map(PathBuf::from) else {
        return;
    };
    let postgres = PrivatePostgres::start(quick(&dir)).await.unwrap();
    std::fs::write(
        dir.join("told.new"),
        format!("{} {}", postgres.pid().unwrap(), postgres.url()),
    )
    .unwrap();
    std::fs::rename(dir.join("told.new"), dir.join("told")).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn it_ends_with_a_killed_owner_and_the_next_starts_at_once() {
    let dir = fresh_dir(&std::env::temp_dir());
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::owner_for_the_next_test"])
        .env("REJOIN_TEST_POSTGRES_DIR", &dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the owner's server", || dir.join("told").exists()).await;
    let told = std::fs::read_to_string(dir.join("told")).unwrap();
    let (pid, url) = told.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    assert_eq!(ask(url, "select 'up'").await.unwrap(), "up");
    owner.kill().unwrap();
    owner.wait().unwrap();
    // Immediately, while the first server may still be stopping.
    let next = PrivatePostgres::start(quick(&dir)).await.unwrap();
    assert_eq!(ask(&next.url(), "select 'up'").await.unwrap(), "up");
    until("the orphan to end", || process::command_line(pid).is_none()).await;
    next.stop().await.unwrap();
    drop(next);
    std::fs::remove_dir_all(dir).unwrap();
}
