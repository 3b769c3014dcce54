//! Row-level security must not fail silently: behind a pooler that drops startup options, after a restore on a server
//! without the roles, with custom logins.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres, binaries};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::row_security::{self, Lacking};
use rejoin_db::{Db, Role};
use rejoin_tests::ports::free_port;
use rejoin_tests::refusals::{refuses, rejoin};
use sqlx::{AssertSqlSafe, PgPool};

use rejoin_tests::support;

/// A PgBouncer in front of a private server, with commonly recommended options: unknown startup options are dropped.
struct Pooler {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Pooler {
    /// None: the program is not installed.
    async fn start(postgres: &PrivatePostgres, users: &[&str]) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        let Some(program) = program else {
            rejoin_tests::needs::skip("pgbouncer is not installed: scripts/setup-test.sh installs it");
            return None;
        };
        let dir = std::env::temp_dir().join(format!("rejoin-pooler-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).unwrap();
        let port = free_port();
        let list: String = users.iter().map(|user| format!("\"{user}\" \"\"\n")).collect();
        std::fs::write(dir.join("users"), list).unwrap();
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = session\ndefault_pool_size = 60\nmax_client_conn = 200\n\
             ignore_startup_parameters = extra_float_digits,options\n",
            postgres.socket_dir().display(),
            dir.join("users").display()
        );
        std::fs::write(dir.join("settings.ini"), settings).unwrap();
        let mut command = Command::new(program);
        command.arg(dir.join("settings.ini"));
        // As the user allowed to access the server's socket; never as root.
        let owner = Command::new("stat")
            .args(["-c", "%U"])
            .arg(postgres.socket_dir())
            .output()
            .unwrap();
        let owner = String::from_utf8(owner.stdout).unwrap();
        if std::env::var("USER").as_deref() != Ok(owner.trim()) {
            command.args(["-u", owner.trim()]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pooler = Self { child, dir, port };
        support::wait_for("the pooler to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        Some(pooler)
    }

    fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/rejoin", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

const API: [&str; 3] = ["api", "--listen", "127.0.0.1:0"];
const WORKER: [&str; 1] = ["worker"];
const DOCTOR: [&str; 3] = ["doctor", "--only", "database"];

/// Both kinds of process end, and doctor fails, all with this text.
pub async fn all_refuse(url: &str, words: &[&str]) {
    for command in [&API[..], &WORKER, &DOCTOR] {
        refuses(url, command, words).await;
    }
}

async fn run(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A working process of each kind: the API becomes ready, and a worker registers.
async fn both_work(app: &str, worker: &str, pool: &PgPool) {
    let port = free_port();
    let mut api = rejoin(app, &["api", "--listen", &format!("127.0.0.1:{port}")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut work = rejoin(worker, &WORKER).stderr(Stdio::null()).spawn().unwrap();
    support::wait_for("the API to be ready", async || {
        assert_eq!(api.try_wait().unwrap(), None, "the API works");
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/readyz")).await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
    support::wait_for("the worker to present itself", async || {
        assert_eq!(work.try_wait().unwrap(), None, "the worker works");
        let there: bool = sqlx::query_scalar("select exists (select from queue.workers)")
            .fetch_one(pool)
            .await
            .unwrap();
        there.then_some(())
    })
    .await;
    for mut process in [api, work] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[tokio::test]
async fn the_list_of_policies_and_grants_is_what_the_migrations_make() {
    let database = support::database().await;
    let mut connection = database.pool.acquire().await.unwrap();
    let present = row_security::present(&mut connection).await.unwrap().join("\n") + "\n";
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/db/src/row_security.txt");
        std::fs::write(list, &present).unwrap();
    }
    assert_eq!(present, row_security::EXPECTED, "INSTA_UPDATE=always writes it anew");
    assert_eq!(row_security::lacking(&mut connection).await.unwrap(), None);
}

/// Invariant I14.
#[tokio::test]
async fn a_pooler_that_drops_the_role_needs_a_role_of_the_login() {
    let (postgres, database) = support::own_server_database().await;
    let Some(pooler) = Pooler::start(&postgres, &["rejoin", "pooled_app", "pooled_worker"]).await else {
        return;
    };
    let owner = pooler.url("rejoin");
    all_refuse(&owner, &["row-level security", "alter role"]).await;

    // A process that was running when the pooler was added: none of its connections is used.
    let db = Db::connect_lazy(&DatabaseArgs::new(&owner), "rejoin-test", Role::App).unwrap();
    let error = db.pool_pg.get().await.expect_err("no connection without the role");
    assert!(error.to_string().contains("rejoin_app"), "{error}");
    assert!(db.pool_sqlx.acquire().await.is_err());

    for (login, role) in [("pooled_app", "rejoin_app"), ("pooled_worker", "rejoin_worker")] {
        let gate = if role == "rejoin_app" { ", rejoin_gate" } else { "" };
        run(
            &database.pool,
            &format!("create role {login} login; grant {role}{gate} to {login}; alter role {login} set role = {role}"),
        )
        .await;
    }
    both_work(&pooler.url("pooled_app"), &pooler.url("pooled_worker"), &database.pool).await;
    drop(pooler);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn api_and_workers_log_in_as_members_of_their_role_only() {
    let (postgres, database) = support::own_server_database().await;
    run(
        &database.pool,
        "create role own_app login in role rejoin_app, rejoin_gate; create role own_worker login in role rejoin_worker",
    )
    .await;
    let url = |login: &str| database.url.replace("//rejoin@", &format!("//{login}@"));
    both_work(&url("own_app"), &url("own_worker"), &database.pool).await;
    // The other's role can't be assumed.
    let taken = Db::connect_lazy(&DatabaseArgs::new(url("own_worker")), "rejoin-test", Role::App).unwrap();
    assert!(taken.pool_sqlx.acquire().await.is_err());
    postgres.stop().await.unwrap();
}

/// Invariant I14.
#[tokio::test]
async fn a_restore_without_the_roles_is_refused_and_explained() {
    let (postgres, database) = support::own_server_database().await;
    // The real folder, not one with links to some of them.
    let server = binaries::find(None, None, None)
        .expect("server programs")
        .program("postgres");
    let programs = server.canonicalize().unwrap().parent().unwrap().to_owned();
    if !programs.join("pg_dump").exists() {
        rejoin_tests::needs::skip(&format!("pg_dump is not in {}", programs.display()));
        return;
    }
    let fresh = PrivatePostgres::start(PostgresOptions::ephemeral()).await.unwrap();
    let restore = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "'{0}/pg_dump' '{1}' | '{0}/psql' -q '{2}'",
            programs.display(),
            database.url,
            fresh.url()
        ))
        .output()
        .unwrap();
    let errors = String::from_utf8(restore.stderr).unwrap();
    assert!(errors.contains("role \"rejoin_app\" does not exist"), "{errors}");
    all_refuse(&fresh.url(), &["rejoin_app", "create role"]).await;

    // The roles alone restore neither policies nor grants.
    let pool = PgPool::connect(&fresh.url()).await.unwrap();
    run(
        &pool,
        "create role rejoin_app; create role rejoin_gate; create role rejoin_worker",
    )
    .await;
    all_refuse(&fresh.url(), &["policies and grants", "restore"]).await;
    pool.close().await;
    fresh.stop().await.unwrap();

    // One policy, one grant, one table's switch: each is reported as missing.
    for (undo, name) in [
        ("drop policy app on kb.chat_messages", "kb.chat_messages"),
        ("alter table kb.agent_runs disable row level security", "kb.agent_runs"),
        ("revoke update on queue.jobs from rejoin_worker", "queue.jobs"),
    ] {
        run(&database.pool, undo).await;
        all_refuse(&database.url, &[name]).await;
    }
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn unbound_roles_and_missing_policies_are_named() {
    let (postgres, database) = support::own_server_database().await;
    let mut connection = database.pool.acquire().await.unwrap();
    for (change, back) in [("superuser", "nosuperuser"), ("bypassrls", "nobypassrls")] {
        run(&database.pool, &format!("alter role rejoin_worker {change}")).await;
        let found = row_security::lacking(&mut connection).await.unwrap();
        assert_eq!(found, Some(Lacking::Mighty(vec!["rejoin_worker".into()])), "{change}");
        run(&database.pool, &format!("alter role rejoin_worker {back}")).await;
        assert_eq!(row_security::lacking(&mut connection).await.unwrap(), None);
    }
    run(
        &database.pool,
        "drop policy app on kb.consoles; alter table kb.calendars disable row level security; revoke insert on kb.files from rejoin_app;
         drop policy worker on kb.tasks",
    )
    .await;
    let found = row_security::lacking(&mut connection)
        .await
        .unwrap()
        .expect("they are gone");
    let Lacking::Rules { count, named } = &found else {
        panic!("{found:?}");
    };
    assert_eq!((*count, named.len()), (4, 3), "{found:?}");
    let all = row_security::EXPECTED;
    assert!(named.iter().all(|line| all.lines().any(|one| one == line)), "{found:?}");
    assert!(found.advice().contains("restore it again"), "{}", found.advice());
    let mighty = Lacking::Mighty(Vec::new());
    assert!(mighty.advice().contains("nobypassrls"), "{}", mighty.advice());
    drop(connection);
    postgres.stop().await.unwrap();
}
