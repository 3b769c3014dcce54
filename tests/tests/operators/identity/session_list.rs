//! Where users are signed in: the list of their sessions, and ending them from elsewhere. (Signing in and out:
//! `browser_sessions`.)

use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::Browser;
use super::members::{member, quiet};

/// A browser that is signed in with a code of this client.
async fn signed_in(app: &TestApp, client: &Client) -> Browser {
    let (_, code) = client.post("/api/sign-in-codes", json!({})).await;
    let mut browser = Browser::new(app.url());
    let body = json!({"code": code["code"]});
    let (status, session) = browser.send(Method::POST, "/api/session", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{session}");
    browser
}

async fn listed(browser: &mut Browser, path: &str) -> Vec<Value> {
    let (status, list) = browser.send(Method::GET, path, None).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    list["items"].as_array().unwrap().clone()
}

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_user_sees_and_ends_own_sessions_only() {
    let app = quiet().await;
    let (_, bob) = member(&app, Role::Viewer).await;
    let (mut first, mut second) = (
        signed_in(&app, &app.client()).await,
        signed_in(&app, &app.client()).await,
    );
    let mut theirs = signed_in(&app, &bob).await;
    let mine = listed(&mut second, "/api/sessions").await;
    assert_eq!(mine.len(), 2);
    let current: Vec<&Value> = mine.iter().map(|session| &session["isCurrent"]).collect();
    assert_eq!(current, [&json!(true), &json!(false)], "newest first");
    for session in &mine {
        assert_eq!(
            (&session["begunBy"], &session["userId"], &session["projectId"]),
            (&json!("code"), &json!(app.db.user_id), &json!(app.db.workspace_id))
        );
        assert!(
            session["lastUsedAt"].is_string() || session["isCurrent"] == json!(false),
            "{session}"
        );
        assert_eq!(session.get("secret").or(session.get("hash")), None);
    }
    let theirs_id = id(&listed(&mut theirs, "/api/sessions").await[0]).to_owned();
    let path = |id: &str| format!("/api/sessions/{id}");
    let (status, problem) = second.send(Method::DELETE, &path(&theirs_id), None).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("session_not_found"))
    );
    assert!(first.me().await.is_some() && theirs.me().await.is_some());
    let ended = second.send(Method::DELETE, &path(id(&mine[1])), None).await;
    assert_eq!(ended.0, StatusCode::NO_CONTENT);
    assert_eq!(first.me().await, None);
    let again = second.send(Method::DELETE, &path(id(&mine[1])), None).await;
    assert_eq!(again.0, StatusCode::NOT_FOUND);
    // A viewer, too; and all others at once.
    let (mut third, mut fourth) = (signed_in(&app, &bob).await, signed_in(&app, &bob).await);
    let (status, ended) = fourth.send(Method::DELETE, "/api/sessions", None).await;
    assert_eq!((status, &ended["ended"]), (StatusCode::OK, &json!(2)));
    assert_eq!((third.me().await, theirs.me().await), (None, None));
    assert!(fourth.me().await.is_some() && second.me().await.is_some());
    let told: i64 = sqlx::query_scalar("select count(*) from audit.entries where action = 'session.revoked'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(told, 3);
}

#[tokio::test]
async fn a_read_only_key_lists_sessions_and_ends_none() {
    let app = quiet().await;
    let mut browser = signed_in(&app, &app.client()).await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let made = auth::create_key(&mut db, user, Some(project), "reads", &[Scope::Read], None).await;
    let reader = Client::new(app.url(), &made.unwrap().1);
    let (status, list) = reader.get("/api/sessions").await;
    assert_eq!((status, list["items"].as_array().unwrap().len()), (StatusCode::OK, 1));
    let path = format!("/api/sessions/{}", id(&list["items"][0]));
    for (status, problem) in [reader.delete(&path).await, reader.delete("/api/sessions").await] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("session_needed"))
        );
    }
    assert!(browser.me().await.is_some());
    assert_eq!(
        app.client().delete(&path).await.0,
        StatusCode::NO_CONTENT,
        "a key that may write"
    );
    assert_eq!(browser.me().await, None);
}

#[tokio::test]
async fn admins_see_and_end_the_sessions_of_their_project() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let (user, bob) = member(&app, Role::Member).await;
    let mut theirs = signed_in(&app, &bob).await;
    // The same user elsewhere.
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    workspaces::add_member(&mut db, other, user, Role::Member)
        .await
        .unwrap();
    let made = auth::create_key(&mut db, user, Some(other), "other", &Scope::ALL, None).await;
    drop(db);
    let elsewhere_key = Client::new(app.url(), &made.unwrap().1);
    let mut elsewhere = signed_in(&app, &elsewhere_key).await;
    assert_eq!(listed(&mut theirs, "/api/sessions").await.len(), 2, "in all projects");
    let path = format!("/api/admin/projects/{project}/sessions");
    assert_eq!(bob.get(&path).await.0, StatusCode::FORBIDDEN);
    let (_, operator) = member(&app, Role::Operator).await;
    let (status, list) = operator.get(&path).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    let [session] = list["items"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    assert_eq!(session["userId"], json!(user));
    let of_elsewhere = listed(&mut elsewhere, "/api/sessions").await;
    let foreign = of_elsewhere
        .iter()
        .find(|session| session["projectId"] == json!(other))
        .unwrap();
    let (status, _) = operator.delete(&format!("{path}/{}", id(foreign))).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = operator.delete(&format!("{path}/{}", id(session))).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(theirs.me().await, None);
    assert!(elsewhere.me().await.is_some());
}
