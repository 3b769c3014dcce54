//! API keys over HTTP: creating, listing and revoking them, and the database's restrictions of the API (invariant I14).

use std::time::{Duration, Instant};

use rejoin_db::rls;
use rejoin_identity::auth;
use rejoin_identity::keys::MAX_KEYS;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn path(app: &TestApp) -> String {
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
async fn given(
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
async fn a_key_is_shown_once_does_what_its_scopes_say_and_is_told_of() {
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

#[tokio::test]
async fn what_makes_no_sense_as_a_key_is_refused() {
    let app = quiet().await;
    for body in [
        json!({"name": " ", "scopes": ["read"]}),
        json!({"name": "x".repeat(101), "scopes": ["read"]}),
        json!({"name": "a\nb", "scopes": ["read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["root"]}),
        json!({"name": "x", "scopes": ["read"], "expiresInDays": 0}),
        json!({"name": "x", "scopes": ["read"], "expiresInDays": i64::MAX}),
        json!({"name": "x", "scopes": ["read"], "userId": Uuid::now_v7()}),
    ] {
        let (status, problem) = app.client().post(&path(&app), body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {problem}");
    }
    sqlx::query(
        "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash)
         select gen_random_uuid(), $1, $2, 'many', '', sha256(n::text::bytea) from generate_series(1, $3) n",
    )
    .bind(app.db.user_id)
    .bind(app.db.workspace_id)
    .bind(i32::try_from(MAX_KEYS).unwrap())
    .execute(&app.db.pool)
    .await
    .unwrap();
    let body = json!({"name": "one more", "scopes": ["read"]});
    let (status, problem) = app.client().post(&path(&app), body).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("too_many_keys"))
    );
}

#[tokio::test]
async fn no_key_makes_a_key_with_more_rights_or_a_longer_life() {
    let app = quiet().await;
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let (_, writer) = given(&app, user, project, &[Scope::Read, Scope::Write], None).await;
    let asked = json!({"name": "x", "scopes": ["read"]});
    for (status, problem) in [
        writer.post(&path(&app), asked.clone()).await,
        writer.get(&path(&app)).await,
        writer.delete(&format!("{}/{}", path(&app), Uuid::now_v7())).await,
    ] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing"))
        );
    }
    // An admin's key without `write`; and an operator's key, whose scopes exceed the role.
    let (_, admin) = given(&app, user, project, &[Scope::Read, Scope::Admin], Some(3600)).await;
    let (operator, key) = app.db.another_user().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, project, operator, Role::Operator)
        .await
        .unwrap();
    drop(db);
    for client in [&admin, &Client::new(app.url(), &key)] {
        let (status, problem) = client
            .post(&path(&app), json!({"name": "x", "scopes": ["read", "write"]}))
            .await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing"))
        );
    }
    // Keys created with it expire with it, also via a browser's session.
    let ends = |made: &Value| made["expiresAt"].as_str().map(str::to_owned);
    let (_, made) = admin
        .post(
            &path(&app),
            json!({"name": "x", "scopes": ["admin"], "expiresInDays": 9}),
        )
        .await;
    let listed = admin.get(&path(&app)).await.1;
    let own = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["name"] == "given" && !item["expiresAt"].is_null());
    assert_eq!(ends(&made), ends(own.unwrap()));
    let cookie = sign_in(&admin).await;
    let (status, made) = answer(
        with_cookie(&app, Method::POST, &path(&app), &cookie)
            .json(&asked)
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, ends(&made)),
        (StatusCode::CREATED, ends(own.unwrap())),
        "{made}"
    );
}

async fn sign_in(client: &Client) -> String {
    let response = client.request(Method::POST, "/api/session").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let cookie = response.headers()[reqwest::header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn with_cookie(app: &TestApp, method: Method, path: &str, cookie: &str) -> reqwest::RequestBuilder {
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
async fn the_database_limits_the_api_to_keys_of_the_named_project() {
    let app = quiet().await;
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    drop(db);
    let (theirs, _) = given(&app, user, other, &[Scope::Read], None).await;
    let (mine, _) = given(&app, user, project, &[Scope::Read], None).await;
    let here = rls::Scope::UserLogin(Owner {
        workspace_id: project,
        user_id: user,
    });
    let run = async |scope, sql: String| {
        let mut tx = rls::begin(&app.db.pool, scope).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(sql))
            .execute(&mut *tx)
            .await
            .map(|done| done.rows_affected());
        drop(tx);
        done
    };
    let (somebody, _) = app.db.another_user().await;
    let insert_of = |user: Uuid, by: Uuid, project: Uuid| {
        format!(
            "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, made_by)
             values (gen_random_uuid(), '{user}', '{project}', 'x', '', '\\x00', '{by}')"
        )
    };
    let insert = |project: Uuid, user: Uuid| insert_of(user, user, project);
    let revoke = |id: Uuid| format!("update kb.api_keys set revoked_at = now() where id = '{id}'");
    assert_eq!(run(here, insert(project, user)).await.unwrap(), 1);
    for (scope, sql) in [
        (here, insert(other, user)),
        (here, insert(project, somebody)),
        (here, insert_of(somebody, user, project)),
        (here, insert_of(user, somebody, project)),
        (rls::Scope::Login, insert(project, user)),
        // Nothing else of a key can change, and a revoked one stays revoked.
        (
            here,
            format!("update kb.api_keys set scopes = '{{admin}}' where id = '{mine}'"),
        ),
        (
            here,
            format!("update kb.api_keys set revoked_at = null where id = '{mine}'"),
        ),
        (
            rls::Scope::Login,
            format!("update kb.api_keys set last_used_at = null where id = '{mine}'"),
        ),
    ] {
        let error = run(scope, sql.clone()).await.expect_err(&sql);
        let error = error.into_database_error().expect("an error of the database");
        assert_eq!(error.code().as_deref(), Some("42501"), "{sql}: {error}");
    }
    assert_eq!(run(here, revoke(mine)).await.unwrap(), 1);
    assert_eq!(run(here, revoke(theirs)).await.unwrap(), 0);
    assert_eq!(run(rls::Scope::Login, revoke(mine)).await.unwrap(), 0);
    let delete = format!("delete from kb.api_keys where id = '{mine}'");
    assert_eq!(run(here, delete).await.unwrap(), 0, "keys are never deleted");
}
