//! The event writer: order, fencing, and takeovers during writes.

use std::sync::Arc;
use std::time::Duration;

use rejoin_commands::{PostMessage, Posted};
use rejoin_event_log::group_commit::{LeaseLost, WriterOptions};
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::wakeup;
use rejoin_event_log::{EventWriter, log};
use rejoin_types::events::{Event, Kind};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use rejoin_tests::support::{self, TestDatabase};

pub(super) async fn post(db: &TestDatabase) -> Posted {
    let command = PostMessage {
        owner: db.owner(),
        conversation_id: None,
        agent_definition_id: None,
        message: "hello".into(),
        attached_context: None,
        files: Vec::new(),
        max_files_bytes: 0,
        models: Default::default(),
        consoles: Vec::new(),
        idempotency: None,
        on_busy: rejoin_commands::OnBusy::Enqueue,
        client_thread: None,
        history: Vec::new(),
        client_tools: Vec::new(),
        extension_tools: Vec::new(),
        instructions: None,
        output_schema: None,
        model: None,
        exhausted: None,
        traceparent: None,
    };
    rejoin_commands::execute(&db.pool, &command).await.unwrap()
}

pub(super) async fn claim(db: &TestDatabase, limit: usize) -> Vec<rejoin_queue::ClaimedJob> {
    rejoin_queue::claim(
        &db.db.pool_pg,
        "default",
        Uuid::now_v7(),
        Duration::from_secs(15),
        limit,
        &mut rejoin_queue::ClaimCursor::default(),
    )
    .await
    .unwrap()
}

pub(super) fn stream(posted: &Posted, attempt: i32) -> Arc<RunStream> {
    Arc::new(RunStream {
        log_id: posted.conversation_id,
        root_run_id: posted.run_id,
        run_id: posted.run_id,
        attempt,
        lost: CancellationToken::new(),
        seen: Default::default(),
    })
}

pub(super) fn token(posted: &Posted, text: impl ToString) -> Event {
    Event::of(
        posted.run_id,
        Kind::Token {
            token: text.to_string(),
        },
    )
}

