//! Who gets in at an identity provider, with which role, and until when. (The flow: `sso`.)

use std::collections::HashMap;

use rejoin_http::oidc::settings::NewUsersArg;
use rejoin_identity::workspaces;
use rejoin_tests::client::answer;
use rejoin_tests::issuer::{SigningKey, now};
use rejoin_tests::support::wait_for;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::oidc::{KNOWN, users};
use super::sso::{CLIENT, Site, failed, open};

#[tokio::test]
async fn groups_give_roles_and_take_them_away() {
    let site = Site::start(|args, db| {
        args.oidc_new_users = NewUsersArg::Create;
        args.oidc_default_project = Some(db.workspace_id.to_string());
        args.sso.sso_group_roles = vec!["admins=owner".to_owned(), "staff=member".to_owned()];
    })
    .await;
    let before = users(&site.db).await;
    let with = |groups: Value| move |claims: &mut Value| claims["groups"] = groups;
    for unknown in [json!(["visitors"]), json!([]), Value::Null, json!({"staff": true})] {
        let leads = site.sign_in(&mut site.browser(), "ann", with(unknown.clone())).await;
        assert_eq!(leads, failed("no_project"), "{unknown}");
    }
    assert_eq!(users(&site.db).await, before, "no user is made without a role");
    let mut browser = site.browser();
    assert_eq!(site.sign_in(&mut browser, "ann", with(json!(["staff"]))).await, "/");
    let me = browser.me().await.unwrap();
    assert_eq!(
        (&me["role"], &me["scopes"]),
        (&json!("member"), &json!(["read", "write"]))
    );
    let ann: uuid::Uuid = serde_json::from_value(me["userId"].clone()).unwrap();
    assert_eq!(
        site.sign_in(&mut browser, "ann", with(json!(["staff", "admins"])))
            .await,
        "/"
    );
    wait_for("the role of the other group", async || {
        let me = browser.me().await?;
        (me["role"] == json!("owner")).then_some(())
    })
    .await;
    let members = format!("/api/admin/projects/{}/members", site.db.workspace_id);
    let (_, listed) = browser.send(Method::GET, &members, None).await;
    let from_groups: HashMap<&str, bool> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["handle"].as_str().unwrap(), item["fromGroups"].as_bool().unwrap()))
        .collect();
    assert_eq!((from_groups["ann"], from_groups[KNOWN]), (true, false));
    // Out of all groups: not a member, whatever session or key.
    assert_eq!(
        site.sign_in(&mut site.browser(), "ann", with(json!(["visitors"])))
            .await,
        failed("no_project")
    );
    wait_for("the session to end", async || {
        browser.me().await.is_none().then_some(())
    })
    .await;
    // A role that an owner has given stays, whatever the groups.
    let mut browser = site.browser();
    assert_eq!(site.sign_in(&mut browser, "ann", with(json!(["staff"]))).await, "/");
    let mut db = site.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, site.db.workspace_id, ann, workspaces::Role::Viewer)
        .await
        .unwrap();
    drop(db);
    for groups in [json!(["admins"]), json!([])] {
        let mut browser = site.browser();
        assert_eq!(site.sign_in(&mut browser, "ann", with(groups)).await, "/");
        assert_eq!(browser.me().await.unwrap()["role"], json!("viewer"));
    }
}

#[tokio::test]
async fn a_role_of_a_group_ends_with_the_group() {
    let mut other = None;
    let site = Site::start(|args, db| {
        args.oidc_new_users = NewUsersArg::Create;
        args.oidc_default_project = Some(db.workspace_id.to_string());
        let second = uuid::Uuid::now_v7();
        other = Some(second);
        args.sso.sso_group_roles = vec!["staff=member".to_owned(), format!("lab=viewer@{second}")];
    })
    .await;
    let second = other.expect("it was made");
    sqlx::query("insert into kb.projects (id, name) values ($1, 'lab')")
        .bind(second)
        .execute(&site.db.pool)
        .await
        .unwrap();
    let with = |groups: Value| move |claims: &mut Value| claims["groups"] = groups;
    let mut browser = site.browser();
    let start = format!("?projectId={second}");
    let both = with(json!(["staff", "lab"]));
    assert_eq!(site.sign_in_from(&mut browser, &start, "ann", both).await, "/");
    let me = browser.me().await.unwrap();
    assert_eq!((&me["projectId"], &me["role"]), (&json!(second), &json!("viewer")));
    let mut staff = site.browser();
    assert_eq!(site.sign_in(&mut staff, "ann", with(json!(["staff"]))).await, "/");
    assert_eq!(staff.me().await.unwrap()["projectId"], json!(site.db.workspace_id));
    wait_for("the role in the other project to end", async || {
        browser.me().await.is_none().then_some(())
    })
    .await;
    let told: Vec<String> = sqlx::query_scalar("select action from audit.entries where project_id = $1 order by id")
        .bind(second)
        .fetch_all(&site.db.pool)
        .await
        .unwrap();
    assert_eq!(told, ["member.role_set", "session.begun", "member.removed"]);
}

