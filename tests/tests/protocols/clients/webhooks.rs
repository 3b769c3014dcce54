//! The reference library of Standard Webhooks verifies what webhooks send.

use std::path::PathBuf;
use std::process::Stdio;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rejoin_tests::app::TestApp;
use rejoin_tests::needs;
use rejoin_tests::web::Site;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::webhooks::{Hook, add, options, requests};

/// The folder with the installed library. None: it is missing, which was reported.
fn library() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/clients/webhooks"));
    if folder.join("node_modules/standardwebhooks").exists() {
        return Some(folder);
    }
    needs::skip("the library of Standard Webhooks is not installed (scripts/setup-clients.sh)");
    None
}

/// Verifies each case with the library.
async fn verify(folder: &PathBuf, cases: &[Value]) -> Vec<Value> {
    let output = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/webhooks/verify.mjs"))
        .arg(json!(cases).to_string())
        .env("CLIENT_FOLDER", folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .expect("node starts");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

async fn send_test(app: &TestApp, hook: &Hook) {
    let (status, sent) = app.client().post(&format!("{}/test", hook.path), json!({})).await;
    assert_eq!(status.as_u16(), 202, "{sent}");
}

#[tokio::test]
async fn the_reference_library_verifies_deliveries() {
    let Some(folder) = library() else { return };
    let app = TestApp::with(options()).await;
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    send_test(&app, &hook).await;
    requests(&site, 1).await;
    let rotate = format!("{}/rotate-secret", hook.path);
    let (status, rotated) = app.client().post(&rotate, json!({})).await;
    assert_eq!(status.as_u16(), 200, "{rotated}");
    let new = rotated["secret"].as_str().expect("a secret");
    send_test(&app, &hook).await;
    let asked = requests(&site, 2).await;
    let case = |nth: usize, secret: &str, payload: Option<&str>| {
        let (_, headers, body) = &asked[nth];
        let value = |name: &str| headers[name].to_str().expect("text").to_owned();
        json!({
            "secret": secret,
            "payload": payload.unwrap_or(std::str::from_utf8(body).expect("UTF-8")),
            "headers": {
                "webhook-id": value("webhook-id"),
                "webhook-timestamp": value("webhook-timestamp"),
                "webhook-signature": value("webhook-signature"),
            },
        })
    };
    let results = verify(
        &folder,
        &[
            case(0, &hook.secret, None),
            case(1, &hook.secret, None),
            case(1, new, None),
            case(0, new, None),
            case(0, &hook.secret, Some("{}")),
        ],
    )
    .await;
    for good in &results[..3] {
        assert_eq!(good["verified"]["type"], "webhook.test", "{results:#?}");
    }
    for bad in &results[3..] {
        assert!(
            bad["error"].as_str().is_some_and(|error| error.contains("signature")),
            "{results:#?}"
        );
    }
}
