//! Invitations: who makes them, who joins with them and how often, and what they never give.

use rejoin_db::rls;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::support::{self, wait_for};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::browser::Browser;
use super::members::{member, quiet};
use super::oidc::users;
use super::sso::{Site, failed};

fn path(project: Uuid) -> String {
    format!("/api/admin/projects/{project}/invitations")
}

/// Makes an invitation, and returns the response.
async fn invite(client: &Client, project: Uuid, body: Value) -> Value {
    let (status, made) = client.post(&path(project), body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made
}

async fn accept(browser: &mut Browser, token: &Value, handle: &str) -> (StatusCode, Value) {
    let body = json!({"invitation": token, "handle": handle});
    browser.send(Method::POST, "/api/invitations/accept", Some(body)).await
}

#[tokio::test]
async fn a_user_joins_by_link_with_a_session_and_a_key() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let made = invite(&app.client(), project, json!({"role": "member", "note": "for Ann"})).await;
    let token = &made["token"];
    assert_eq!(
        made["url"],
        json!(format!("{}/#invitation={}", app.url(), token.as_str().unwrap()))
    );
    let mut browser = Browser::new(app.url());
    let body = Some(json!({"invitation": token}));
    let (status, offer) = browser.send(Method::POST, "/api/invitations/preview", body).await;
    assert_eq!(status, StatusCode::OK, "{offer}");
    assert_eq!(
        (&offer["projectId"], &offer["role"], &offer["joinsAs"]),
        (&json!(project), &json!("member"), &json!("handle"))
    );
    assert_eq!(
        accept(&mut browser, token, "user@example.org").await.1["code"],
        json!("handle_taken"),
        "of the user who made it"
    );
    for wrong in ["", " ann", "a\u{7}n", &"a".repeat(256)] {
        assert_eq!(
            accept(&mut browser, token, wrong).await.1["code"],
            json!("invalid_handle"),
            "{wrong}"
        );
    }
    let (status, joined) = accept(&mut browser, token, "ann").await;
    assert_eq!(status, StatusCode::CREATED, "{joined}");
    let me = browser.me().await.expect("signed in");
    assert_eq!(
        (&me["handle"], &me["role"], &me["scopes"]),
        (&json!("ann"), &json!("member"), &json!(["read", "write"]))
    );
    // The key signs in later; the session ends with it.
    let client = Client::new(app.url(), joined["key"].as_str().unwrap());
    assert_eq!(client.get("/api/me").await.1["userId"], me["userId"]);
    assert_eq!(
        client.post("/api/sign-in-codes", json!({})).await.0,
        StatusCode::CREATED
    );
    // It is used up.
    let mut second = Browser::new(app.url());
    let (status, problem) = accept(&mut second, token, "bob").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("invitation_invalid"))
    );
    let (_, listed) = app.client().get(&path(project)).await;
    let item = &listed["items"][0];
    assert_eq!(
        (&item["uses"], &item["isValid"], &item["note"], &item["token"]),
        (&json!(1), &json!(false), &json!("for Ann"), &Value::Null)
    );
    let told: Vec<String> = sqlx::query_scalar(
        "select action from audit.entries where target like 'invitation:%' or actor = 'user:' || $1 order by id",
    )
    .bind(me["userId"].as_str().unwrap())
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(
        told,
        [
            "invitation.created",
            "user.created",
            "invitation.accepted",
            "key.created",
            "session.begun"
        ]
    );
    let stored: i64 =
        sqlx::query_scalar("select count(*) from kb.invitations where encode(hash, 'escape') like '%' || $1 || '%'")
            .bind(token.as_str().unwrap())
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(stored, 0, "only its hash is stored");
}

#[tokio::test]
async fn the_last_place_of_an_invitation_is_taken_once() {
    let app = quiet().await;
    let body = json!({"role": "viewer", "maxUses": 3});
    let made = invite(&app.client(), app.db.workspace_id, body).await;
    let before = users(&app.db).await;
    let racing = (0..8).map(|n| {
        let (url, token) = (app.url(), made["token"].clone());
        async move { accept(&mut Browser::new(url), &token, &format!("guest-{n}")).await.0 }
    });
    let statuses = futures::future::join_all(racing).await;
    let joined = statuses.iter().filter(|status| **status == StatusCode::CREATED).count();
    assert_eq!(joined, 3, "{statuses:?}");
    assert_eq!(users(&app.db).await, before + 3, "no user was made for the others");
}

