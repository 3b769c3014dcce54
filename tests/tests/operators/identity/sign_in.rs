//! Browser sign-in: one-time codes, and links that would sign a user into another account. (Rights of sessions:
//! `members`.)

use rejoin_db::rls;
use rejoin_identity::workspaces;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::support;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

async fn member(app: &TestApp) -> Client {
    let (_, key) = app.db.another_user().await;
    Client::new(app.url(), &key)
}

/// Requests a session like our own page.
async fn begin(app: &TestApp, key: Option<&Client>, cookie: Option<&str>, body: Option<Value>) -> Response {
    let mut request = reqwest::Client::new()
        .post(format!("{}/api/session", app.url()))
        .header("sec-fetch-site", "same-origin");
    if let Some(client) = key {
        request = request.bearer_auth(&client.key);
    }
    if let Some(cookie) = cookie {
        request = request.header(COOKIE, cookie);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    request.send().await.unwrap()
}

fn cookie_of(response: &Response) -> String {
    let set = response.headers()[SET_COOKIE].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// Returns the user of a cookie's session.
async fn user_of(app: &TestApp, cookie: &str) -> Option<Value> {
    let request = reqwest::Client::new().get(format!("{}/api/me", app.url()));
    let request = request.header(COOKIE, cookie).header("sec-fetch-site", "same-origin");
    let (status, me) = answer(request.send().await.unwrap()).await;
    (status == StatusCode::OK).then(|| me["handle"].clone())
}

async fn code(client: &Client) -> String {
    let (status, made) = client.post("/api/sign-in-codes", json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_signed_in_browser_changes_user_only_on_request() {
    let app = quiet().await;
    let (ann, eve) = (app.client(), member(&app).await);
    let (ann_is, eve_is) = (ann.get("/api/me").await.1, eve.get("/api/me").await.1);
    let cookie = cookie_of(&begin(&app, Some(&ann), None, None).await);
    let eves_code = code(&eve).await;
    for (how, response) in [
        ("key", begin(&app, Some(&eve), Some(&cookie), None).await),
        (
            "code",
            begin(&app, None, Some(&cookie), Some(json!({ "code": eves_code }))).await,
        ),
    ] {
        assert!(!response.headers().contains_key(SET_COOKIE), "{how}");
        let (status, problem) = answer(response).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::CONFLICT, &json!("signed_in_as_another")),
            "{how}"
        );
        let named = |me: &Value| json!({"userId": me["userId"], "handle": me["handle"]});
        assert_eq!(
            (&problem["signedInAs"], &problem["instead"]),
            (&named(&ann_is), &named(&eve_is)),
            "{how}"
        );
    }
    assert_eq!(
        user_of(&app, &cookie).await,
        Some(ann_is["handle"].clone()),
        "nothing happened"
    );
    // The same user again, and any confirmed change.
    let again = begin(&app, Some(&ann), Some(&cookie), None).await;
    assert_eq!(again.status(), StatusCode::CREATED);
    let body = json!({ "code": eves_code, "replace": true });
    let replaced = begin(&app, None, Some(&cookie), Some(body)).await;
    assert_eq!(replaced.status(), StatusCode::CREATED);
    assert_eq!(
        user_of(&app, &cookie_of(&replaced)).await,
        Some(eve_is["handle"].clone())
    );
    assert_eq!(user_of(&app, &cookie).await, None, "the session before has ended");
    // After signing out there is no confirmation.
    let replaced = begin(&app, Some(&ann), Some(&cookie), None).await;
    assert_eq!(replaced.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_sign_in_code_works_once_from_our_pages_while_its_key_does() {
    let app = quiet().await;
    let client = app.client();
    let by_code = async |code: &str| begin(&app, None, None, Some(json!({ "code": code }))).await;
    let (status, made) = client.post("/api/sign-in-codes", json!({})).await;
    assert_eq!(status, StatusCode::CREATED);
    let first = made["code"].as_str().unwrap();
    assert_eq!(made["url"], json!(format!("{}/#code={first}", app.url())));
    let stored: i64 =
        sqlx::query_scalar("select count(*) from kb.sign_in_codes where encode(hash, 'escape') like '%' || $1 || '%'")
            .bind(first)
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(stored, 0, "only its hash is stored");
    let signed_in = by_code(first).await;
    assert_eq!(signed_in.status(), StatusCode::CREATED);
    let me = client.get("/api/me").await.1;
    let cookie = cookie_of(&signed_in);
    assert_eq!(user_of(&app, &cookie).await, Some(me["handle"].clone()));
    let refused = async |response: Response, status: StatusCode, code: &str| {
        let (told, problem) = answer(response).await;
        assert_eq!((told, &problem["code"]), (status, &json!(code)), "{problem}");
    };
    refused(by_code(first).await, StatusCode::UNAUTHORIZED, "code_invalid").await;
    refused(by_code("made up").await, StatusCode::UNAUTHORIZED, "code_invalid").await;
    // Cross-site pages can neither send nor create one.
    let second = code(&client).await;
    let cross_site = reqwest::Client::new()
        .post(format!("{}/api/session", app.url()))
        .header("sec-fetch-site", "cross-site")
        .json(&json!({ "code": second }));
    refused(cross_site.send().await.unwrap(), StatusCode::FORBIDDEN, "cross_site").await;
    let form = reqwest::Client::new()
        .post(format!("{}/api/session", app.url()))
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "text/plain")
        .body(json!({ "code": second }).to_string());
    refused(
        form.send().await.unwrap(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
    )
    .await;
    let by_session = reqwest::Client::new()
        .post(format!("{}/api/sign-in-codes", app.url()))
        .header(COOKIE, &cookie)
        .header("sec-fetch-site", "same-origin");
    refused(by_session.send().await.unwrap(), StatusCode::FORBIDDEN, "key_needed").await;
    // Concurrent uses: one succeeds.
    let racing = (0..8).map(|_| begin(&app, None, None, Some(json!({ "code": second }))));
    let statuses: Vec<StatusCode> = futures::future::join_all(racing)
        .await
        .iter()
        .map(Response::status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == StatusCode::CREATED).count(),
        1,
        "{statuses:?}"
    );
    // Expired, or of a revoked key.
    let third = code(&client).await;
    sqlx::query("update kb.sign_in_codes set expires_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    refused(by_code(&third).await, StatusCode::UNAUTHORIZED, "code_invalid").await;
    let other = member(&app).await;
    let theirs = code(&other).await;
    let key_id: uuid::Uuid = serde_json::from_value(other.get("/api/me").await.1["keyId"].clone()).unwrap();
    let mut db = app.db.pool.acquire().await.unwrap();
    rejoin_identity::auth::revoke_key(&mut *db, key_id).await.unwrap();
    refused(by_code(&theirs).await, StatusCode::UNAUTHORIZED, "code_invalid").await;
    // Unused ones are limited in number.
    for _ in 0..15 {
        code(&client).await;
    }
    let kept: i64 = sqlx::query_scalar("select count(*) from kb.sign_in_codes where user_id = $1")
        .bind(app.db.user_id)
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(kept, 10);
}

#[tokio::test]
async fn a_viewer_signs_in_by_code_and_a_code_adds_no_rights() {
    let app = quiet().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let scopes = [rejoin_types::access::Scope::Read];
    let (_, key) = rejoin_identity::auth::create_key(
        &mut db,
        app.db.user_id,
        Some(app.db.workspace_id),
        "reads",
        &scopes,
        None,
    )
    .await
    .unwrap();
    let reader = Client::new(app.url(), &key);
    let signed_in = begin(&app, None, None, Some(json!({ "code": code(&reader).await }))).await;
    assert_eq!(signed_in.status(), StatusCode::CREATED);
    let request = reqwest::Client::new().request(Method::POST, format!("{}/api/conversations", app.url()));
    let request = request
        .header(COOKIE, cookie_of(&signed_in))
        .header("sec-fetch-site", "same-origin");
    let (status, problem) = answer(request.json(&json!({})).send().await.unwrap()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("scope_missing"))
    );
}

#[tokio::test]
async fn the_database_lets_the_api_make_codes_for_its_caller_alone() {
    let db = support::database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    drop(connection);
    let (somebody, _) = db.another_user().await;
    let (project, user) = (db.workspace_id, db.user_id);
    let insert = async |project: Uuid, user: Uuid| {
        let mut tx = rls::begin(&db.pool, rls::Scope::UserLogin(db.owner())).await.unwrap();
        let insert = "insert into kb.sign_in_codes (hash, key_id, project_id, user_id, expires_at)
                      select sha256('code'), k.id, $1, $2, now() + interval '1 minute' from kb.api_keys k limit 1";
        let done = sqlx::query(insert).bind(project).bind(user).execute(&mut *tx).await;
        done.map(|done| done.rows_affected()).map_err(|error| {
            let error = error.into_database_error().expect("an error of the database");
            error.code().expect("a code").into_owned()
        })
    };
    assert_eq!(insert(project, user).await, Ok(1));
    assert_eq!(insert(other, user).await, Err("42501".to_owned()));
    assert_eq!(insert(project, somebody).await, Err("42501".to_owned()));
}
