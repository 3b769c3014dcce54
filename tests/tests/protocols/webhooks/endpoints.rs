//! Webhooks over HTTP: who may set them, what is refused, their secrets, the audit log, and retention.

use axum::http::StatusCode as Status;
use axum::response::IntoResponse;
use rejoin_identity::audit::Actor;
use rejoin_identity::{auth, workspaces};
use rejoin_integrations::{key_rotation, webhook_secrets};
use rejoin_secrets::keys::generate;
use rejoin_secrets::{MasterKeys, Plaintext};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::mcp::SECRET_KEYS;
use rejoin_tests::support::wait_for;
use rejoin_tests::web::Site;
use rejoin_types::access::Scope;
use rejoin_webhooks::signature;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Hook, add, header, options, path, requests};

async fn idle_app() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await
}

#[tokio::test]
async fn admins_create_change_list_and_delete_webhooks() {
    let app = idle_app().await;
    let client = app.client();
    let hook = add(&app, "https://hooks.example/in", &["run.ended"]).await;
    assert!(hook.secret.starts_with("whsec_"), "{}", hook.secret);
    let (status, changed) = client
        .patch(
            &hook.path,
            json!({"description": "Billing", "events": ["dag.ended", "dag.ended", "question.asked"]}),
        )
        .await;
    assert_eq!(status.as_u16(), 200, "{changed}");
    assert_eq!(changed["events"], json!(["dag.ended", "question.asked"]));
    let (_, listed) = client.get(&path(&app)).await;
    assert_eq!(listed["items"], json!([changed]));
    assert_eq!(client.get(&hook.path).await.1, changed);
    assert!(!listed.to_string().contains("whsec_"), "a secret is shown once");
    for wrong in [
        json!({"events": []}),
        json!({"events": ["run.began"]}),
        json!({"description": "x".repeat(501)}),
    ] {
        let (status, refused) = client.patch(&hook.path, wrong).await;
        assert_eq!((status.as_u16(), &refused["code"]), (400, &json!("invalid_webhook")));
    }
    assert_eq!(client.delete(&hook.path).await.0.as_u16(), 204);
    assert_eq!(client.get(&hook.path).await.0.as_u16(), 404);
    let (_, audit) = client
        .get(&format!("/api/admin/projects/{}/audit", app.db.workspace_id))
        .await;
    let actions: Vec<&Value> = audit["items"]
        .as_array()
        .expect("a page")
        .iter()
        .map(|entry| &entry["action"])
        .collect();
    assert_eq!(actions[..3], ["webhook.deleted", "webhook.changed", "webhook.created"]);
    assert_eq!(audit["items"][2]["detail"]["host"], "hooks.example");
}

#[tokio::test]
async fn a_project_has_at_most_twenty_webhooks() {
    let app = idle_app().await;
    for _ in 0..20 {
        add(&app, "https://hooks.example/", &["run.ended"]).await;
    }
    let body = json!({"url": "https://hooks.example/", "events": ["run.ended"]});
    let (status, refused) = app.client().post(&path(&app), body).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("too_many_webhooks")));
}

#[tokio::test]
async fn without_a_master_key_no_webhook_is_created() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let body = json!({"url": "https://hooks.example/", "events": ["run.ended"]});
    let (status, refused) = app.client().post(&path(&app), body).await;
    assert_eq!((status.as_u16(), &refused["code"]), (503, &json!("no_master_key")));
}

/// Requests that read or change a webhook, all refused with this status.
async fn all_refused(client: &Client, hook: &Hook, status: u16) {
    let list = hook.path.rsplit_once('/').expect("a path").0;
    for got in [list.to_owned(), hook.path.clone(), format!("{}/deliveries", hook.path)] {
        assert_eq!(client.get(&got).await.0.as_u16(), status, "{got}");
    }
    let delivery = Uuid::now_v7();
    for posted in [
        "rotate-secret",
        "test",
        "replay-dead",
        &format!("deliveries/{delivery}/replay"),
    ] {
        let posted = format!("{}/{posted}", hook.path);
        assert_eq!(client.post(&posted, json!({})).await.0.as_u16(), status, "{posted}");
    }
    let (patched, _) = client.patch(&hook.path, json!({"enabled": false})).await;
    assert_eq!(patched.as_u16(), status);
    assert_eq!(client.delete(&hook.path).await.0.as_u16(), status);
}