#[tokio::test]
async fn events_of_many_runs_are_gapless_and_in_their_order() {
    let db = support::database().await;
    let mut posts = Vec::new();
    for _ in 0..20 {
        posts.push(post(&db).await);
    }
    assert_eq!(claim(&db, 100).await.len(), 20);
    let bus = wakeup::over_postgres(&db.db);
    let writer = EventWriter::start(
        db.db.clone(),
        bus,
        WriterOptions {
            max_batch: 70,
            max_delta_bytes: 0,
            ..WriterOptions::default()
        },
    );
    futures::future::join_all(posts.iter().map(|posted| {
        let writer = writer.clone();
        async move {
            let stream = stream(posted, 1);
            for i in 0..200 {
                writer.append(&stream, &token(posted, i)).await.unwrap();
            }
            writer.flush(&stream).await.unwrap();
        }
    }))
    .await;
    for posted in &posts {
        let events = log::read(&db.db.pool_pg, posted.conversation_id, 0).await.unwrap();
        let seqs: Vec<i64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=201).collect::<Vec<i64>>());
        let tokens: Vec<String> = events[1..]
            .iter()
            .map(|event| {
                serde_json::from_slice::<serde_json::Value>(&event.data).unwrap()["token"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(tokens, (0..200).map(|i| i.to_string()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn waiting_deltas_become_one_event_and_no_other_moves() {
    let db = support::database().await;
    let posted = post(&db).await;
    claim(&db, 1).await;
    let bus = wakeup::polling();
    let options = WriterOptions {
        // All of it is gathered before anything is written.
        flush_interval: Duration::from_millis(300),
        max_delta_bytes: 20,
        ..WriterOptions::default()
    };
    let writer = EventWriter::start(db.db.clone(), bus, options);
    let stream = stream(&posted, 1);
    let reasoning = |text: &str| Event::of(posted.run_id, Kind::Reasoning { text: text.into() });
    writer.append(&stream, &reasoning("hm, ")).await.unwrap();
    writer.append(&stream, &reasoning("well")).await.unwrap();
    for _ in 0..12 {
        writer.append(&stream, &token(&posted, "ab ")).await.unwrap();
    }
    writer.append(&stream, &reasoning("?")).await.unwrap();
    writer.append(&stream, &token(&posted, "end")).await.unwrap();
    writer.flush(&stream).await.unwrap();
    // A single event is not merged.
    writer.append(&stream, &token(&posted, ".")).await.unwrap();
    writer.flush(&stream).await.unwrap();
    let events = log::read(&db.db.pool_pg, posted.conversation_id, 1).await.unwrap();
    assert_eq!(
        events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        (2..=7).collect::<Vec<i64>>()
    );
    let read: Vec<Event> = events
        .iter()
        .map(|event| serde_json::from_slice(&event.data).unwrap())
        .collect();
    let expected = [
        reasoning("hm, well"),
        token(&posted, "ab ab ab ab ab ab "),
        token(&posted, "ab ab ab ab ab ab "),
        reasoning("?"),
        token(&posted, "end"),
        token(&posted, "."),
    ];
    assert_eq!(read, expected);
}

#[tokio::test]
async fn nothing_is_written_after_a_takeover_and_the_run_is_informed() {
    let db = support::database().await;
    let posted = post(&db).await;
    claim(&db, 1).await;
    let bus = wakeup::polling();
    let writer = EventWriter::start(db.db.clone(), bus, WriterOptions::default());
    let zombie = stream(&posted, 1);
    writer.append(&zombie, &token(&posted, "before")).await.unwrap();
    writer.flush(&zombie).await.unwrap();
    sqlx::query("update queue.jobs set lease_until = now() - interval '1 second'")
        .execute(&db.pool)
        .await
        .unwrap();
    rejoin_queue::sweep::expired(&db.pool, support::later()).await.unwrap();
    // Made available again and not claimed yet: held by no worker.
    writer.append(&zombie, &token(&posted, "after")).await.unwrap();
    assert_eq!(writer.flush(&zombie).await, Err(LeaseLost));
    assert!(zombie.lost.is_cancelled());
    assert_eq!(claim(&db, 1).await[0].attempt, 2);
    let heir = stream(&posted, 2);
    writer.append(&heir, &token(&posted, "heir")).await.unwrap();
    writer.flush(&heir).await.unwrap();
    let events = log::read(&db.db.pool_pg, posted.conversation_id, 0).await.unwrap();
    let data: Vec<&str> = events[1..]
        .iter()
        .map(|event| std::str::from_utf8(&event.data).unwrap())
        .collect();
    assert!(
        data.len() == 2 && data[0].contains("before") && data[1].contains("heir"),
        "{data:?}"
    );
}

#[tokio::test]
async fn two_runs_that_share_a_log_share_its_numbers() {
    let db = support::database().await;
    let posted = post(&db).await;
    // A second run in the same log, like a sub-agent.
    let child = Uuid::now_v7();
    sqlx::query(
        "insert into kb.agent_runs (id, project_id, conversation_id, root_run_id, parent_run_id, log_id, input, first_seq)
         select $1, project_id, conversation_id, id, id, log_id, '', 1 from kb.agent_runs where id = $2",
    )
    .bind(child)
    .bind(posted.run_id)
    .execute(&db.pool)
    .await
    .unwrap();
    let job = rejoin_queue::NewJob {
        run_id: Some(child),
        ..rejoin_queue::NewJob::new("run", serde_json::json!({}))
    };
    rejoin_queue::enqueue(&mut db.pool.acquire().await.unwrap(), &job)
        .await
        .unwrap();
    assert_eq!(claim(&db, 10).await.len(), 2);
    let bus = wakeup::polling();
    let writer = EventWriter::start(db.db.clone(), bus, WriterOptions::default());
    let (parent, child) = (
        stream(&posted, 1),
        Arc::new(RunStream {
            run_id: child,
            ..(*stream(&posted, 1)).clone()
        }),
    );
    for i in 0..50 {
        writer.append(&parent, &token(&posted, i)).await.unwrap();
        writer.append(&child, &token(&posted, i)).await.unwrap();
    }
    writer.flush(&parent).await.unwrap();
    writer.flush(&child).await.unwrap();
    let seqs: Vec<i64> = log::read(&db.db.pool_pg, posted.conversation_id, 0)
        .await
        .unwrap()
        .iter()
        .map(|event| event.seq)
        .collect();
    assert_eq!(seqs, (1..=101).collect::<Vec<i64>>());
}

/// The calls of `stream.write`: of the version before, and of this one, whose writer has counted.
const WRITES: [&str; 2] = [
    "select is_there from stream.write($1, $2, $3, '{1}', $4, $4, '{1}', '{1}', $3, '{token}', $5)",
    "select is_there from stream.write($1, $2, $3, '{1}', $4, $4, '{1}', '{1}', $3, '{token}', $5, $2,
                                       array[($4::bigint[])[1] + 1], array[$1])",
];

/// A call of `stream.write` with one token. Returns, of a stream that is held, whether the events were there already.
async fn write_once(
    db: &TestDatabase,
    write: &'static str,
    posted: &Posted,
    flush_id: i64,
    known: i64,
    text: &str,
) -> Option<bool> {
    sqlx::query_scalar(write)
        .bind(flush_id)
        .bind([posted.conversation_id])
        .bind([posted.run_id])
        .bind([known])
        .bind([token(posted, text).to_json()])
        .fetch_optional(&db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_flush_is_written_once_in_whatever_order_its_calls_arrive() {
    for write in WRITES {
        let db = support::database().await;
        let posted = post(&db).await;
        claim(&db, 1).await;
        let texts = async || {
            let events = log::read(&db.db.pool_pg, posted.conversation_id, 1).await.unwrap();
            let text = |data: &[u8]| serde_json::from_slice::<serde_json::Value>(data).unwrap()["token"].clone();
            events.iter().map(|event| text(&event.data)).collect::<Vec<_>>()
        };
        assert_eq!(write_once(&db, write, &posted, 1, 1, "a").await, Some(false));
        assert_eq!(
            write_once(&db, write, &posted, 1, 1, "a").await,
            Some(true),
            "it was repeated"
        );
        // The next one is equal, and another flush.
        assert_eq!(write_once(&db, write, &posted, 2, 2, "a").await, Some(false));
        // A first call can arrive after all of that.
        assert_eq!(write_once(&db, write, &posted, 1, 1, "a").await, Some(true));
        assert_eq!(texts().await, ["a", "a"]);
        // The database lacks what the attempt has seen.
        assert_eq!(write_once(&db, write, &posted, 3, 4, "b").await, None);
        assert_eq!(texts().await, ["a", "a"]);
    }
}
