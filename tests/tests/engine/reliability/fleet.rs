//! Scale: many API servers, workers, readers, tokens, cursors, equal requests; and a database that fails and returns.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, Frame, Stream, answer, apply_resets, kinds, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use rejoin_tests::support;

/// Reconnect interval of a disconnected reader.
const RECONNECT: Duration = Duration::from_millis(100);

fn seqs(frames: &[Frame]) -> Vec<i64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

fn numbered_through(frames: &[Frame]) -> bool {
    seqs(frames) == (1..=frames.len() as i64).collect::<Vec<_>>()
}

fn conversation_events(posted: &Value) -> String {
    format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    )
}

fn run_events(posted: &Value) -> String {
    format!("/api/runs/{}/events", posted["runId"].as_str().unwrap())
}

fn count(frames: &[Frame], kind: &str) -> usize {
    frames.iter().filter(|frame| frame.kind() == kind).count()
}

/// Reads events until one's text contains `word`: a busy machine puts several words into one.
async fn until_text(stream: &mut Stream, word: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let frame = stream.next_event().await.expect("the stream goes on");
        let found = frame.kind() == "token" && frame.json()["token"].as_str().unwrap().contains(word);
        frames.push(frame);
        if found {
            return frames;
        }
    }
}

/// Follows a log to its `done` like a browser: reconnects with its cursor whenever disconnected.
async fn follow_to_done(client: &Client, path: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let following = async {
        loop {
            let cursor = seqs(&frames).last().copied().unwrap_or(0);
            let request = client
                .request(Method::GET, path)
                .header("last-event-id", cursor.to_string());
            if let Ok(response) = request.send().await
                && response.status() == StatusCode::OK
            {
                let mut stream = Stream::of(response);
                while let Some(frame) = stream.next_event().await {
                    let over = frame.kind() == "done";
                    frames.push(frame);
                    if over {
                        return;
                    }
                }
            }
            tokio::time::sleep(RECONNECT).await;
        }
    };
    tokio::time::timeout(2 * support::LIMIT, following)
        .await
        .expect("done within the limit");
    frames
}

#[tokio::test]
async fn thirty_conversations_end_once_and_read_the_same_everywhere() {
    let app = TestApp::with(AppOptions {
        workers: 3,
        ..AppOptions::default()
    })
    .await;
    let second = app.another_api().await;
    let agent = app.agent("writer", &[]).await;
    let clients = [app.client(), Client::new(second.url(), &app.db.api_key)];
    let answer_to = |n: usize| (0..20).map(|word| format!("c{n}w{word} ")).collect::<String>();
    for n in 0..30 {
        app.model
            .on(&format!("question-{n}."), [Reply::text(answer_to(n)).words_every(5)]);
    }
    let turns = (0..30).map(|n| {
        let clients = &clients;
        async move {
            let body = json!({"message": format!("question-{n}."), "agentDefinitionId": agent});
            let posted = clients[n % 2].post_message(body).await;
            let path = conversation_events(&posted);
            let mut readers = [clients[0].stream(&path).await, clients[1].stream(&path).await];
            let [one, other] = &mut readers;
            let (first, second) = tokio::join!(one.until("done"), other.until("done"));
            assert_eq!(first, second, "both APIs give the same bytes");
            // Afterwards it reads the same as live.
            let late = clients[(n + 1) % 2].stream(&run_events(&posted)).await.rest().await;
            assert_eq!(late, first);
            first
        }
    });
    let all = join_all(turns).await;
    for (n, frames) in all.iter().enumerate() {
        assert!(numbered_through(frames), "{:?}", seqs(frames));
        assert_eq!(text(frames), answer_to(n));
        assert_eq!(kinds(frames), ["message", "meta", "token", "usage", "message", "done"]);
    }
    app.wait_until_idle().await;
    let done: Vec<i64> = sqlx::query_scalar("select count(*) from stream.events where type = 'done' group by log_id")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(done, [1; 30]);
    second.stop().await.unwrap();
}

