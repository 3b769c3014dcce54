//! Receivers that hang, never end, redirect, or are no business of a project's.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::stream;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::web::{PLACE, Site, to};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Hook, add, options, path};

async fn app() -> TestApp {
    TestApp::with(AppOptions {
        worker: |config| {
            (options().worker)(config);
            config.webhooks.webhook_retries_s = Vec::new();
        },
        ..options()
    })
    .await
}

/// Sends a test event, and returns its delivery once it has ended.
async fn tried(app: &TestApp, hook: &Hook) -> Value {
    let (status, test) = app.client().post(&format!("{}/test", hook.path), json!({})).await;
    assert_eq!(status.as_u16(), 202, "{test}");
    hook.ended(app, 1).await.remove(0)
}

#[tokio::test]
async fn addresses_of_this_machine_and_of_networks_are_refused() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    for url in [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fc00::1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1/",
        "https://192.168.1.1/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://user:password@hooks.example/",
        "http://hooks.example/",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "hooks.example",
        "",
    ] {
        let body = json!({"url": url, "events": ["run.ended"]});
        let (status, refused) = app.client().post(&path(&app), body).await;
        assert_eq!(
            (status.as_u16(), &refused["code"]),
            (400, &json!("invalid_webhook")),
            "{url}"
        );
    }
    let hook = add(&app, "https://hooks.example/", &["run.ended"]).await;
    let (status, refused) = app
        .client()
        .patch(&hook.path, json!({"url": "https://10.0.0.1/"}))
        .await;
    assert_eq!((status.as_u16(), &refused["code"]), (400, &json!("invalid_webhook")));
}

#[tokio::test]
async fn a_name_is_judged_by_its_address_when_an_event_is_sent() {
    let app = app().await;
    let hook = add(&app, "https://localhost/", &["run.ended"]).await;
    let dead = tried(&app, &hook).await;
    assert_eq!(dead["state"], "dead");
    let error = dead["lastError"].as_str().expect("an error");
    assert!(error.contains("REJOIN_WEBHOOK_HOSTS"), "{error}");
}

#[tokio::test]
async fn a_receiver_that_hangs_costs_one_timeout() {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            (options().worker)(config);
            config.webhooks.webhook_retries_s = Vec::new();
            config.webhooks.webhook_timeout_ms = 1_000;
        },
        ..options()
    })
    .await;
    let listener = TcpListener::bind((PLACE, 0)).await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let hook = add(&app, &url, &["run.ended"]).await;
    let dead = tried(&app, &hook).await;
    assert_eq!((&dead["state"], &dead["lastStatus"]), (&json!("dead"), &Value::Null));
    assert_eq!(dead["lastError"], "the request timed out after 1000 ms");
}

#[tokio::test]
async fn an_endless_response_is_cut_off() {
    let app = app().await;
    let endless = || {
        let zeros = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b'0'; 64 * 1024])));
        Response::new(Body::from_stream(zeros))
    };
    let site = Site::start(move |_, _| endless()).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    assert_eq!(tried(&app, &hook).await["state"], "delivered");
    let failing = Site::start(move |_, _| (StatusCode::BAD_GATEWAY, endless()).into_response()).await;
    let hook = add(&app, &failing.url, &["run.ended"]).await;
    let dead = tried(&app, &hook).await;
    let error = dead["lastError"].as_str().expect("an error");
    assert_eq!((&dead["lastStatus"], error.len() < 300), (&json!(502), true));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let app = app().await;
    let secret = Site::start(|_, _| StatusCode::OK.into_response()).await;
    let target = secret.url.clone();
    let site = Site::start(move |_, _| to(target.clone())).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let dead = tried(&app, &hook).await;
    assert_eq!((&dead["state"], &dead["lastStatus"]), (&json!("dead"), &json!(302)));
    assert!(
        dead["lastError"]
            .as_str()
            .is_some_and(|error| error.contains("not followed")),
        "{dead}"
    );
    assert_eq!(secret.asked().len(), 0);
}
