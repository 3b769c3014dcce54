//! PgBouncer in transaction mode between processes and PostgreSQL, as docs/operations/poolers.md sets it up.

use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_db::config::{DatabaseArgs, Pooler};
use rejoin_db::{Db, Role, rls};
use rejoin_identity::workspaces;
use rejoin_tests::app::{Process, TestApp};
use rejoin_tests::client::{Client, Frame, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::pgbouncer::PgBouncer;
use rejoin_tests::support::{self, TestDatabase, wait_for};
use rejoin_types::owner::Owner;
use reqwest::StatusCode;
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use super::{API_LOGIN, WORKER_LOGIN, api, assert_whole, create_logins, events_of, run, tokens, without_processes};

/// Server connections of each login.
const SERVER_CONNECTIONS: usize = 4;
/// Concurrent clients of the test of row-level security, and what each does.
const CLIENTS: usize = 12;
const TURNS: usize = 20;

/// The direct URL of a login.
fn direct(url: &str, login: &str) -> String {
    url.replace("//rejoin@", &format!("//{login}@"))
}

/// API and worker processes behind PgBouncer.
struct Fleet {
    postgres: PrivatePostgres,
    pooler: PgBouncer,
    app: TestApp,
    client: Client,
    _api: Process,
}

impl Fleet {
    /// None: PgBouncer is not installed.
    async fn start() -> Option<Self> {
        let (postgres, database) = support::own_server_database().await;
        create_logins(&database.pool).await;
        let pooler = PgBouncer::start(&postgres, &[API_LOGIN, WORKER_LOGIN], SERVER_CONNECTIONS).await?;
        let app = without_processes(database).await;
        let (_api, client) = api(
            &app,
            &[
                ("DATABASE_URL", pooler.url(API_LOGIN).as_str()),
                ("REJOIN_DB_POOLER", "transaction"),
                ("REJOIN_LISTEN_URL", direct(&app.db.url, API_LOGIN).as_str()),
            ],
        )
        .await;
        Some(Self {
            postgres,
            pooler,
            app,
            client,
            _api,
        })
    }

    fn worker(&self) -> Process {
        Process::worker_with(
            &self.app,
            &[
                ("DATABASE_URL", self.pooler.url(WORKER_LOGIN)),
                ("REJOIN_DB_POOLER", "transaction".to_owned()),
                ("REJOIN_LISTEN_URL", direct(&self.app.db.url, WORKER_LOGIN)),
            ],
        )
    }

    /// Waits until a worker's session holds its lock.
    async fn worker_is_known(&self) {
        wait_for("the worker's lock", async || {
            let known: bool = sqlx::query_scalar("select exists (select from queue.workers where session_lock)")
                .fetch_one(&self.app.db.pool)
                .await
                .unwrap();
            known.then_some(())
        })
        .await;
    }

    async fn stop(self) {
        drop((self._api, self.app, self.pooler));
        self.postgres.stop().await.unwrap();
    }
}

fn status(frames: &[Frame]) -> serde_json::Value {
    frames.last().expect("frames").json()["status"].clone()
}

#[tokio::test]
async fn conversations_run_through_pgbouncer_with_wake_ups() {
    let Some(fleet) = Fleet::start().await else { return };
    let (app, client) = (&fleet.app, &fleet.client);
    let _worker = fleet.worker();
    fleet.worker_is_known().await;
    wait_for("the API to listen", async || {
        (client.metric_sum(&["rejoin_wakeups_listening"]).await > 0.0).then_some(())
    })
    .await;
    // A tool call.
    let agent = app.agent("asker", &["*"]).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("There is a schema."),
    ]);
    let frames = client.ask(Some(agent), "What is there?").await;
    assert_whole(&frames);
    assert_eq!(text(&frames), "There is a schema.");
    assert!(frames.iter().any(|frame| frame.kind() == "mcp_tool"), "{frames:#?}");
    // A cancelled run.
    app.model.script([Reply::hang_after(3)]);
    let posted = client
        .post_message(json!({"message": "talk", "agentDefinitionId": agent}))
        .await;
    let mut reader = client.stream(&events_of(&posted)).await;
    let mut frames = reader.until("token").await;
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    let (answer, body) = client.post(&cancel, json!({})).await;
    assert_eq!(answer, StatusCode::ACCEPTED, "{body}");
    frames.extend(reader.rest().await);
    assert_whole(&frames);
    assert_eq!(status(&frames), "cancelled");
    fleet.stop().await;
}

