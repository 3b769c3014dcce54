//! The audit log: what is recorded and what is not, and who may read it. (The chain itself: `audit_chain`.)

use std::process::{Command, Output};

use rejoin_db::rls;
use rejoin_db::{Db, Role};
use rejoin_http::oidc::settings::NewUsersArg;
use rejoin_identity::audit::{self, Action, Actor, Hash, NewEntry, Report};
use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::Client;
use rejoin_tests::issuer::{Issuer, SigningKey};
use rejoin_tests::support::{self, TestDatabase};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::identity::oidc;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn log_of(project: Uuid) -> String {
    format!("/api/admin/projects/{project}/audit")
}

/// Appends an operator's entry, in its own transaction.
pub async fn tell(pool: &PgPool, workspace_id: Option<Uuid>, target: &str) -> i64 {
    let mut tx = rejoin_db::begin(pool).await.unwrap();
    let entry = NewEntry {
        by: &Actor::operator(),
        workspace_id,
        action: Action::KeyCreated,
        target: target.to_owned(),
        detail: json!({"name": "ä \"quoted\" name\nwith \u{1} and \\", "n": 1.50, "list": [null, true]}),
    };
    let id = audit::append(&mut tx, &entry).await.unwrap();
    tx.commit().await.unwrap();
    id
}

pub async fn verify(db: &TestDatabase, expected: Option<Hash>) -> Report {
    let mut connection = db.pool.acquire().await.unwrap();
    audit::verify(&mut connection, expected).await.unwrap()
}

pub fn rejoin(db: &TestDatabase, arguments: &[&str]) -> Output {
    Command::new(binary())
        .args(arguments)
        .env("DATABASE_URL", &db.url)
        .output()
        .unwrap()
}

/// Returns the JSON output and the exit code.
pub fn json_of(output: &Output) -> (Value, Option<i32>) {
    (
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        output.status.code(),
    )
}

