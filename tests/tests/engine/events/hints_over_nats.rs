//! Hints over NATS: what they carry, who receives them, and a server that hangs.

use std::sync::Arc;

use rejoin_db::config::{BusKind, DatabaseArgs, NatsArgs, Secret};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::{self, Hearing, SharedBus, Wake};
use rejoin_tests::nats::NatsServer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::broadcast::Receiver;
use uuid::Uuid;

use super::hints::{TEXT, hint_about, write};
use rejoin_tests::support::{self, TestDatabase, wait_for};

const STOP: i32 = 19;
const CONTINUE: i32 = 18;

/// The bus of a process with these settings, and its hints from now on.
async fn listener(db: &TestDatabase, url: &str, subject: &str) -> (SharedBus, Receiver<Arc<Wake>>) {
    let args = DatabaseArgs {
        bus: BusKind::Nats,
        nats: NatsArgs {
            nats_url: Some(Secret::new(url)),
            nats_subject: subject.to_owned(),
            ..NatsArgs::default()
        },
        ..db.args()
    };
    let bus = wakeup::start(&args, &db.db).await.expect("valid settings");
    wait_until(&bus, Hearing::Listening).await;
    let hints = bus.subscribe();
    (bus, hints)
}

async fn wait_until(bus: &SharedBus, hearing: Hearing) {
    wait_for("the state of the bus", async || {
        (bus.hearing() == hearing).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_hint_over_nats_carries_events_encrypted() {
    let Some(server) = NatsServer::start().await else {
        return;
    };
    let db = support::database().await;
    let (writing, _) = listener(&db, &server.url(), "rejoin").await;
    let (_reading, mut hints) = listener(&db, &server.url(), "rejoin").await;
    // Any other client of the server.
    let mut other = BufReader::new(TcpStream::connect(server.address()).await.unwrap());
    other
        .write_all(b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n")
        .await
        .unwrap();
    let mut lines = other.lines();
    while lines.next_line().await.unwrap().unwrap() != "PONG" {}
    let log = write(&db, &writing, TEXT).await;
    let hint = hint_about(log, &mut hints).await;
    assert!(
        hint.logs.is_empty() && !hint.all,
        "nothing is left to a query: {hint:?}"
    );
    let carried: Vec<_> = hint.rows.into_iter().flat_map(|row| row.events(0)).collect();
    assert_eq!(carried, log::read(&db.db.pool_pg, log, 1).await.unwrap());
    loop {
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(!line.contains("words"), "{line}");
        if line.contains("\"e\":") {
            break;
        }
    }
}

#[tokio::test]
async fn subjects_keep_installations_apart() {
    // The password has characters that a URL encodes.
    let Some(server) = NatsServer::start_with(&["--user", "rejoin", "--pass", "p@ss,word"]).await else {
        return;
    };
    let db = support::database().await;
    let url = format!("nats://rejoin:p%40ss%2Cword@{}", server.address());
    let (first, mut of_first) = listener(&db, &url, "first").await;
    let (second, mut of_second) = listener(&db, &url, "second.installation").await;
    let [one, other] = [Uuid::now_v7(), Uuid::now_v7()];
    first.publish(Wake::log(one));
    hint_about(one, &mut of_first).await;
    second.publish(Wake::log(other));
    loop {
        let hint = wakeup::next(&mut of_second).await;
        assert!(hint.all_logs().all(|log| log == other), "{hint:?}");
        if !hint.all {
            break;
        }
    }
}

#[tokio::test]
async fn a_nats_server_that_hangs_blocks_no_publisher() {
    const HINTS: usize = 20_000;
    let Some(server) = NatsServer::start().await else {
        return;
    };
    let db = support::database().await;
    let (bus, mut hints) = listener(&db, &server.url(), "rejoin").await;
    server.signal(STOP);
    for _ in 0..HINTS {
        bus.publish(Wake::log(Uuid::now_v7()));
    }
    // No answer to a probe.
    wait_until(&bus, Hearing::Lost).await;
    server.signal(CONTINUE);
    wait_until(&bus, Hearing::Listening).await;
    while !wakeup::next(&mut hints).await.all {}
    let log = Uuid::now_v7();
    bus.publish(Wake::log(log));
    hint_about(log, &mut hints).await;
}