#[tokio::test]
async fn a_killed_workers_run_goes_on_through_pgbouncer() {
    let Some(fleet) = Fleet::start().await else { return };
    let (app, client) = (&fleet.app, &fleet.client);
    let agent = app.agent("writer", &[]).await;
    let victim = fleet.worker();
    fleet.worker_is_known().await;
    app.model.script([Reply::hang_after(10), Reply::text(tokens(30))]);
    let posted = client
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let mut reader = client.stream(&events_of(&posted)).await;
    let mut frames = reader.until("token").await;
    victim.kill();
    let _heir = fleet.worker();
    frames.extend(reader.rest().await);
    assert_whole(&frames);
    assert_eq!(text(&frames), tokens(30));
    assert_eq!(frames.iter().filter(|frame| frame.kind() == "reset").count(), 1);
    assert_eq!(status(&frames), "completed");
    fleet.stop().await;
}

/// Another workspace of another user.
async fn another_workspace(database: &TestDatabase) -> Owner {
    let mut connection = database.pool.acquire().await.unwrap();
    let workspace_id = workspaces::create(&mut connection, "another").await.unwrap();
    let user_id = workspaces::ensure_user(&mut connection, "another@example.org")
        .await
        .unwrap();
    workspaces::add_member(&mut connection, workspace_id, user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    Owner { workspace_id, user_id }
}

async fn add_conversation(pool: &PgPool, owner: Owner) {
    sqlx::query(
        "insert into kb.chat_conversations (id, project_id, owner_user_id, title) values (gen_random_uuid(), $1, $2, 'x')",
    )
    .bind(owner.workspace_id)
    .bind(owner.user_id)
    .execute(pool)
    .await
    .unwrap();
}

/// One client: transactions of both drivers, in turn for both owners, ended in different ways.
async fn sees_only_its_own(db: Db, owners: [Owner; 2], first: usize) {
    let look = "select project_id from kb.chat_conversations";
    for turn in 0..TURNS {
        let owner = owners[(first + turn) % 2];
        let scope = rls::Scope::User(owner);
        let mut tx = rls::begin(&db.pool_sqlx, scope).await.unwrap();
        let seen: Vec<Uuid> = sqlx::query_scalar(look).fetch_all(&mut *tx).await.unwrap();
        assert_eq!(seen, [owner.workspace_id]);
        match turn % 3 {
            0 => tx.commit().await.unwrap(),
            1 => tx.rollback().await.unwrap(),
            // Rolled back when its connection is used next.
            _ => drop(tx),
        }
        let all = "select array_agg(project_id) from kb.chat_conversations";
        let row = rls::query_one_scoped(&db.pool_pg, scope, all, &[]).await.unwrap();
        assert_eq!(row.expect("a row").get::<_, Vec<Uuid>>(0), [owner.workspace_id]);
        let all = "(select array_agg(project_id) from kb.chat_conversations)";
        let seen: Option<Vec<Uuid>> = rls::value_scoped(&db.pool_pg, scope, all, &[]).await.unwrap();
        assert_eq!(seen.expect("a value"), [owner.workspace_id], "by one statement");
        // Without a scope, nothing remains of an earlier one.
        let rows: i64 = sqlx::query_scalar("select count(*) from kb.chat_conversations")
            .fetch_one(&db.pool_sqlx)
            .await
            .unwrap();
        assert_eq!(rows, 0);
        // A caller that gives up within its statement.
        let slow = rls::query_one_scoped(&db.pool_pg, scope, "select pg_sleep(0.02)", &[]);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), slow).await;
        let slow = rls::value_scoped::<String>(&db.pool_pg, scope, "pg_sleep(0.02)::text", &[]);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), slow).await;
    }
}