#[tokio::test]
async fn an_invitation_is_good_until_it_ends_for_whatever_reason() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let (maker, owner) = member(&app, Role::Owner).await;
    let makes = async |client: &Client| invite(client, project, json!({"role": "member", "maxUses": 9})).await;
    let refused = async |made: &Value| {
        let mut browser = Browser::new(app.url());
        let (status, problem) = accept(&mut browser, &made["token"], "ann").await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("invitation_invalid"))
        );
    };
    refused(&json!({"token": "made up"})).await;
    let revoked = makes(&owner).await;
    let its_path = format!("{}/{}", path(project), revoked["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(app.client().delete(&its_path).await.0, StatusCode::NO_CONTENT);
    }
    refused(&revoked).await;
    let expired = makes(&owner).await;
    sqlx::query("update kb.invitations set expires_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    refused(&expired).await;
    // Its maker is not an owner any longer.
    let demoted = makes(&owner).await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, project, maker, Role::Member)
        .await
        .unwrap();
    refused(&demoted).await;
    // Only owners make and revoke them; admins see them.
    let others = makes(&app.client()).await;
    let its_path = format!("{}/{}", path(project), others["id"].as_str().unwrap());
    let (_, operator) = member(&app, Role::Operator).await;
    assert_eq!(operator.get(&path(project)).await.0, StatusCode::OK);
    for (status, problem) in [
        operator.post(&path(project), json!({"role": "viewer"})).await,
        operator.delete(&its_path).await,
    ] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("role_missing"))
        );
    }
    let foreign = path(Uuid::now_v7());
    assert_eq!(app.client().get(&foreign).await.0, StatusCode::NOT_FOUND);
    for wrong in [
        json!({"role": "service"}),
        json!({"role": "viewer", "maxUses": 0}),
        json!({"role": "viewer", "maxUses": 1_001}),
        json!({"role": "viewer", "expiresInDays": 0}),
        json!({"role": "viewer", "expiresInDays": 31}),
        json!({"role": "viewer", "note": ""}),
        json!({"maxUses": 1}),
    ] {
        let (status, _) = app.client().post(&path(project), wrong.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn a_signed_in_user_joins_another_project_by_link() {
    let app = quiet().await;
    let (mut db, project) = (app.db.pool.acquire().await.unwrap(), app.db.workspace_id);
    let other = workspaces::create(&mut db, "other").await.unwrap();
    let (maker, _) = app.db.another_user().await;
    workspaces::add_member(&mut db, other, maker, Role::Owner)
        .await
        .unwrap();
    let scopes = rejoin_types::access::Scope::ALL;
    let (_, key) = rejoin_identity::auth::create_key(&mut db, maker, Some(other), "owner", &scopes, None)
        .await
        .unwrap();
    drop(db);
    let made = invite(
        &Client::new(app.url(), &key),
        other,
        json!({"role": "viewer", "maxUses": 2}),
    )
    .await;
    let mut browser = Browser::new(app.url());
    let (_, code) = app.client().post("/api/sign-in-codes", json!({})).await;
    let body = json!({"code": code["code"]});
    let (status, _) = browser.send(Method::POST, "/api/session", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED);
    for _ in 0..2 {
        let (status, joined) = accept(&mut browser, &made["token"], "ignored").await;
        assert_eq!(status, StatusCode::CREATED, "{joined}");
        assert_eq!(joined["key"], Value::Null);
        let me = browser.me().await.unwrap();
        assert_eq!(
            (&me["userId"], &me["projectId"], &me["role"]),
            (&json!(app.db.user_id), &json!(other), &json!("viewer"))
        );
    }
    let uses: i32 = sqlx::query_scalar("select uses from kb.invitations")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(uses, 1, "a member does not join again");
    // Keys and pages of other sites do not accept for a user.
    let request = |client: &Client| {
        client
            .request(Method::POST, "/api/invitations/accept")
            .json(&json!({"invitation": made["token"]}))
    };
    let (status, problem) = answer(request(&app.client()).send().await.unwrap()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("session_needed"))
    );
    let foreign = reqwest::Client::new()
        .post(format!("{}/api/invitations/accept", app.url()))
        .header("sec-fetch-site", "cross-site")
        .json(&json!({"invitation": made["token"], "handle": "eve"}));
    let (status, problem) = answer(foreign.send().await.unwrap()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("cross_site"))
    );
    // An invitation says nothing of the caller's first project.
    assert_eq!(app.client().get("/api/me").await.1["projectId"], json!(project));
}

#[tokio::test]
async fn valid_invitations_of_a_project_are_limited() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| config.http.max_invitations = 2,
        ..AppOptions::default()
    })
    .await;
    let project = app.db.workspace_id;
    let first = invite(&app.client(), project, json!({"role": "member"})).await;
    invite(&app.client(), project, json!({"role": "member"})).await;
    let (status, problem) = app.client().post(&path(project), json!({"role": "member"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("too_many_invitations"))
    );
    let first = format!("{}/{}", path(project), first["id"].as_str().unwrap());
    assert_eq!(app.client().delete(&first).await.0, StatusCode::NO_CONTENT);
    invite(&app.client(), project, json!({"role": "member"})).await;
}

