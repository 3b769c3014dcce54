//! A URL with two servers: a primary, and a synchronous standby that takes over.

use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres, binaries};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, PgError, Role, is_transient};
use rejoin_tests::app::Process;
use rejoin_tests::client::{Client, Frame, Stream, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::needs;
use rejoin_tests::support::{self, TestDatabase, wait_for};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, PgPool};

use super::{api, assert_whole, events_of, log_of, reload, run, tokens, until_word, without_processes};
use rejoin_tests::refusals::refuses;

/// Timeout of the promotion, in seconds.
const PROMOTION_LIMIT_S: i32 = 30;
const DOCTOR: [&str; 3] = ["doctor", "--only", "database"];

/// The address of a server in a URL.
pub(super) fn host(server: &PrivatePostgres) -> String {
    server.socket_dir().to_string_lossy().replace('/', "%2F")
}

pub(super) fn url(hosts: &[String]) -> String {
    format!("postgres://rejoin@{}/rejoin", hosts.join(","))
}

/// A migrated primary whose commits wait for its standby. None: a program is missing.
pub(super) async fn servers() -> Option<(PrivatePostgres, PrivatePostgres, TestDatabase)> {
    if binaries::find(None, None, None)
        .expect("server programs")
        .extra_program("pg_basebackup")
        .is_err()
    {
        needs::skip("pg_basebackup is not installed: standbys are not tried");
        return None;
    }
    let (primary, database) = support::own_server_database().await;
    let options = PostgresOptions {
        extra_settings: vec![("synchronous_commit".into(), "on".into())],
        standby_of: Some(primary.socket_dir().to_owned()),
        ..PostgresOptions::ephemeral()
    };
    let standby = PrivatePostgres::start(options).await.expect("a standby");
    run(&database.pool, "alter system set synchronous_standby_names = '*'").await;
    reload(&database.pool).await;
    Some((primary, standby, database))
}

pub(super) async fn promote(standby: &PrivatePostgres) {
    let mut session = PgConnection::connect(&standby.url()).await.expect("a session");
    let promoted: bool = sqlx::query_scalar("select pg_promote(true, $1)")
        .bind(PROMOTION_LIMIT_S)
        .fetch_one(&mut session)
        .await
        .expect("an answer");
    assert!(promoted, "the standby takes over");
}

#[tokio::test]
async fn an_answer_goes_on_at_the_standby_that_takes_over() {
    let Some((primary, standby, database)) = servers().await else {
        return;
    };
    let app = without_processes(database).await;
    let agent = app.agent("writer", &[]).await;
    app.model.always("write", Reply::tokens(400).words_every(20));
    // The standby is named first, and is not taken.
    let both = url(&[host(&standby), host(&primary)]);
    let (_api, client) = api(&app, &[("DATABASE_URL", both.as_str())]).await;
    let _worker = Process::worker_with(&app, &[("DATABASE_URL", both.clone())]);
    let message = json!({"message": "write", "agentDefinitionId": agent});
    let posted = client.post_message(message.clone()).await;
    until_word(&client, &events_of(&posted), "t9 ").await;
    primary.stop_immediate().await.unwrap();
    promote(&standby).await;
    let frames = log_of(&client, &events_of(&posted)).await;
    assert_whole(&frames);
    assert_eq!(text(&frames), tokens(400));
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    // Commands follow, too. The turn's id makes their repetition safe.
    let mut message = message;
    message["clientTurnId"] = json!("after the failover");
    let posted: Value = wait_for("the API to take another message", async || {
        let request = client.request(Method::POST, "/api/chat/stream");
        let request = request.header("accept", "application/json").json(&message);
        let answer = request.send().await.ok()?;
        (answer.status() == 202).then_some(answer.json().await.ok()?)
    })
    .await;
    let frames = log_of(&client, &events_of(&posted)).await;
    assert_eq!(text(&frames), tokens(400));
    let mut session = PgConnection::connect(&standby.url()).await.unwrap();
    let ended: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where done_seq is not null")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(ended, 2);
    drop(session);
    drop(app);
    standby.stop().await.unwrap();
}

/// Reads up to a word; returns the epoch of the stream, and the number of the event with that word.
async fn read_to(client: &Client, path: &str, word: &str) -> (String, i64) {
    let mut stream = client.stream(path).await;
    let epoch = stream.headers["x-log-epoch"].to_str().expect("text").to_owned();
    loop {
        let event = stream.next_event().await.expect("the stream goes on");
        if event.kind() == "token" && event.json()["token"].as_str().is_some_and(|token| token.contains(word)) {
            return (epoch, event.id.expect("a number"));
        }
    }
}

/// The first frame that is an event, or about the log.
async fn first_of(mut stream: Stream) -> Frame {
    loop {
        let frame = stream.next().await.expect("the stream goes on");
        if frame.data.is_some() {
            return frame;
        }
    }
}

