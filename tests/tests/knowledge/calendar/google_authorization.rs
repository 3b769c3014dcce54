//! A user authorizes access to a Google account: only the one who began it, and once.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::client::Client;
use rejoin_tests::google::account::PRIMARY;
use rejoin_tests::google::linked::unlinked;
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Requirements: E56.
#[tokio::test]
async fn only_who_was_sent_to_google_comes_back_and_once() {
    let linked = unlinked().await;
    let given = linked.consent().await;
    let (_, key) = linked.app.db.another_user().await;
    let other = Client::new(linked.app.url(), &key);
    let refused = async |client: &Client, given: &Value, code: &str| {
        let (status, problem) = client.post("/api/google/consents", given.clone()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{problem}"
        );
    };
    refused(&other, &given, "consent_unknown").await;
    for state in ["x", "", "%00", "' or true --"] {
        refused(
            &linked.client,
            &json!({"state": state, "code": given["code"]}),
            "consent_unknown",
        )
        .await;
    }
    let (status, _) = linked
        .client
        .post("/api/google/consents", json!({"code": given["code"]}))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "without a state");
    // The attacker's own state with a code issued to another user: that user's account is not linked here.
    let mut theirs = linked.consent().await;
    theirs["code"] = given["code"].clone();
    refused(&other, &theirs, "consent_unknown").await;
    // The same user in another project counts as another owner.
    let elsewhere = uuid::Uuid::now_v7();
    let mut db = linked.app.db.pool.acquire().await.unwrap();
    sqlx::query("insert into kb.projects (id, name) values ($1, 'elsewhere')")
        .bind(elsewhere)
        .execute(&mut *db)
        .await
        .unwrap();
    let user = linked.app.db.user_id;
    workspaces::add_member(&mut db, elsewhere, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut db, user, Some(elsewhere), "elsewhere", &Scope::ALL, None)
        .await
        .unwrap();
    refused(&Client::new(linked.app.url(), &key), &given, "consent_unknown").await;
    let (status, _) = linked.client.post("/api/google/consents", given.clone()).await;
    assert_eq!(status, StatusCode::OK);
    refused(&linked.client, &given, "consent_unknown").await;
    // A rejected consent links nothing.
    let said_no = json!({"state": linked.consent().await["state"], "error": "access_denied"});
    refused(&linked.client, &said_no, "consent_refused").await;
    refused(&linked.client, &said_no, "consent_unknown").await;
    // Expired.
    let late = linked.consent().await;
    sqlx::query("update kb.google_consents set expires_at = now()")
        .execute(&linked.app.db.pool)
        .await
        .unwrap();
    refused(&linked.client, &late, "consent_unknown").await;
    // Others can neither see nor change it.
    let path = format!("{}/google", linked.calendar);
    for status in [
        other.get(&path).await.0,
        other.post(&path, json!({})).await.0,
        other.put(&path, json!({"googleCalendarId": PRIMARY})).await.0,
        other.post(&format!("{path}/sync"), json!({})).await.0,
        other.delete(&path).await.0,
    ] {
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    let (status, problem) = linked.client.put(&path, json!({"googleCalendarId": "elsewhere"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("unknown_google_calendar"))
    );
    // The token is encrypted, and in no list.
    let stored: Vec<u8> = sqlx::query_scalar("select ciphertext from kb.google_links")
        .fetch_one(&linked.app.db.pool)
        .await
        .unwrap();
    for token in linked.google.tokens() {
        assert!(!String::from_utf8_lossy(&stored).contains(&token));
        assert!(!linked.state().await.to_string().contains(&token));
    }
}

/// Requirements: E56.
#[tokio::test]
async fn without_an_operators_settings_there_is_no_google() {
    let app = rejoin_tests::app::TestApp::start().await;
    let client = app.client();
    let (_, made) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "UTC"}))
        .await;
    let path = format!("/api/calendars/{}/google", made["id"].as_str().unwrap());
    let (status, problem) = client.post(&path, json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("google_not_configured"))
    );
    assert!(problem["detail"].as_str().unwrap().contains("REJOIN_GOOGLE_CLIENT_ID"));
    assert_eq!(client.get("/api/calendars").await.1["googleAvailable"], false);
}
