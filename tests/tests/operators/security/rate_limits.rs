//! How fast callers may go, all in all, and what they are told about it. (One key: `identity::auth`; one user's streams: `events::sse`.)

use rejoin_identity::auth;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_types::access::Scope;
use reqwest::{Method, Response, StatusCode};
use serde_json::json;

async fn with(api: fn(&mut rejoin_api::ApiConfig)) -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        api,
        ..AppOptions::default()
    })
    .await
}

async fn another_key(app: &TestApp) -> Client {
    let mut connection = app.db.pool.acquire().await.unwrap();
    let project = Some(app.db.workspace_id);
    let (_, key) = auth::create_key(&mut connection, app.db.user_id, project, "test", &Scope::ALL, None)
        .await
        .unwrap();
    Client::new(app.url(), &key)
}

async fn list(client: &Client) -> Response {
    client.request(Method::GET, "/api/conversations").send().await.unwrap()
}

fn number(response: &Response, header: &str) -> u64 {
    let value = response.headers().get(header);
    let value = value.unwrap_or_else(|| panic!("no {header}: {:?}", response.headers()));
    value.to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn every_answer_says_how_much_of_the_rate_is_left() {
    let app = with(|config| config.http.rate_per_s = 1_000).await;
    let client = app.client();
    let posted = client.post_message(json!({"message": "hello"})).await;
    let events = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let unknown = "/api/conversations/00000000-0000-0000-0000-000000000000";
    for (path, status) in [
        ("/api/conversations", StatusCode::OK),
        (unknown, StatusCode::NOT_FOUND),
        ("/api/conversations?limit=x", StatusCode::BAD_REQUEST),
        (&events, StatusCode::OK),
    ] {
        let response = client.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(number(&response, "ratelimit-limit"), 2_000, "{path}");
        assert!(number(&response, "ratelimit-remaining") < 2_000, "{path}");
        assert!(number(&response, "ratelimit-reset") >= 1, "{path}");
    }
    let nobody = list(&Client::new(app.url(), "nobody")).await;
    assert!(!nobody.headers().contains_key("ratelimit-limit"));
}

/// Sends requests until refused; returns the number of accepted ones.
async fn until_refused(clients: &[Client], whose: &str) -> usize {
    for asked in 0..100 {
        let response = list(&clients[asked % clients.len()]).await;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            assert!(number(&response, "retry-after") >= 1);
            assert_eq!(number(&response, "ratelimit-remaining"), 0);
            let (_, problem) = answer(response).await;
            assert_eq!(problem["code"], "too_many_requests");
            assert!(problem["detail"].as_str().unwrap().ends_with(whose), "{problem}");
            return asked;
        }
        assert_eq!(response.status(), StatusCode::OK);
    }
    panic!("a hundred requests were not too many");
}

#[tokio::test]
async fn many_keys_or_users_do_not_raise_the_rate_limit() {
    let app = with(|config| config.http.user_rate_per_s = 3).await;
    let keys = [app.client(), another_key(&app).await, another_key(&app).await];
    let asked = until_refused(&keys, "this user").await;
    assert!(asked >= 6, "a burst: {asked}");
    let (_, other) = app.db.another_user().await;
    assert_eq!(
        list(&Client::new(app.url(), &other)).await.status(),
        StatusCode::OK,
        "another user is not concerned"
    );

    let app = with(|config| config.http.project_rate_per_s = 3).await;
    let mut users = vec![app.client()];
    for _ in 0..2 {
        users.push(Client::new(app.url(), &app.db.another_user().await.1));
    }
    let asked = until_refused(&users, "this project").await;
    assert!(asked >= 6, "a burst: {asked}");
}

#[tokio::test]
async fn a_project_has_a_bounded_number_of_streams() {
    let app = with(|config| config.streams.max_streams_per_project = 2).await;
    let (_, other_key) = app.db.another_user().await;
    let mut paths = Vec::new();
    for client in [app.client(), Client::new(app.url(), &other_key)] {
        let posted = client.post_message(json!({"message": "hello"})).await;
        let path = format!(
            "/api/conversations/{}/events",
            posted["conversationId"].as_str().unwrap()
        );
        paths.push((client, path));
    }
    let mut open = Vec::new();
    for (client, path) in &paths {
        open.push(client.stream(path).await);
    }
    for (client, path) in &paths {
        let refused = client.request(Method::GET, path).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(number(&refused, "retry-after") >= 1);
    }
    drop(open.pop());
    let (client, path) = &paths[0];
    rejoin_tests::support::wait_for("a place to be free", async || {
        (client.stream_status(path).await == StatusCode::OK).then_some(())
    })
    .await;
}