/// Invariant I14.
#[tokio::test]
async fn interleaved_workspaces_see_only_their_own_rows() {
    let (postgres, database) = support::own_server_database().await;
    create_logins(&database.pool).await;
    let Some(pooler) = PgBouncer::start(&postgres, &[API_LOGIN], 2).await else {
        return;
    };
    let owners = [database.owner(), another_workspace(&database).await];
    for owner in owners {
        add_conversation(&database.pool, owner).await;
    }
    let args = DatabaseArgs {
        db_pooler: Pooler::Transaction,
        listen_url: Some(direct(&database.url, API_LOGIN)),
        db_connections: 4,
        db_hot_connections: 4,
        ..DatabaseArgs::new(pooler.url(API_LOGIN))
    };
    let processes = [(); 3].map(|()| Db::connect_lazy(&args, "rejoin-test", Role::App).unwrap());
    let clients = (0..CLIENTS).map(|client| {
        let db = processes[client % processes.len()].clone();
        tokio::spawn(sees_only_its_own(db, owners, client))
    });
    for client in futures::future::join_all(clients).await {
        client.expect("it sees only its own");
    }
    let of_api = "select count(*) from pg_stat_activity where usename = 'pooled_api' and application_name <> 'rejoin-test-listen'";
    let server_connections: i64 = sqlx::query_scalar(of_api).fetch_one(&database.pool).await.unwrap();
    assert!(server_connections <= 2, "{server_connections}");
    drop(processes);
    drop(pooler);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_login_without_its_role_is_refused_through_pgbouncer() {
    let (postgres, database) = support::own_server_database().await;
    let Some(pooler) = PgBouncer::start(&postgres, &["rejoin", API_LOGIN], 2).await else {
        return;
    };
    let args = |url: String| DatabaseArgs {
        db_pooler: Pooler::Transaction,
        listen_url: Some(database.url.clone()),
        ..DatabaseArgs::new(url)
    };
    let owner = Db::inspect(&args(pooler.url("rejoin")), "rejoin-test", Role::App).await;
    let refused = owner
        .expect_err("the tables' owner bypasses row-level security")
        .to_string();
    assert!(refused.contains("rejoin_app"), "{refused}");
    create_logins(&database.pool).await;
    Db::inspect(&args(pooler.url(API_LOGIN)), "rejoin-test", Role::App)
        .await
        .expect("its login has the role");
    // Without a direct connection there are no wake-ups.
    let without = DatabaseArgs {
        listen_url: None,
        ..args(pooler.url(API_LOGIN))
    };
    let refused = Db::inspect(&without, "rejoin-test", Role::App).await.unwrap_err();
    assert!(refused.to_string().contains("REJOIN_LISTEN_URL"), "{refused}");
    drop(pooler);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn doctor_checks_the_connection_that_listens() {
    let (postgres, database) = support::own_server_database().await;
    run(&database.pool, "create role listening login").await;
    let doctor = |listen_url: &str| {
        let output = std::process::Command::new(rejoin_tests::app::binary())
            .args(["doctor", "--only", "database"])
            .env("DATABASE_URL", &database.url)
            .env("REJOIN_LISTEN_URL", listen_url)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (healthy, said) = doctor(&direct(&database.url, "listening"));
    assert!(healthy && said.contains("notifications arrive"), "{said}");
    let (healthy, said) = doctor("postgres://listening@127.0.0.1:1/rejoin");
    assert!(!healthy && said.contains("REJOIN_LISTEN_URL is not usable"), "{said}");
    drop(database);
    postgres.stop().await.unwrap();
}