#[tokio::test]
async fn an_unverified_address_does_not_sign_in() {
    let site = Site::start(|args, db| {
        open(args, db);
        args.oidc_user_claim = "email".to_owned();
        args.sso.sso_email_domains = vec!["example.org".to_owned()];
    })
    .await;
    let with = |email: &str, verified: Value| {
        let email = email.to_owned();
        move |claims: &mut Value| {
            claims["email"] = json!(email);
            claims["email_verified"] = verified;
        }
    };
    for (email, verified) in [
        (KNOWN, json!(false)),
        (KNOWN, json!("true")),
        (KNOWN, Value::Null),
        ("ann@evil.example", json!(true)),
    ] {
        let leads = site.sign_in(&mut site.browser(), "s-1", with(email, verified)).await;
        assert_eq!(leads, failed("email_not_allowed"), "{email}");
    }
    // Where users are created, a name that exists is not taken over.
    let leads = site.sign_in(&mut site.browser(), "s-1", with(KNOWN, json!(true))).await;
    assert_eq!(leads, failed("user_unknown"));
    let mut browser = site.browser();
    let fresh = with("fresh@example.org", json!(true));
    assert_eq!(site.sign_in(&mut browser, "s-2", fresh).await, "/");
    let first = browser.me().await.unwrap();
    // The subject counts, whatever the address is.
    let mut again = site.browser();
    let renamed = with("renamed@example.org", json!(true));
    assert_eq!(site.sign_in(&mut again, "s-2", renamed).await, "/");
    assert_eq!(again.me().await.unwrap()["userId"], first["userId"]);
}

#[tokio::test]
async fn a_browser_keeps_its_user_unless_it_asks() {
    let site = Site::start(open).await;
    let mut browser = site.browser();
    assert_eq!(site.sign_in(&mut browser, "ann", |_| {}).await, "/");
    let ann = browser.me().await.unwrap();
    let leads = site.sign_in(&mut browser, "eve", |_| {}).await;
    assert_eq!(leads, failed("signed_in_as_another"));
    assert_eq!(browser.me().await.unwrap()["userId"], ann["userId"]);
    assert_eq!(
        site.sign_in(&mut browser, "ann", |_| {}).await,
        "/",
        "the same user again"
    );
    let leads = site.sign_in_from(&mut browser, "?replace=true", "eve", |_| {}).await;
    assert_eq!(leads, "/");
    assert_ne!(browser.me().await.unwrap()["userId"], ann["userId"]);
}

#[tokio::test]
async fn the_provider_ends_the_sessions_that_it_began() {
    let site = Site::start(open).await;
    let with = |sid: &str| {
        let sid = sid.to_owned();
        move |claims: &mut Value| claims["sid"] = json!(sid)
    };
    let (mut one, mut two) = (site.browser(), site.browser());
    assert_eq!(site.sign_in(&mut one, "ann", with("one")).await, "/");
    assert_eq!(site.sign_in(&mut two, "ann", with("two")).await, "/");
    let good = |more: Value| {
        let mut claims = json!({
            "iss": site.issuer.url, "aud": CLIENT, "iat": now(), "exp": now() + 60, "jti": "1", "sid": "one", "sub": "ann",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        });
        let all = claims.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        claims
    };
    let send = async |token: String| {
        let request = reqwest::Client::new()
            .post(format!("{}/api/sign-in/sso/back-channel-logout", site.server.url()))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("logout_token={token}"));
        answer(request.send().await.expect("an answer")).await.0
    };
    let typed = |claims: &Value| {
        site.key
            .signed(&json!({"typ": "logout+jwt", "alg": "ES256", "kid": "one"}), claims)
    };
    for wrong in [
        json!({"aud": "rejoin"}),
        json!({"iss": "https://evil.example"}),
        json!({"events": {}}),
        json!({"nonce": "n"}),
        json!({"iat": now() - 700}),
        json!({"exp": now() - 1}),
        json!({"sid": null, "sub": null}),
    ] {
        assert_eq!(
            send(typed(&good(wrong.clone()))).await,
            StatusCode::BAD_REQUEST,
            "{wrong}"
        );
    }
    let forged = SigningKey::ec("one").token(&good(json!({})));
    assert_eq!(send(forged).await, StatusCode::BAD_REQUEST);
    assert!(one.me().await.is_some() && two.me().await.is_some());
    assert_eq!(send(typed(&good(json!({})))).await, StatusCode::OK);
    assert_eq!(one.me().await, None);
    assert!(two.me().await.is_some(), "another session of the provider");
    assert_eq!(send(typed(&good(json!({"sid": null})))).await, StatusCode::OK);
    assert_eq!(two.me().await, None, "all sessions of the user");
}
