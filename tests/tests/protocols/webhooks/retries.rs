//! Order, retries, dead letters and replays; and workers that die at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::mcp::secret_keys_file;
use rejoin_tests::support::wait_for;
use rejoin_tests::web::{PLACE, Site};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Hook, add, header, options, payload, requests, talk};

/// A receiver that fails while `is_broken`.
async fn breakable(status: StatusCode) -> (Site, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(true));
    let seen_broken = is_broken.clone();
    let site = Site::start(move |_, _| {
        if seen_broken.load(Ordering::SeqCst) {
            (status, "not now").into_response()
        } else {
            StatusCode::OK.into_response()
        }
    })
    .await;
    (site, is_broken)
}

#[tokio::test]
async fn events_of_a_conversation_arrive_in_order_despite_failures() {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            (options().worker)(config);
            config.webhooks.webhook_retries_s = vec![0; 20];
        },
        ..options()
    })
    .await;
    let count = Arc::new(AtomicUsize::new(0));
    // Every second request fails, so that a later event could overtake.
    let site = Site::start(move |_, _| match count.fetch_add(1, Ordering::SeqCst) % 3 {
        2 => StatusCode::OK.into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    })
    .await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let agent = app.agent("writer", &[]).await;
    let conversation = talk(&app, agent, None, "one").await;
    for message in ["two", "three", "four"] {
        talk(&app, agent, Some(&conversation), message).await;
    }
    let mut deliveries = hook.ended(&app, 4).await;
    deliveries.reverse();
    let sent: Vec<String> = site
        .asked()
        .iter()
        .map(|asked| header(asked, "webhook-id").to_owned())
        .collect();
    let mut order = sent.clone();
    order.dedup();
    let expected: Vec<&str> = deliveries
        .iter()
        .map(|delivery| delivery["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(
        order, expected,
        "each event until it is accepted, then the next: {sent:?}"
    );
    assert!(
        deliveries.iter().all(|delivery| delivery["attempts"] == 3),
        "{deliveries:?}"
    );
    let ends: Vec<Value> = deliveries
        .iter()
        .map(|delivery| delivery["payload"]["data"]["finishedAt"].clone())
        .collect();
    assert!(
        ends.is_sorted_by_key(|end| end.as_str().expect("a time").to_owned()),
        "{ends:?}"
    );
}

async fn post(app: &TestApp, path: String) -> (u16, Value) {
    let (status, body) = app.client().post(&path, json!({})).await;
    (status.as_u16(), body)
}

#[tokio::test]
async fn a_dead_letter_is_visible_and_can_be_replayed() {
    let app = TestApp::with(options()).await;
    let (site, is_broken) = breakable(StatusCode::INTERNAL_SERVER_ERROR).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let agent = app.agent("writer", &[]).await;
    let conversation = talk(&app, agent, None, "one").await;
    talk(&app, agent, Some(&conversation), "two").await;
    let dead = hook.ended(&app, 2).await;
    for delivery in &dead {
        assert_eq!(
            (
                &delivery["state"],
                &delivery["attempts"],
                &delivery["lastStatus"],
                &delivery["lastError"]
            ),
            (
                &json!("dead"),
                &json!(3),
                &json!(500),
                &json!("the receiver responded 500: not now")
            )
        );
    }
    let (_, listed) = app
        .client()
        .get(&format!("{}/deliveries?state=delivered", hook.path))
        .await;
    assert_eq!(listed["items"], json!([]));
    let (_, listed) = app
        .client()
        .get(&format!("{}/deliveries?state=dead&limit=1", hook.path))
        .await;
    assert_eq!(listed["items"][0]["id"], dead[0]["id"]);
    assert!(listed["nextCursor"].is_string(), "{listed}");

    is_broken.store(false, Ordering::SeqCst);
    let (status, replayed) = post(&app, format!("{}/replay-dead", hook.path)).await;
    assert_eq!((status, &replayed), (202, &json!({"replayed": 2})));
    let delivered = hook.ended(&app, 2).await;
    assert!(
        delivered.iter().all(|delivery| delivery["state"] == "delivered"),
        "{delivered:?}"
    );
    let asked = site.asked();
    let ids: Vec<&str> = asked[6..].iter().map(|asked| header(asked, "webhook-id")).collect();
    assert_eq!(
        ids,
        [
            dead[1]["id"].as_str().expect("an id"),
            dead[0]["id"].as_str().expect("an id")
        ]
    );

    let one = format!(
        "{}/deliveries/{}/replay",
        hook.path,
        dead[0]["id"].as_str().expect("an id")
    );
    let (status, again) = post(&app, one).await;
    assert_eq!(
        (status, &again["state"], &again["attempts"]),
        (202, &json!("pending"), &json!(0))
    );
    hook.ended(&app, 2).await;
    assert_eq!(site.asked().len(), 9);
    let unknown = format!("{}/deliveries/{}/replay", hook.path, uuid::Uuid::now_v7());
    assert_eq!(post(&app, unknown).await.0, 404);
}

