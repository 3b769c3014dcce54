//! Sessions of browsers: signing in and out, and the limits of their cookie.

use rejoin_identity::auth;
use rejoin_identity::workspaces::Role;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, Stream, answer};
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use reqwest::header::SET_COOKIE;
use reqwest::{Method, Response, StatusCode};
use serde_json::json;

use super::members::{member, quiet};

/// A browser: its cookie, and its statement of requests' origin.
struct Browser<'a> {
    app: &'a TestApp,
    cookie: String,
}

impl<'a> Browser<'a> {
    async fn sign_in(app: &'a TestApp, client: &Client) -> (Self, Response) {
        let origin = app.url();
        let request = client.request(Method::POST, "/api/session").header("origin", origin);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let set = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        let cookie = set.split(';').next().unwrap().to_owned();
        (Self { app, cookie }, response)
    }

    async fn send(&self, method: Method, path: &str, site: &str) -> Response {
        let request = reqwest::Client::new()
            .request(method, format!("{}{path}", self.app.url()))
            .header("cookie", &self.cookie)
            .header(
                "origin",
                if site == "same-origin" {
                    self.app.url()
                } else {
                    "https://evil.example".into()
                },
            )
            .header("sec-fetch-site", site)
            .json(&json!({}));
        request.send().await.unwrap()
    }

    async fn status(&self, method: Method, path: &str) -> StatusCode {
        self.send(method, path, "same-origin").await.status()
    }
}

#[tokio::test]
async fn a_browser_signs_in_talks_and_signs_out() {
    let app = quiet().await;
    let (browser, response) = Browser::sign_in(&app, &app.client()).await;
    let set = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    for needed in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(needed), "{set}");
    }
    assert!(!set.contains("Secure"), "over plain HTTP it would not be kept: {set}");
    let (_, session) = answer(response).await;
    assert_eq!(session["projectId"], json!(app.db.workspace_id));
    assert_eq!(
        browser.status(Method::POST, "/api/conversations").await,
        StatusCode::CREATED
    );

    // A credential sent in the wrong place is rejected.
    let secret = browser.cookie.split_once('=').unwrap().1;
    assert_eq!(
        Client::new(app.url(), secret).get("/api/me").await.0,
        StatusCode::UNAUTHORIZED
    );
    let key_as_cookie = Browser {
        app: &app,
        cookie: format!("rejoin_session={}", app.db.api_key),
    };
    assert_eq!(
        key_as_cookie.status(Method::GET, "/api/me").await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        browser.status(Method::POST, "/api/session").await,
        StatusCode::FORBIDDEN
    );

    let posted = app.client().post_message(json!({"message": "hello"})).await;
    let events = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let stream = browser.send(Method::GET, &events, "same-origin").await;
    assert_eq!(stream.status(), StatusCode::OK);
    let out = browser.send(Method::DELETE, "/api/session", "same-origin").await;
    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(browser.status(Method::GET, "/api/me").await, StatusCode::UNAUTHORIZED);
    Stream::of(stream).rest().await;
    let told: Vec<String> =
        sqlx::query_scalar("select action from audit.entries where target like 'session:%' order by id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(told, ["session.begun", "session.ended"]);
}

/// A15.
#[tokio::test]
async fn a_cookie_serves_pages_of_this_server_only() {
    let app = quiet().await;
    let (browser, _) = Browser::sign_in(&app, &app.client()).await;
    let posted = app.client().post_message(json!({"message": "hello"})).await;
    let events = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    for site in ["cross-site", "same-site"] {
        for (method, path) in [
            (Method::POST, "/api/conversations"),
            (Method::DELETE, "/api/session"),
            (Method::GET, "/api/conversations"),
            (Method::GET, events.as_str()),
        ] {
            let response = browser.send(method.clone(), path, site).await;
            assert!(
                response
                    .headers()
                    .keys()
                    .all(|name| !name.as_str().starts_with("access-control-")),
                "no other site is let in: {:?}",
                response.headers()
            );
            let (status, problem) = answer(response).await;
            let expected = (StatusCode::FORBIDDEN, &json!("cross_site"));
            assert_eq!((status, &problem["code"]), expected, "{site} {method} {path}");
        }
    }
    // A browser without `Sec-Fetch-Site`, identified by its origin.
    let plain = reqwest::Client::new()
        .post(format!("{}/api/conversations", app.url()))
        .header("cookie", &browser.cookie)
        .json(&json!({}));
    assert_eq!(plain.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    let preflight = reqwest::Client::new()
        .request(Method::OPTIONS, format!("{}/api/conversations", app.url()))
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    let preflight = preflight.send().await.unwrap();
    assert!(!preflight.status().is_success());
    assert!(!preflight.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn a_session_ends_with_the_key_that_it_was_begun_with() {
    let app = quiet().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let made = auth::create_key(&mut db, user, Some(project), "laptop", &[Scope::Read], Some(60)).await;
    let (id, key) = made.unwrap();
    drop(db);
    let client = Client::new(app.url(), &key);
    let (browser, response) = Browser::sign_in(&app, &client).await;
    let (_, session) = answer(response).await;
    let expires: chrono::DateTime<chrono::Utc> = session["expiresAt"].as_str().unwrap().parse().unwrap();
    let now: chrono::DateTime<chrono::Utc> = sqlx::query_scalar("select now()")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(expires - now <= chrono::TimeDelta::seconds(60), "{expires}");
    assert_eq!(
        browser.status(Method::POST, "/api/conversations").await,
        StatusCode::FORBIDDEN,
        "it can do no more"
    );
    auth::revoke_key(&app.db.pool, id).await.unwrap();
    wait_for("the session to end", async || {
        (browser.status(Method::GET, "/api/me").await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    let (_, service) = member(&app, Role::Service).await;
    let refused = service.post("/api/session", json!({})).await;
    assert_eq!(
        (refused.0, &refused.1["code"]),
        (StatusCode::FORBIDDEN, &json!("role_missing"))
    );
}