#[tokio::test]
async fn a_failover_that_lost_commits_rewinds_its_readers() {
    let Some((primary, standby, database)) = servers().await else {
        return;
    };
    run(&database.pool, "alter system reset synchronous_standby_names").await;
    reload(&database.pool).await;
    let app = without_processes(database).await;
    let agent = app.agent("writer", &[]).await;
    app.model.always("write", Reply::tokens(400).words_every(20));
    let both = url(&[host(&primary), host(&standby)]);
    let (_api, client) = api(&app, &[("DATABASE_URL", both.as_str())]).await;
    let _worker = Process::worker_with(&app, &[("DATABASE_URL", both.clone())]);
    let posted = client
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().expect("a conversation")
    );
    let (epoch, kept) = read_to(&client, &path, "t19 ").await;
    // The standby has what was read, and gets nothing more.
    let here: String = sqlx::query_scalar("select pg_current_wal_lsn()::text")
        .fetch_one(&app.db.pool)
        .await
        .expect("a position");
    let behind = PgPool::connect(&standby.url()).await.expect("a session");
    wait_for("the standby to replay", async || {
        let replayed: bool = sqlx::query_scalar("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn")
            .bind(&here)
            .fetch_one(&behind)
            .await
            .ok()?;
        replayed.then_some(())
    })
    .await;
    run(&behind, "alter system set primary_conninfo = ''").await;
    reload(&behind).await;
    wait_for("the standby to be cut off", async || {
        let connected: bool = sqlx::query_scalar("select exists (select from pg_stat_replication)")
            .fetch_one(&app.db.pool)
            .await
            .ok()?;
        (!connected).then_some(())
    })
    .await;
    let (same, lost) = read_to(&client, &path, "t199 ").await;
    assert_eq!(same, epoch);
    primary.stop_immediate().await.unwrap();
    behind.close().await;
    promote(&standby).await;

    // All words are written again, past what was lost.
    let frames = log_of(&client, &events_of(&posted)).await;
    assert_whole(&frames);
    assert_eq!(text(&frames), tokens(400));
    let of_old = format!("{path}?on_gap=event&epoch={epoch}");
    let rewound = first_of(client.stream_after(&of_old, lost).await).await;
    assert_eq!(
        (rewound.kind().as_str(), &rewound.json()["after"]),
        ("rewound", &json!(lost)),
        "{rewound:?}"
    );
    // What the standby had is the same.
    let next = first_of(client.stream_after(&of_old, kept).await).await;
    assert_eq!(next.id, Some(kept + 1), "{next:?}");
    drop(app);
    standby.stop().await.unwrap();
}

#[tokio::test]
async fn connections_leave_a_server_that_refuses_writes() {
    let Some((primary, standby, database)) = servers().await else {
        return;
    };
    run(&database.pool, "create table probe (n int)").await;
    let both = DatabaseArgs::new(url(&[host(&primary), host(&standby)]));
    let db = Db::connect_lazy(&both, "rejoin-test", Role::Login).unwrap();
    let by_sqlx = async || sqlx::query("insert into probe values (1)").execute(&db.pool_sqlx).await;
    let by_tokio_postgres = async || -> Result<u64, PgError> {
        let client = db.pool_pg.get().await?;
        Ok(client.execute("insert into probe values (1)", &[]).await?)
    };
    by_sqlx().await.unwrap();
    by_tokio_postgres().await.unwrap();
    // As before a switchover: its sessions live.
    run(&database.pool, "alter system set default_transaction_read_only = on").await;
    reload(&database.pool).await;
    promote(&standby).await;
    wait_for("a write by sqlx", async || match by_sqlx().await {
        Ok(_) => Some(()),
        Err(error) => {
            assert!(is_transient(&error), "{error}");
            None
        }
    })
    .await;
    wait_for("a write by tokio-postgres", async || match by_tokio_postgres().await {
        Ok(_) => Some(()),
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            None
        }
    })
    .await;
    let place = "select current_setting('unix_socket_directories')";
    let of_sqlx: String = sqlx::query_scalar(place).fetch_one(&db.pool_sqlx).await.unwrap();
    let client = db.pool_pg.get().await.unwrap();
    let of_tokio_postgres: String = client.query_one(place, &[]).await.unwrap().get(0);
    let taken_over = standby.socket_dir().to_string_lossy().into_owned();
    assert_eq!([of_sqlx, of_tokio_postgres], [taken_over.clone(), taken_over]);
    drop((client, db));
    // Its commits wait for a standby that left.
    database.pool.close().await;
    primary.stop_immediate().await.unwrap();
    standby.stop().await.unwrap();
}

#[tokio::test]
async fn doctor_names_each_server_when_none_accepts_writes() {
    let Some((primary, standby, database)) = servers().await else {
        return;
    };
    let without = url(&[host(&standby), "127.0.0.1:1".to_owned()]);
    refuses(
        &without,
        &DOCTOR,
        &["none of the 2", "accepts writes", "only reads", "127.0.0.1:1"],
    )
    .await;
    // One server that must accept writes.
    let alone = format!("{}?target_session_attrs=read-write", standby.url());
    refuses(&alone, &DOCTOR, &["only reads", "Name the server that accepts writes"]).await;
    refuses(
        &format!("{without}?target_session_attrs=standby"),
        &DOCTOR,
        &["every process writes"],
    )
    .await;
    database.pool.close().await;
    standby.stop().await.unwrap();
    primary.stop_immediate().await.unwrap();
}
