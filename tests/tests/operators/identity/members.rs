//! Rights of members, and quotas. (Keys and tickets: `auth`; tokens: `oidc`.)

use std::time::{Duration, Instant};

use rejoin_identity::workspaces::{self, Quota, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

pub(super) async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

/// A new member of the project, with a key of all scopes.
pub(super) async fn member(app: &TestApp, role: Role) -> (Uuid, Client) {
    let (user, key) = app.db.another_user().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, app.db.workspace_id, user, role)
        .await
        .unwrap();
    (user, Client::new(app.url(), &key))
}

#[tokio::test]
async fn a_role_bounds_what_its_members_keys_may_do() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let definitions = format!("/api/admin/projects/{project}/agent-definitions");
    for role in Role::ALL {
        let (_, client) = member(&app, role).await;
        let me = client.get("/api/me").await.1;
        let allowed: Vec<&str> = role.scopes().iter().map(|scope| scope.as_str()).collect();
        assert_eq!((&me["role"], &me["scopes"]), (&json!(role.as_str()), &json!(allowed)));
        let expect = |allowed: bool, done: StatusCode| if allowed { done } else { StatusCode::FORBIDDEN };
        let may = |scope| role.scopes().contains(&scope);
        assert_eq!(client.get("/api/conversations").await.0, StatusCode::OK);
        assert_eq!(
            client.post("/api/conversations", json!({})).await.0,
            expect(may(Scope::Write), StatusCode::CREATED),
            "{role:?}"
        );
        assert_eq!(
            client.get(&definitions).await.0,
            expect(may(Scope::Admin), StatusCode::OK),
            "{role:?}"
        );
        let members = format!("/api/admin/projects/{project}/members/{}", Uuid::now_v7());
        let (status, problem) = client.delete(&members).await;
        assert_eq!(
            status,
            expect(role == Role::Owner, StatusCode::NOT_FOUND),
            "{role:?}: {problem}"
        );
    }
}

