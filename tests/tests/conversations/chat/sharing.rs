//! Conversations shared by links: what readers without a key see, for how long, and what they never see.

use rejoin_db::{Db, Role, rls};
use rejoin_identity::auth::hash_secret;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::files;
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::conversations::quiet;

/// Sends a request without a credential.
async fn read(app: &TestApp, path: &str) -> (StatusCode, Value) {
    let client = rejoin_egress::tls::http_client().build().unwrap();
    answer(client.get(format!("{}{path}", app.url())).send().await.unwrap()).await
}

async fn shared(client: &Client, conversation: &str, body: Value) -> Value {
    let (status, share) = client
        .post(&format!("/api/conversations/{conversation}/shares"), body)
        .await;
    assert_eq!(status, StatusCode::CREATED, "{share}");
    share
}

fn token(share: &Value) -> &str {
    share["token"].as_str().unwrap()
}

async fn said(app: &TestApp, share: &Value) -> Vec<String> {
    let (status, page) = read(app, &format!("/api/shared/{}/messages", token(share))).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

async fn posted(app: &TestApp, message: &str) -> String {
    let posted = app.client().post_message(json!({ "message": message })).await;
    posted["conversationId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_shows_the_messages_until_then_or_live() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.script([Reply::text("Hello."), Reply::text("Fine.")]);
    let frames = client.chat(json!({"message": "Hi."})).await;
    let id = frames[1].json()["conversationId"].as_str().unwrap().to_owned();
    let then = shared(&client, &id, json!({})).await;
    let live = shared(&client, &id, json!({"live": true})).await;
    client
        .chat(json!({"message": "How are you?", "conversationId": id}))
        .await;
    assert_eq!(said(&app, &then).await, ["Hi.", "Hello."]);
    assert_eq!(said(&app, &live).await, ["Hi.", "Hello.", "How are you?", "Fine."]);
    let (_, about) = read(&app, &format!("/api/shared/{}", token(&then))).await;
    assert_eq!(
        (&about["title"], &about["live"], &about["files"]),
        (&json!("Hi."), &json!(false), &json!(false))
    );
    let (_, page) = read(&app, &format!("/api/shared/{}/messages?limit=1", token(&then))).await;
    let first = page["items"][0].as_object().unwrap();
    let fields: Vec<&str> = first.keys().map(String::as_str).collect();
    let mut expected = ["id", "role", "content", "citations", "files", "seq", "createdAt"];
    expected.sort_unstable();
    let mut fields = fields;
    fields.sort_unstable();
    assert_eq!(fields, expected, "nothing else of a message is shown");
    assert!(page["nextCursor"].is_string());
    // Only a hash is stored.
    let rows: i64 =
        sqlx::query_scalar("select count(*) from kb.conversation_shares s where s::text like '%' || $1 || '%'")
            .bind(token(&then))
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(rows, 0);
    let (_, list) = client.get(&format!("/api/shares?conversationId={id}")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert!(list["items"][0]["lastOpenedAt"].is_string() && list["items"][0]["token"].is_null());
}

#[tokio::test]
async fn a_revoked_or_expired_link_shows_nothing() {
    let app = quiet().await;
    let client = app.client();
    let id = posted(&app, "secret plans").await;
    let (revoked, expired, left) = (
        shared(&client, &id, json!({})).await,
        shared(&client, &id, json!({"expiresInHours": 1})).await,
        shared(&client, &id, json!({})).await,
    );
    let path = format!("/api/shares/{}", revoked["id"].as_str().unwrap());
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.delete(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    sqlx::query("update kb.conversation_shares set expires_at = now() where id = $1::uuid")
        .bind(expired["id"].as_str().unwrap())
        .execute(&app.db.pool)
        .await
        .unwrap();
    for share in [&revoked, &expired] {
        for end in ["", "/messages"] {
            let (status, problem) = read(&app, &format!("/api/shared/{}{end}", token(share))).await;
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::NOT_FOUND, &json!("share_not_found"))
            );
        }
    }
    assert_eq!(said(&app, &left).await, ["secret plans"]);
    // The owner leaves the project.
    sqlx::query("delete from kb.project_members where user_id = $1")
        .bind(app.db.user_id)
        .execute(&app.db.pool)
        .await
        .unwrap();
    let (status, _) = read(&app, &format!("/api/shared/{}", token(&left))).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let actions: Vec<String> =
        sqlx::query_scalar("select action from audit.entries where action like '%share%' order by id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let created = "conversation_share.created";
    assert_eq!(actions, [created, created, created, "conversation_share.revoked"]);
}

#[tokio::test]
async fn files_are_shown_only_if_the_link_includes_them() {
    let app = quiet().await;
    let client = app.client();
    let file = files::stored(&client, "dot.png", files::png()).await;
    let other_file = files::stored(&client, "other.png", files::pdf()).await;
    let posted = client
        .post_message(json!({"message": "Look.", "attachments": [{"fileId": file}]}))
        .await;
    let id = posted["conversationId"].as_str().unwrap();
    let without = shared(&client, id, json!({})).await;
    let with = shared(&client, id, json!({"files": true})).await;
    let names = async |share: &Value| {
        let (_, page) = read(&app, &format!("/api/shared/{}/messages", token(share))).await;
        page["items"][0]["files"].as_array().unwrap().len()
    };
    assert_eq!((names(&without).await, names(&with).await), (0, 1));
    let content = async |share: &Value, file: &str| {
        let url = format!("{}/api/shared/{}/files/{file}", app.url(), token(share));
        let client = rejoin_egress::tls::http_client().build().unwrap();
        let response = client.get(url).send().await.unwrap();
        (response.status(), response.bytes().await.unwrap().to_vec())
    };
    assert_eq!(content(&with, &file).await, (StatusCode::OK, files::png()));
    assert_eq!(content(&without, &file).await.0, StatusCode::NOT_FOUND);
    // A file of the same owner that no shared message names.
    assert_eq!(content(&with, &other_file).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_readers_transaction_sees_one_conversation_only() {
    let app = quiet().await;
    let client = app.client();
    let id = posted(&app, "shown").await;
    posted(&app, "not shown").await;
    let share = shared(&client, &id, json!({})).await;
    let hash: [u8; 32] = hash_secret(token(&share)).try_into().unwrap();
    let pool = Db::connect_lazy(&app.db.args(), "rejoin-test-app", Role::App)
        .unwrap()
        .pool_sqlx;
    // Statements without a condition.
    for (hash, rows) in [(hash, 1_i64), ([0; 32], 0)] {
        let mut reader = rls::begin(&pool, rls::Scope::Reader(hash)).await.unwrap();
        for statement in [
            "select count(id) from kb.chat_conversations",
            "select count(id) from kb.chat_messages",
            "select count(*) from kb.conversation_shares",
        ] {
            let seen: i64 = sqlx::query_scalar(statement).fetch_one(&mut *reader).await.unwrap();
            assert_eq!(seen, rows, "{statement}");
        }
    }
    for refused in [
        "select count(metadata) from kb.chat_conversations",
        "select count(*) from kb.agent_runs",
        "select count(retrieval_context) from kb.chat_messages",
        "update kb.conversation_shares set expires_at = now()",
        "delete from kb.chat_messages",
    ] {
        let mut reader = rls::begin(&pool, rls::Scope::Reader(hash)).await.unwrap();
        let error = sqlx::query(refused).execute(&mut *reader).await.unwrap_err();
        let code = error.into_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "42501", "{refused}");
    }
}

#[tokio::test]
async fn links_have_limits_of_number_lifetime_and_rate() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| {
            config.chat.max_shares = 1;
            config.chat.share_max_days = 1;
            config.http.share_rate_per_s = 1;
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let id = posted(&app, "hello").await;
    let path = format!("/api/conversations/{id}/shares");
    for (body, code) in [
        (json!({"expiresInHours": 25}), "invalid_lifetime"),
        (json!({"expiresInHours": 0}), "invalid_lifetime"),
    ] {
        let (status, problem) = client.post(&path, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!(code)));
    }
    let share = shared(&client, &id, json!({})).await;
    let (status, problem) = client.post(&path, json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("too_many_shares"))
    );
    // A burst of two, for each link, and for all wrong tokens together.
    let burst = async |token: &str| {
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.push(read(&app, &format!("/api/shared/{token}")).await.0);
        }
        statuses
    };
    assert!(burst(token(&share)).await.contains(&StatusCode::TOO_MANY_REQUESTS));
    let wrong = burst("wrong").await;
    assert!(wrong.contains(&StatusCode::NOT_FOUND) && wrong.contains(&StatusCode::TOO_MANY_REQUESTS));
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.post(&path, json!({})).await.0, StatusCode::NOT_FOUND);
    let request = client.request(Method::GET, "/api/shares").send().await.unwrap();
    assert_eq!(request.status(), StatusCode::OK);
}