#[tokio::test]
async fn the_audit_log_names_actions_and_never_holds_texts() {
    const CANARY: &str = "canary-51d0c7a2";
    let app = quiet().await;
    let client = app.client();
    let project = app.db.workspace_id;
    let definitions = format!("/api/admin/projects/{project}/agent-definitions");
    let install = format!("/api/admin/projects/{project}/install-default-agents");
    client.post(&install, json!({})).await;
    // The second time there is nothing to tell.
    client.post(&install, json!({})).await;
    let (status, made) = client
        .post(&definitions, json!({"name": "a", "systemPrompt": CANARY}))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let agent = made["id"].as_str().unwrap();
    let one = format!("{definitions}/{agent}");
    let change = json!({"systemPrompt": format!("{CANARY} again"), "maxSteps": 3, "name": "a"});
    assert_eq!(client.patch(&one, change).await.0, StatusCode::OK);
    assert_eq!(client.patch(&one, json!({"maxSteps": 3})).await.0, StatusCode::OK);
    let posted = client.post_message(json!({"message": CANARY})).await;
    let conversation = posted["conversationId"].as_str().unwrap();
    let deleted = client.delete(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(deleted.0, StatusCode::NO_CONTENT);
    assert_eq!(client.delete(&one).await.0, StatusCode::NO_CONTENT);
    // Refused requests are not recorded.
    assert_eq!(client.delete(&one).await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        client.post(&definitions, json!({"name": " "})).await.0,
        StatusCode::BAD_REQUEST
    );

    let (status, log) = client.get(&log_of(project)).await;
    assert_eq!((status, &log["nextCursor"]), (StatusCode::OK, &Value::Null), "{log}");
    let items = log["items"].as_array().unwrap();
    let reply: Vec<Value> = items
        .iter()
        .rev()
        .map(|item| json!([item["id"], item["action"], item["target"], item["detail"]]))
        .collect();
    let definition = format!("agent_definition:{agent}");
    assert_eq!(
        reply,
        [
            json!([1, "agent_definition.defaults_installed", format!("project:{project}"), {"names": ["graph-query-agent"]}]),
            json!([2, "agent_definition.created", definition, {"name": "a"}]),
            json!([3, "agent_definition.changed", definition, {"name": "a", "fields": ["systemPrompt", "maxSteps"]}]),
            json!([4, "conversation.deleted", format!("conversation:{conversation}"), {}]),
            json!([5, "agent_definition.deleted", definition, {"name": "a"}]),
        ]
    );
    for item in items {
        assert_eq!(item["actor"], json!(format!("user:{}", app.db.user_id)));
        assert!(item["credential"].as_str().unwrap().starts_with("key:"), "{item}");
        assert_eq!(
            (&item["projectId"], item["hash"].as_str().unwrap().len()),
            (&json!(project), 64)
        );
        assert!(item["at"].is_string());
    }
    let texts: i64 = sqlx::query_scalar("select count(*) from audit.entries e where e::text like '%' || $1 || '%'")
        .bind(CANARY)
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(texts, 0, "the log holds what was said");

    // Page by page it is the same.
    let (mut cursor, mut paged) = (String::new(), Vec::new());
    loop {
        let (_, page) = client.get(&format!("{}?limit=2{cursor}", log_of(project))).await;
        paged.extend(page["items"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(&paged, items);
    assert!(verify(&app.db, None).await.holds());
}

#[tokio::test]
async fn another_projects_admin_sees_none_of_it() {
    let app = quiet().await;
    let other = support::populated(app.db.url.clone()).await;
    let stranger = Client::new(app.url(), &other.api_key);
    tell(&app.db.pool, Some(app.db.workspace_id), "mine").await;
    tell(&app.db.pool, None, "nobody's").await;
    tell(&app.db.pool, Some(other.workspace_id), "theirs").await;
    for (client, project, expected) in [
        (app.client(), app.db.workspace_id, "mine"),
        (stranger.clone(), other.workspace_id, "theirs"),
    ] {
        let (_, log) = client.get(&log_of(project)).await;
        let targets: Vec<&Value> = log["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["target"])
            .collect();
        assert_eq!(targets, [&json!(expected)]);
    }
    assert_eq!(
        stranger.get(&log_of(app.db.workspace_id)).await.0,
        StatusCode::NOT_FOUND
    );
    // Nor does a statement that forgets the project.
    let pool = Db::connect_lazy(&app.db.args(), "rejoin-test-app", Role::App)
        .unwrap()
        .pool_sqlx;
    let mut tx = rls::begin(&pool, rls::Scope::User(other.owner())).await.unwrap();
    let targets: Vec<String> = sqlx::query_scalar("select target from audit.entries")
        .fetch_all(&mut *tx)
        .await
        .unwrap();
    assert_eq!(targets, ["theirs"]);
}

#[tokio::test]
async fn changes_of_members_and_quotas_are_audited() {
    let app = quiet().await;
    let (user, _) = app.db.another_user().await;
    let project = app.db.workspace_id.to_string();
    let member = format!("/api/admin/projects/{project}/members/{user}");
    let change = app
        .client()
        .request(Method::PUT, &member)
        .json(&json!({"role": "viewer"}));
    assert_eq!(change.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let who = user.to_string();
    for arguments in [
        vec!["projects", "set-role", "--project", &project, "--user", &who, "member"],
        vec!["projects", "quota", "--project", &project, "--runs-per-day", "7"],
        vec!["projects", "remove-member", "--project", &project, "--user", &who],
    ] {
        let output = rejoin(&app.db, &arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // There is nobody to be taken out any more, and nothing to be told.
    assert_eq!(app.client().delete(&member).await.0, StatusCode::NOT_FOUND);
    let (_, log) = app.client().get(&log_of(app.db.workspace_id)).await;
    let reply: Vec<Value> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|item| json!([item["actor"], item["action"], item["target"], item["detail"]]))
        .collect();
    let (owner, member) = (format!("user:{}", app.db.user_id), format!("user:{user}"));
    assert_eq!(
        reply,
        [
            json!([owner, "member.role_set", member, {"role": "viewer"}]),
            json!(["operator", "member.role_set", member, {"role": "member"}]),
            json!(["operator", "project.quota_set", format!("project:{project}"), {"runsPerDay": 7, "tokensPerDay": null}]),
            json!(["operator", "member.removed", member, {}]),
        ]
    );
}

#[tokio::test]
async fn keys_made_and_revoked_by_operators_are_audited_not_shown() {
    let db = support::database().await;
    let (made, code) = json_of(&rejoin(
        &db,
        &[
            "keys",
            "create",
            "--json",
            "--create",
            "--project",
            "acme",
            "--user",
            "ann",
            "--name",
            "laptop",
        ],
    ));
    assert_eq!(code, Some(0), "{made}");
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(rejoin(&db, &["keys", "revoke", id]).status.code(), Some(0));
    }
    let output = rejoin(&db, &["audit", "list", "--json", "--project", "acme"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains(key), "the key itself is told");
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reply: Vec<Value> = entries
        .iter()
        .rev()
        .map(|entry| json!([entry["actor"], entry["credential"], entry["action"], entry["target"]]))
        .collect();
    let project = made["projectId"].as_str().unwrap();
    let target = format!("api_key:{id}");
    assert_eq!(
        reply,
        [
            json!([
                "operator",
                null,
                "agent_definition.defaults_installed",
                format!("project:{project}")
            ]),
            json!(["operator", null, "key.created", target]),
            json!(["operator", null, "key.revoked", target]),
        ]
    );
    assert_eq!(entries[1]["detail"]["name"], "laptop");
    assert_eq!(
        rejoin(&db, &["audit", "list", "--project", "nobody's"]).status.code(),
        Some(4)
    );
    let table = String::from_utf8(rejoin(&db, &["audit", "list", "--limit", "1"]).stdout).unwrap();
    assert!(table.contains("key.revoked") && table.lines().count() == 2, "{table}");
}

#[tokio::test]
async fn a_users_first_token_is_audited_once() {
    let db = support::database().await;
    let key = SigningKey::rsa("one");
    let issuer = Issuer::start(&[&key]).await;
    let linking = oidc::api(&db, &issuer.url, |_| {}).await;
    let making = oidc::api(&db, &issuer.url, |args| {
        args.oidc_new_users = NewUsersArg::Create;
        args.oidc_default_project = Some(db.workspace_id.to_string());
    })
    .await;
    for _ in 0..2 {
        // One process's cache would answer the second request; the other process asks.
        for server in [&linking, &making] {
            let token = key.token(&issuer.claims("user@example.org"));
            assert_eq!(oidc::me(server, &token).await.0, StatusCode::OK);
        }
        let (status, caller) = oidc::me(&making, &key.token(&issuer.claims("somebody new"))).await;
        assert_eq!(status, StatusCode::OK, "{caller}");
    }
    assert_eq!(
        oidc::me(&linking, &key.token(&issuer.claims("nobody"))).await.0,
        StatusCode::FORBIDDEN
    );
    let entries = {
        let mut connection = db.pool.acquire().await.unwrap();
        audit::newest(&mut connection, 10).await.unwrap()
    };
    let reply: Vec<Value> = entries
        .iter()
        .rev()
        .map(|entry| {
            json!([
                entry.action,
                entry.detail["subject"],
                entry.detail["issuer"],
                entry.credential
            ])
        })
        .collect();
    assert_eq!(
        reply,
        [
            json!(["identity.linked", "user@example.org", issuer.url, "token"]),
            json!(["user.created", "somebody new", issuer.url, "token"]),
        ]
    );
    assert_eq!(entries[1].target, format!("user:{}", db.user_id));
    assert_eq!(entries[1].actor, entries[1].target);
}