#[tokio::test]
async fn owners_change_members_and_the_last_owner_stays() {
    let app = quiet().await;
    let members = format!("/api/admin/projects/{}/members", app.db.workspace_id);
    let (user, client) = member(&app, Role::Member).await;
    let (status, listed) = app.client().get(&members).await;
    assert_eq!(status, StatusCode::OK);
    let of = |user: Uuid| {
        let items = listed["items"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["userId"] == json!(user))
            .cloned()
            .unwrap()
    };
    assert_eq!(of(user)["role"], json!("member"));
    assert_eq!(of(app.db.user_id)["role"], json!("owner"));
    let set = async |who: &Client, user: Uuid, role: &str| {
        let request = who.request(Method::PUT, &format!("{members}/{user}"));
        answer(request.json(&json!({ "role": role })).send().await.unwrap()).await
    };
    for (status, problem) in [
        set(&app.client(), app.db.user_id, "viewer").await,
        app.client().delete(&format!("{members}/{}", app.db.user_id)).await,
    ] {
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("last_owner")));
    }
    assert_eq!(set(&app.client(), user, "emperor").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        set(&client, user, "owner").await.0,
        StatusCode::FORBIDDEN,
        "nobody makes themselves one"
    );
    assert_eq!(set(&app.client(), user, "owner").await.0, StatusCode::NO_CONTENT);
    wait_for("the new role to be seen", async || {
        (client.get(&members).await.0 == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(set(&client, app.db.user_id, "viewer").await.0, StatusCode::NO_CONTENT);
    // Two owners can't remove each other concurrently.
    assert_eq!(set(&client, app.db.user_id, "owner").await.0, StatusCode::NO_CONTENT);
    wait_for("both to be owners", async || {
        (app.client().get("/api/me").await.1["role"] == json!("owner")).then_some(())
    })
    .await;
    let (me, mine) = (app.client(), format!("{members}/{user}"));
    let theirs = format!("{members}/{}", app.db.user_id);
    let (one, other) = tokio::join!(me.delete(&mine), client.delete(&theirs));
    let mut statuses = [one.0, other.0];
    statuses.sort();
    // The second one is then the last, or already removed.
    assert_eq!(statuses[0], StatusCode::NO_CONTENT);
    assert!(
        [StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&statuses[1]),
        "{statuses:?}"
    );
    let mut db = app.db.pool.acquire().await.unwrap();
    let left = workspaces::members(&mut db, app.db.workspace_id).await.unwrap();
    assert_eq!(left.iter().filter(|member| member.role == "owner").count(), 1);
}

#[tokio::test]
async fn a_removed_member_loses_keys_tickets_and_streams_soon() {
    let app = quiet().await;
    let (user, client) = member(&app, Role::Member).await;
    let posted = client.post_message(json!({"message": "hello"})).await;
    let events = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let stream = client.stream(&events).await;
    let conversation = json!({"conversationId": posted["conversationId"]});
    let (_, ticket) = client.post("/api/stream-tickets", conversation).await;
    let removed = Instant::now();
    let member = format!("/api/admin/projects/{}/members/{user}", app.db.workspace_id);
    assert_eq!(app.client().delete(&member).await.0, StatusCode::NO_CONTENT);
    let with_ticket = format!("{}{events}?ticket={}", app.url(), ticket["ticket"].as_str().unwrap());
    assert_eq!(
        reqwest::get(with_ticket).await.unwrap().status(),
        StatusCode::UNAUTHORIZED
    );
    stream.rest().await;
    wait_for("the key to be refused", async || {
        (client.get("/api/conversations").await.0 == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
    assert!(removed.elapsed() < Duration::from_secs(5), "{:?}", removed.elapsed());
}

#[tokio::test]
async fn a_used_up_quota_stops_new_work_until_midnight() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let runs = Quota {
        runs_per_day: Some(1),
        tokens_per_day: None,
    };
    assert!(workspaces::set_quota(&mut db, app.db.workspace_id, runs).await.unwrap());
    let post = async |key: &str| {
        let request = app.client().request(Method::POST, "/api/chat/stream");
        let request = request
            .header("accept", "application/json")
            .header("idempotency-key", key);
        request.json(&json!({"message": "hello"})).send().await.unwrap()
    };
    let (status, first) = answer(post("first").await).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let refused = wait_for("what was used to be seen", async || {
        let response = post(&Uuid::now_v7().to_string()).await;
        (response.status() == StatusCode::TOO_MANY_REQUESTS).then_some(response)
    })
    .await;
    let wait_s: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=24 * 60 * 60).contains(&wait_s), "until midnight: {wait_s}");
    let (_, problem) = answer(refused).await;
    assert_eq!(problem["code"], json!("quota_exhausted"));
    assert_eq!(problem["quota"], json!({"of": "runs", "perDay": 1}));
    // Admins see their usage; not that of other projects.
    let (status, usage) = app
        .client()
        .get(&format!("/api/admin/projects/{}/usage", app.db.workspace_id))
        .await;
    assert_eq!(
        (status, &usage["runs"]["bound"], &usage["tokens"]["bound"]),
        (StatusCode::OK, &json!(1), &json!(null))
    );
    assert!(
        (0.0..=86_400.0).contains(&usage["dayLeftS"].as_f64().unwrap()),
        "{usage}"
    );
    let elsewhere = format!("/api/admin/projects/{}/usage", Uuid::nil());
    assert_eq!(app.client().get(&elsewhere).await.0, StatusCode::NOT_FOUND);
    // Accepted requests are found again, even with an exhausted quota.
    let (status, again) = answer(post("first").await).await;
    assert_eq!((status, &again["runId"]), (StatusCode::ACCEPTED, &first["runId"]));
    let trigger = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    let (status, problem) = app.client().post(&trigger, json!({"input": "go"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("quota_exhausted"))
    );

    let tokens = Quota {
        runs_per_day: None,
        tokens_per_day: Some(1),
    };
    workspaces::set_quota(&mut db, app.db.workspace_id, tokens)
        .await
        .unwrap();
    wait_for("the tokens of the first run to count", async || {
        let (_, problem) = app.client().post(&trigger, json!({"input": "go"})).await;
        (problem["quota"]["of"] == json!("tokens")).then_some(())
    })
    .await;
    workspaces::set_quota(&mut db, app.db.workspace_id, Quota::default())
        .await
        .unwrap();
    wait_for("the quota to be gone", async || {
        (app.client().post(&trigger, json!({"input": "go"})).await.0 == StatusCode::ACCEPTED).then_some(())
    })
    .await;
}