#[tokio::test]
async fn a_receiver_that_is_gone_gets_nothing_more() {
    let app = TestApp::with(options()).await;
    let (site, is_broken) = breakable(StatusCode::GONE).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let agent = app.agent("writer", &[]).await;
    let conversation = talk(&app, agent, None, "one").await;
    let dead = hook.ended(&app, 1).await;
    assert_eq!((&dead[0]["state"], &dead[0]["attempts"]), (&json!("dead"), &json!(1)));
    let (_, shown) = app.client().get(&hook.path).await;
    assert_eq!(
        (&shown["enabled"], &shown["disabledReason"]),
        (&json!(false), &json!("gone"))
    );
    assert_eq!(post(&app, format!("{}/test", hook.path)).await.0, 409);
    assert_eq!(post(&app, format!("{}/replay-dead", hook.path)).await.0, 409);
    talk(&app, agent, Some(&conversation), "two").await;
    assert_eq!(hook.deliveries(&app).await.len(), 1, "nothing was added meanwhile");

    is_broken.store(false, Ordering::SeqCst);
    let (status, enabled) = app.client().patch(&hook.path, json!({"enabled": true})).await;
    assert_eq!((status.as_u16(), &enabled["enabled"]), (200, &json!(true)));
    let (status, tested) = post(&app, format!("{}/test", hook.path)).await;
    assert_eq!((status, &tested["event"]), (202, &json!("webhook.test")));
    let delivered = hook.ended(&app, 2).await;
    assert_eq!(delivered[0]["state"], "delivered");
    assert_eq!(payload(&requests(&site, 2).await[1])["type"], "webhook.test");
}

#[tokio::test]
async fn a_disabled_webhook_keeps_its_pending_ones_as_dead_letters() {
    let mut app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    let (site, _) = breakable(StatusCode::OK).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    assert_eq!(post(&app, format!("{}/test", hook.path)).await.0, 202);
    let (status, _) = app.client().patch(&hook.path, json!({"enabled": false})).await;
    assert_eq!(status.as_u16(), 200);
    app.add_worker();
    let dead = hook.ended(&app, 1).await;
    assert_eq!(
        (&dead[0]["state"], &dead[0]["attempts"], &dead[0]["lastError"]),
        (&json!("dead"), &json!(0), &json!("the webhook is disabled"))
    );
    assert_eq!(site.asked().len(), 0);
}

/// Accepts one request of a delivery and reads it; returns the connection, and the delivery's id.
async fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut connection, _) = listener.accept().await.expect("a connection");
    let mut text = String::new();
    while !text.contains("\"data\"") {
        let mut bytes = [0; 4_096];
        let read = connection.read(&mut bytes).await.expect("a request");
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let id = text.lines().find_map(|line| line.strip_prefix("webhook-id: "));
    (connection, id.expect("an id").trim().to_owned())
}

fn worker(app: &TestApp) -> Process {
    let keys = secret_keys_file().display().to_string();
    let variables = [
        ("REJOIN_WEBHOOK_HOSTS", PLACE.to_owned()),
        ("REJOIN_SECRET_KEYS_FILE", keys),
    ];
    Process::worker_with(app, &variables)
}

async fn attempts(app: &TestApp, hook: &Hook) -> Value {
    hook.deliveries(app).await[0]["attempts"].clone()
}

#[tokio::test]
async fn a_killed_worker_loses_no_delivery() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    let listener = TcpListener::bind((PLACE, 0)).await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let hook = add(&app, &url, &["run.ended"]).await;
    app.model.script([rejoin_tests::model_server::Reply::text("Hello.")]);
    // Committed by a worker that dies while the receiver has not answered.
    let agent = app.agent("writer", &[]).await;
    let first = worker(&app);
    app.client()
        .post_message(json!({"message": "Hello?", "agentDefinitionId": agent}))
        .await;
    let (unanswered, first_id) = accept(&listener).await;
    first.kill();
    assert_eq!(attempts(&app, &hook).await, 1);
    drop(unanswered);
    let second = worker(&app);
    let (mut answered, second_id) = accept(&listener).await;
    assert_eq!(second_id, first_id, "a receiver can tell that it is the same");
    answered
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("a response");
    let delivered = hook.ended(&app, 1).await.remove(0);
    assert_eq!(
        (&delivered["state"], &delivered["attempts"]),
        (&json!("delivered"), &json!(2))
    );
    wait_for("the job to end", async || {
        let jobs: i64 = sqlx::query_scalar("select count(*) from queue.jobs")
            .fetch_one(&app.db.pool)
            .await
            .expect("a count");
        (jobs == 0).then_some(())
    })
    .await;
    second.kill();
}