#[tokio::test]
async fn with_a_provider_an_invitation_is_accepted_by_signing_in() {
    let site = Site::start(|_, _| {}).await;
    let client = Client::new(site.server.url(), &site.db.api_key);
    let made = invite(&client, site.db.workspace_id, json!({"role": "viewer"})).await;
    let mut browser = site.browser();
    assert_eq!(site.sign_in(&mut browser, "ann", |_| {}).await, failed("user_unknown"));
    let (status, problem) = accept(&mut browser, &made["token"], "ann").await;
    assert_eq!(
        (status, &problem["code"], &problem["signInUrl"]),
        (
            StatusCode::UNAUTHORIZED,
            &json!("sign_in_needed"),
            &json!("/api/sign-in/sso")
        )
    );
    assert_eq!(browser.cookie("rejoin_invitation"), made["token"].as_str());
    assert_eq!(site.sign_in(&mut browser, "ann", |_| {}).await, "/");
    assert_eq!(browser.cookie("rejoin_invitation"), None, "it is used up");
    let me = browser.me().await.expect("signed in");
    assert_eq!((&me["handle"], &me["role"]), (&json!("ann"), &json!("viewer")));
    // Another user is too late.
    let mut late = site.browser();
    let (status, _) = accept(&mut late, &made["token"], "bob").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// Otherwise an invited user could choose the name of a user whom the provider has not sent yet.
#[tokio::test]
async fn a_chosen_handle_is_not_linked_to_an_identity() {
    let db = support::database().await;
    sqlx::query("insert into kb.users (id, handle, self_named) values ($1, 'boss', true)")
        .bind(Uuid::now_v7())
        .execute(&db.pool)
        .await
        .unwrap();
    let key = rejoin_tests::issuer::SigningKey::ec("one");
    let issuer = rejoin_tests::issuer::Issuer::start(&[&key]).await;
    let server = super::oidc::api(&db, &issuer.url, |_| {}).await;
    let (status, problem) = super::oidc::me(&server, &key.token(&issuer.claims("boss"))).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("user_unknown"))
    );
}

#[tokio::test]
async fn the_database_lets_the_api_invite_to_its_project_alone() {
    let db = support::database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    drop(connection);
    let (somebody, _) = db.another_user().await;
    let insert = async |project: Uuid, user: Uuid| {
        let mut tx = rls::begin(&db.pool, rls::Scope::UserLogin(db.owner())).await.unwrap();
        let insert = "insert into kb.invitations (id, project_id, hash, role, max_uses, made_by, expires_at)
                      values (gen_random_uuid(), $1, sha256('token'), 'owner', 1, $2, now() + interval '1 minute')";
        let done = sqlx::query(insert).bind(project).bind(user).execute(&mut *tx).await;
        done.map(|done| done.rows_affected()).map_err(|error| {
            let error = error.into_database_error().expect("an error of the database");
            error.code().expect("a code").into_owned()
        })
    };
    assert_eq!(insert(db.workspace_id, db.user_id).await, Ok(1));
    assert_eq!(insert(other, db.user_id).await, Err("42501".to_owned()));
    assert_eq!(insert(db.workspace_id, somebody).await, Err("42501".to_owned()));
    // It changes those of its project alone, once it has said for whom.
    sqlx::query(
        "insert into kb.invitations (id, project_id, hash, role, max_uses, expires_at)
         values (gen_random_uuid(), $1, sha256('other'), 'owner', 1, now() + interval '1 minute')",
    )
    .bind(other)
    .execute(&db.pool)
    .await
    .unwrap();
    for scope in [rls::Scope::Login, rls::Scope::UserLogin(db.owner())] {
        let mut tx = rls::begin(&db.pool, scope).await.unwrap();
        let done = sqlx::query("update kb.invitations set uses = 1")
            .execute(&mut *tx)
            .await
            .unwrap();
        assert_eq!(done.rows_affected(), 0, "{scope:?}");
    }
}

#[tokio::test]
async fn a_removed_member_who_returns_signs_in_again() {
    let app = quiet().await;
    let (user, client) = member(&app, Role::Member).await;
    let (_, code) = client.post("/api/sign-in-codes", json!({})).await;
    let mut browser = Browser::new(app.url());
    let body = json!({"code": code["code"]});
    browser.send(Method::POST, "/api/session", Some(body)).await;
    assert!(browser.me().await.is_some());
    let removed = format!("/api/admin/projects/{}/members/{user}", app.db.workspace_id);
    assert_eq!(app.client().delete(&removed).await.0, StatusCode::NO_CONTENT);
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::add_member(&mut db, app.db.workspace_id, user, Role::Member)
        .await
        .unwrap();
    wait_for("the session to end", async || {
        browser.me().await.is_none().then_some(())
    })
    .await;
}