#[tokio::test]
async fn other_projects_and_members_who_are_no_admins_see_nothing() {
    let app = idle_app().await;
    let hook = add(&app, "https://hooks.example/", &["run.ended"]).await;
    let mut connection = app.db.pool.acquire().await.expect("a connection");
    let scopes = [Scope::Read, Scope::Write];
    let (_, key) = auth::create_key(
        &mut connection,
        app.db.user_id,
        Some(app.db.workspace_id),
        "plain",
        &scopes,
        None,
    )
    .await
    .expect("a key");
    all_refused(&Client::new(app.url(), &key), &hook, 403).await;
    let other = workspaces::create(&mut connection, "other").await.expect("a project");
    let user = workspaces::ensure_user(&mut connection, "other@example.org")
        .await
        .expect("a user");
    workspaces::add_member(&mut connection, other, user, workspaces::Role::Owner)
        .await
        .expect("a member");
    let (_, key) = auth::create_key(&mut connection, user, Some(other), "other", &Scope::ALL, None)
        .await
        .expect("a key");
    let stranger = Client::new(app.url(), &key);
    all_refused(&stranger, &hook, 404).await;
    // Nor as a webhook of the other project.
    let id = hook.path.rsplit_once('/').expect("a path").1;
    let path = format!("/api/admin/projects/{other}/webhooks");
    assert_eq!(stranger.get(&path).await.1, json!({"items": []}));
    assert_eq!(stranger.get(&format!("{path}/{id}")).await.0.as_u16(), 404);
    assert_eq!(stranger.delete(&format!("{path}/{id}")).await.0.as_u16(), 404);
    assert_eq!(app.client().get(&hook.path).await.1["enabled"], true);
}

#[tokio::test]
async fn while_a_secret_is_rotated_both_secrets_sign() {
    let app = TestApp::with(options()).await;
    let site = Site::start(|_, _| Status::OK.into_response()).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let rotate = async |body: Value| -> String {
        let (status, rotated) = app.client().post(&format!("{}/rotate-secret", hook.path), body).await;
        assert_eq!(status.as_u16(), 200, "{rotated}");
        rotated["secret"].as_str().expect("a secret").to_owned()
    };
    let signed_by = async |nth: usize, secrets: &[&String]| {
        let (status, _) = app.client().post(&format!("{}/test", hook.path), json!({})).await;
        assert_eq!(status.as_u16(), 202);
        let asked = requests(&site, nth).await.pop().expect("a request");
        let secrets: Vec<Plaintext> = secrets
            .iter()
            .map(|secret| Plaintext::new(secret.as_bytes().to_vec()))
            .collect();
        let body = String::from_utf8(asked.2.to_vec()).expect("UTF-8");
        let timestamp = header(&asked, "webhook-timestamp").parse().expect("seconds");
        let expected = signature::signatures(&secrets, header(&asked, "webhook-id"), timestamp, &body);
        assert_eq!(Some(header(&asked, "webhook-signature")), expected.as_deref());
    };
    signed_by(1, &[&hook.secret]).await;
    let second = rotate(json!({})).await;
    signed_by(2, &[&second, &hook.secret]).await;
    let third = rotate(json!({"overlapS": 0})).await;
    signed_by(3, &[&third, &hook.secret]).await;
    for overlap_s in [0, 0, 0] {
        rotate(json!({ "overlapS": overlap_s })).await;
    }
    let kept: i64 = sqlx::query_scalar("select count(*) from kb.webhook_secrets")
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
    assert!(kept <= webhook_secrets::MAX_SECRETS, "{kept}");
    let (status, _) = app
        .client()
        .post(&format!("{}/rotate-secret", hook.path), json!({"overlapS": 604_801}))
        .await;
    assert_eq!(status.as_u16(), 400);
}

#[tokio::test]
async fn secrets_are_sealed_and_rotated_with_the_master_key() {
    let app = idle_app().await;
    let hook = add(&app, "https://hooks.example/", &["run.ended"]).await;
    let stored: Vec<u8> = sqlx::query_scalar("select ciphertext from kb.webhook_secrets")
        .fetch_one(&app.db.pool)
        .await
        .expect("a secret");
    assert!(!String::from_utf8_lossy(&stored).contains("whsec_"));
    let both = MasterKeys::parse(&format!("{},{}", *generate(), SECRET_KEYS.trim())).expect("keys");
    let pool = &app.db.pool;
    assert_eq!(
        rejoin_secrets::under_old_keys(pool, &both)
            .await
            .expect("a count")
            .len(),
        1
    );
    let rotated = key_rotation::rotate(pool, &both, &Actor::operator())
        .await
        .expect("a rotation");
    assert_eq!((rotated.rewrapped, rotated.failed), (1, 0));
    assert_eq!(rejoin_secrets::under_old_keys(pool, &both).await.expect("a count"), []);
    let id = hook.path.rsplit_once('/').expect("a path").1.parse().expect("an id");
    let opened = webhook_secrets::open(pool, &both, id).await.expect("a secret");
    assert_eq!(opened[0].expose_text(), Some(hook.secret.as_str()));
}

#[tokio::test]
async fn old_deliveries_are_removed_and_pending_ones_stay() {
    let mut app = idle_app().await;
    let hook = add(&app, "https://hooks.example/", &["run.ended"]).await;
    sqlx::raw_sql(
        "insert into kb.webhook_deliveries (project_id, endpoint_id, event, subject_id, payload, state, created_at, ended_at)
         select project_id, id, 'run.ended', id, '{}', s, now() - interval '60 days',
                case when s <> 'pending' then now() - interval '31 days' end
         from kb.webhook_endpoints, unnest(array['delivered', 'dead', 'pending']) s",
    )
    .execute(&app.db.pool)
    .await
    .expect("old deliveries");
    app.add_worker();
    let left = wait_for("old deliveries to be removed", async || {
        let left = hook.deliveries(&app).await;
        (left.len() == 1).then_some(left)
    })
    .await;
    assert_eq!(left[0]["state"], "pending");
}
