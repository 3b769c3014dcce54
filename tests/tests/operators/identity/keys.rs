//! API keys over HTTP: creating, listing and revoking them.

use std::time::{Duration, Instant};

use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::members::member;

pub(super) async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

pub(super) fn path(app: &TestApp) -> String {
    format!("/api/admin/projects/{}/keys", app.db.workspace_id)
}

/// Creates a key over HTTP; returns its id and a client with it.
async fn make(app: &TestApp, with: &Client, scopes: &[&str]) -> (String, Client) {
    let (status, made) = with.post(&path(app), json!({"name": "made", "scopes": scopes})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    (
        made["id"].as_str().unwrap().to_owned(),
        Client::new(app.url(), made["key"].as_str().unwrap()),
    )
}

/// Creates a key directly in the database.
pub(super) async fn given(
    app: &TestApp,
    user: Uuid,
    project: Uuid,
    scopes: &[Scope],
    expires_in_s: Option<i64>,
) -> (Uuid, Client) {
    let mut db = app.db.pool.acquire().await.unwrap();
    let (id, key) = auth::create_key(&mut db, user, Some(project), "given", scopes, expires_in_s)
        .await
        .unwrap();
    (id, Client::new(app.url(), &key))
}

#[tokio::test]
async fn a_key_is_shown_once_has_its_scopes_and_is_audited() {
    let app = quiet().await;
    let client = app.client();
    let body = json!({"name": " ci ", "scopes": ["write", "read", "read"], "expiresInDays": 30});
    let (status, made) = client.post(&path(&app), body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let secret = made["key"].as_str().unwrap();
    assert_eq!(
        (&made["name"], &made["scopes"], &made["madeBy"], &made["lastUsedAt"]),
        (
            &json!("ci"),
            &json!(["read", "write"]),
            &json!(app.db.user_id),
            &Value::Null
        )
    );
    assert!(made["expiresAt"].is_string());
    let key = Client::new(app.url(), secret);
    let me = key.get("/api/me").await.1;
    assert_eq!(
        (&me["userId"], &me["projectId"], &me["scopes"]),
        (
            &json!(app.db.user_id),
            &json!(app.db.workspace_id),
            &json!(["read", "write"])
        )
    );
    let (status, listed) = client.get(&path(&app)).await;
    assert_eq!(status, StatusCode::OK);
    let mine = &listed["items"][0];
    assert_eq!(mine["id"], made["id"]);
    assert!(mine["lastUsedAt"].is_string(), "{mine}");
    let text = listed.to_string();
    assert!(!text.contains(secret) && !text.contains("hash") && mine["key"].is_null());
    assert!(secret.starts_with(mine["prefix"].as_str().unwrap()));
    // The audit log has it, without the secret.
    let audit = client
        .get(&format!("/api/admin/projects/{}/audit", app.db.workspace_id))
        .await
        .1;
    let entry = &audit["items"][0];
    assert_eq!(
        (&entry["action"], &entry["target"], &entry["detail"]["scopes"]),
        (
            &json!("key.created"),
            &json!(format!("api_key:{}", made["id"].as_str().unwrap())),
            &json!(["read", "write"])
        )
    );
    assert!(!audit.to_string().contains(secret));
    // Pages.
    let first = client.get(&format!("{}?limit=1", path(&app))).await.1;
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = client.get(&format!("{}?limit=1&cursor={cursor}", path(&app))).await.1;
    assert_ne!(first["items"][0]["id"], second["items"][0]["id"]);
}

pub(super) async fn sign_in(client: &Client) -> String {
    let response = client.request(Method::POST, "/api/session").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let cookie = response.headers()[reqwest::header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

pub(super) fn with_cookie(app: &TestApp, method: Method, path: &str, cookie: &str) -> reqwest::RequestBuilder {
    reqwest::Client::new()
        .request(method, format!("{}{path}", app.url()))
        .header("cookie", cookie)
        .header("sec-fetch-site", "same-origin")
}

#[tokio::test]
async fn another_projects_keys_are_not_found() {
    let app = quiet().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    workspaces::add_member(&mut db, other, app.db.user_id, Role::Owner)
        .await
        .unwrap();
    drop(db);
    let (theirs, there) = given(&app, app.db.user_id, other, &Scope::ALL, None).await;
    let client = app.client();
    for (status, problem) in [
        client.get(&format!("/api/admin/projects/{other}/keys")).await,
        client
            .post(
                &format!("/api/admin/projects/{other}/keys"),
                json!({"name": "x", "scopes": ["read"]}),
            )
            .await,
        client
            .delete(&format!("/api/admin/projects/{other}/keys/{theirs}"))
            .await,
        client.delete(&format!("{}/{theirs}", path(&app))).await,
    ] {
        assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
    }
    assert!(
        !client
            .get(&path(&app))
            .await
            .1
            .to_string()
            .contains(&theirs.to_string())
    );
    assert_eq!(there.get("/api/me").await.0, StatusCode::OK);
    // A session is no key.
    let cookie = sign_in(&client).await;
    let session: Uuid = sqlx::query_scalar("select id from kb.api_keys where kind = 'session'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(
        client.delete(&format!("{}/{session}", path(&app))).await.0,
        StatusCode::NOT_FOUND
    );
    let me = with_cookie(&app, Method::GET, "/api/me", &cookie).send().await.unwrap();
    assert_eq!(me.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_revoked_key_ends_everywhere_with_streams_and_sessions() {
    let app = quiet().await;
    let second = app.another_api().await;
    let (id, key) = make(&app, &app.client(), &["read", "write"]).await;
    let posted = key.post_message(json!({"message": "hello"})).await;
    let events = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let stream = key.stream(&events).await;
    let cookie = sign_in(&key).await;
    let bearer = key.request(Method::GET, "/api/me").build().unwrap().headers()["authorization"].clone();
    let elsewhere = async || {
        let request = reqwest::Client::new().get(format!("{}/api/me", second.url()));
        request
            .header("authorization", bearer.clone())
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(elsewhere().await, StatusCode::OK);
    let revoked = Instant::now();
    let one = format!("{}/{id}", path(&app));
    assert_eq!(app.client().delete(&one).await.0, StatusCode::NO_CONTENT);
    assert_eq!(key.get("/api/me").await.0, StatusCode::UNAUTHORIZED, "at once here");
    let me = with_cookie(&app, Method::GET, "/api/me", &cookie).send().await.unwrap();
    assert_eq!(me.status(), StatusCode::UNAUTHORIZED, "its session went with it");
    wait_for("the other process to refuse it", async || {
        (elsewhere().await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    stream.rest().await;
    assert!(revoked.elapsed() < Duration::from_secs(7), "{:?}", revoked.elapsed());
    // Repeating it has no effect, and is recorded once.
    assert_eq!(app.client().delete(&one).await.0, StatusCode::NO_CONTENT);
    let told: i64 = sqlx::query_scalar("select count(*) from audit.entries where action = 'key.revoked'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn the_last_admin_key_is_revoked_by_a_member_who_stays() {
    let app = quiet().await;
    let client = app.client();
    let listed = client.get(&path(&app)).await.1;
    let own = listed["items"].as_array().unwrap().last().unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let one = format!("{}/{own}", path(&app));
    // Neither with itself nor with a session that ends with it; keys without the scope, or of a viewer, don't count.
    let (_, _) = make(&app, &client, &["read"]).await;
    let (viewer, _) = app.db.another_user().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, app.db.workspace_id, viewer, Role::Viewer)
        .await
        .unwrap();
    drop(db);
    let cookie = sign_in(&client).await;
    let (status, problem) = client.delete(&one).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("last_admin_key"))
    );
    let by_session = with_cookie(&app, Method::DELETE, &one, &cookie).send().await.unwrap();
    assert_eq!(by_session.status(), StatusCode::CONFLICT);
    let (_, other) = make(&app, &client, &["read", "admin"]).await;
    assert_eq!(client.delete(&one).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.get("/api/me").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(other.get(&path(&app)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn users_see_and_revoke_their_own_keys_only() {
    let app = quiet().await;
    let (user, member) = member(&app, Role::Member).await;
    let (status, list) = member.get("/api/keys").await;
    assert_eq!(status, StatusCode::OK, "{list}");
    let [own] = list["items"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    assert_eq!((&own["userId"], own.get("key")), (&json!(user), None));
    let (_, list) = app.client().get("/api/keys").await;
    let others = format!("/api/keys/{}", list["items"][0]["id"].as_str().unwrap());
    let (status, problem) = member.delete(&others).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("key_not_found"))
    );
    let mut db = app.db.pool.acquire().await.unwrap();
    let (project, reads) = (app.db.workspace_id, [Scope::Read]);
    let made = auth::create_key(&mut db, user, Some(project), "reads", &reads, None).await;
    let (id, key) = made.unwrap();
    let reader = Client::new(app.url(), &key);
    let (status, problem) = reader
        .delete(&format!("/api/keys/{}", own["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("key_not_found"))
    );
    assert_eq!(
        reader.delete(&format!("/api/keys/{id}")).await.0,
        StatusCode::NO_CONTENT,
        "itself"
    );
    assert_eq!(reader.get("/api/me").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(member.get("/api/me").await.0, StatusCode::OK);
}