#[tokio::test]
async fn ten_thousand_tokens_cost_few_queries_and_one_late_frame() {
    const TOKENS: usize = 10_000;
    let app = TestApp::start().await;
    let agent = app.agent("writer", &[]).await;
    let gate = Arc::new(Notify::new());
    app.model.script([Reply::tokens(TOKENS).gate(gate.clone())]);
    let client = app.client();
    let queries = async || {
        let of_reading = ["rejoin_tail_queries_total", "rejoin_log_reads_total"];
        client.metric_sum(&of_reading).await
    };
    let before = queries().await;
    let posted = client
        .post_message(json!({"message": "count", "agentDefinitionId": agent}))
        .await;
    let mut reader = client.stream(&conversation_events(&posted)).await;
    let mut frames = until_text(&mut reader, &format!("t{} ", TOKENS / 2 - 1)).await;

    let (half, whole) = (tokens(TOKENS / 2), tokens(TOKENS));
    let mut late = Vec::new();
    for path in [conversation_events(&posted), run_events(&posted)] {
        let mut stream = client.stream(&format!("{path}?from=snapshot")).await;
        let snapshot = stream.next_event().await.unwrap();
        let state = snapshot.json();
        assert_eq!(snapshot.kind(), "snapshot");
        assert_eq!(state["turn"]["text"], half, "the text so far");
        assert_eq!(
            (&state["through"], snapshot.id),
            (&json!(frames.len()), Some(frames.len() as i64))
        );
        late.push((snapshot, stream));
    }
    gate.notify_one();
    frames.extend(reader.until("done").await);
    let spent = queries().await - before;
    assert!(frames.len() < TOKENS, "tokens that waited together came together");
    assert!(numbered_through(&frames));
    assert_eq!(text(&frames), whole);
    for (snapshot, mut stream) in late {
        let live = stream.until("done").await;
        let through = usize::try_from(snapshot.id.unwrap()).unwrap();
        assert!(
            live == frames[through..],
            "what follows the snapshot is what the others read, without a gap"
        );
    }
    // Other tests' servers may count in the same process, too: they can't hide one query per token.
    assert!(spent < 1_000.0, "{spent} queries for {} events", frames.len());
    app.wait_until_idle().await;

    let stream = client.stream(&format!("{}?from=snapshot", run_events(&posted))).await;
    let snapshot = stream.rest().await;
    assert_eq!(kinds(&snapshot), ["snapshot"]);
    let state = snapshot[0].json();
    assert_eq!(
        (&state["through"], &state["turn"]),
        (&json!(frames.len()), &Value::Null)
    );
    assert_eq!(state["messages"][1]["content"], whole);
}

#[tokio::test]
async fn a_turn_resumes_from_each_cursor_live_and_afterwards() {
    let (ledger, permits, gate) = (Ledger::default(), Arc::new(Semaphore::new(1)), Arc::new(Notify::new()));
    let tools = Registry::new([Payment::shared(&ledger, &permits, true)]);
    let app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("payer", &["pay"]).await;
    app.model.script([
        Reply::text("I pay now. ").then_tool("pay", json!({"amount": 5})),
        Reply::tokens(40).gate(gate.clone()),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    let paths = [conversation_events(&posted), run_events(&posted)];
    let mut first = client.stream(&paths[0]).await;
    let mut whole = until_text(&mut first, "t19 ").await;
    let so_far = whole.len() as i64;

    let mut live = Vec::new();
    for path in &paths {
        for cursor in 0..=so_far {
            live.push((path, cursor, client.stream_after(path, cursor).await));
        }
    }
    gate.notify_one();
    whole.extend(first.until("done").await);
    assert!(numbered_through(&whole));
    let expected = [
        "message", "meta", "token", "mcp_tool", "mcp_tool", "token", "message", "done",
    ];
    let shown: Vec<String> = kinds(&whole).into_iter().filter(|kind| kind != "usage").collect();
    assert_eq!(shown, expected);
    let suffix = |cursor: i64| &whole[usize::try_from(cursor).unwrap()..];
    for (path, cursor, mut stream) in live {
        assert_eq!(
            stream.until("done").await,
            suffix(cursor),
            "{path} after {cursor}, live"
        );
    }

    app.wait_until_idle().await;
    let end = whole.len() as i64;
    for path in &paths {
        for cursor in 0..end {
            let mut stream = client.stream_after(path, cursor).await;
            assert_eq!(
                stream.until("done").await,
                suffix(cursor),
                "{path} after {cursor}, afterwards"
            );
        }
    }
    assert_eq!(
        client.stream_status(&format!("{}?after={end}", paths[1])).await,
        StatusCode::NO_CONTENT
    );
    assert!(
        client
            .stream_after(&paths[0], end)
            .await
            .is_silent_for(Duration::from_millis(200))
            .await
    );
    assert_eq!(ledger.entries().len(), 1);
}

#[tokio::test]
async fn fifty_equal_posts_to_two_apis_are_one_run() {
    let app = TestApp::start().await;
    let second = app.another_api().await;
    let agent = app.agent("writer", &[]).await;
    app.model.script([Reply::text("once")]);
    let clients = [app.client(), Client::new(second.url(), &app.db.api_key)];
    let post = |n: usize, message: &str| {
        let request = clients[n % 2].request(Method::POST, "/api/chat/stream");
        let request = request
            .header("accept", "application/json")
            .header("idempotency-key", "same");
        request
            .json(&json!({"message": message, "agentDefinitionId": agent}))
            .send()
    };
    let answers = join_all((0..50).map(|n| post(n, "hello"))).await;
    let answers = join_all(answers.into_iter().map(|response| answer(response.unwrap()))).await;
    assert!(
        answers
            .iter()
            .all(|answer| *answer == (StatusCode::ACCEPTED, answers[0].1.clone())),
        "{answers:?}"
    );
    let (status, problem) = answer(post(0, "goodbye").await.unwrap()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
    );
    let frames = clients[1].stream(&run_events(&answers[0].1)).await.rest().await;
    assert_eq!((text(&frames), count(&frames, "done")), ("once".to_owned(), 1));
    app.wait_until_idle().await;
    let runs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!((runs, app.model.requests().len()), (1, 1));
    second.stop().await.unwrap();
}

/// A turn during which the database crashes and recovers, once its reader has `t19`. Returns the events of a reader
/// that reconnects with its cursor.
async fn turn_over_a_crash(replies: [Reply; 2], meanwhile: impl FnOnce()) -> Vec<Frame> {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(database, AppOptions::default()).await;
    let agent = app.agent("writer", &[]).await;
    app.model.script(replies);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = conversation_events(&posted);
    let reader = tokio::spawn({
        let (client, path) = (client.clone(), path.clone());
        async move { follow_to_done(&client, &path).await }
    });
    let mut other = client.stream(&path).await;
    until_text(&mut other, "t19 ").await;
    postgres.stop_immediate().await.unwrap();
    postgres.restart().await.unwrap();
    meanwhile();
    let frames = reader.await.unwrap();
    assert!(numbered_through(&frames), "{:?}", seqs(&frames));
    assert_eq!(count(&frames, "done"), 1);
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    assert_eq!(
        kinds(&apply_resets(&frames)),
        ["message", "meta", "token", "usage", "message", "done"]
    );
    // A new reader reads the same.
    assert_eq!(client.stream(&run_events(&posted)).await.rest().await, frames);
    app.wait_until_idle().await;
    drop(app);
    postgres.stop().await.unwrap();
    frames
}

fn tokens(n: usize) -> String {
    (0..n).map(|n| format!("t{n} ")).collect()
}

#[tokio::test]
async fn a_database_that_crashes_while_the_model_thinks_costs_no_word() {
    let gate = Arc::new(Notify::new());
    // The second reply is for a worker that had to restart the step.
    let replies = [Reply::tokens(40).gate(gate.clone()), Reply::tokens(40)];
    let frames = turn_over_a_crash(replies, || gate.notify_one()).await;
    assert_eq!(text(&frames), tokens(40));
}

#[tokio::test]
async fn a_database_that_crashes_while_words_flow_costs_none_of_them() {
    let reply = Reply::tokens(400).words_every(5);
    let frames = turn_over_a_crash([reply.clone(), reply], || ()).await;
    assert_eq!(text(&frames), tokens(400));
}
