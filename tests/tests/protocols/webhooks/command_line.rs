//! `rejoin webhooks`: the same over the command line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rejoin_tests::app::{TestApp, binary};
use rejoin_tests::support::wait_for;
use rejoin_tests::web::Site;
use serde_json::Value;

use super::{options, path};

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_adds_tests_replays_and_removes_webhooks() {
    let app = TestApp::with(options()).await;
    let is_broken = Arc::new(AtomicBool::new(true));
    let seen_broken = is_broken.clone();
    let site = Site::start(move |_, _| {
        if seen_broken.load(Ordering::SeqCst) {
            (StatusCode::SERVICE_UNAVAILABLE, "not now").into_response()
        } else {
            StatusCode::OK.into_response()
        }
    })
    .await;
    let rejoin = |line: &[&str]| {
        let output = tokio::task::block_in_place(|| {
            std::process::Command::new(binary())
                .arg("webhooks")
                .args(line)
                .env("REJOIN_URL", app.url())
                .env("REJOIN_API_KEY", &app.db.api_key)
                .env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string())
                .output()
                .expect("the binary")
        });
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let json = |line: &[&str]| -> Value { serde_json::from_str(&rejoin(&[line, &["--json"]].concat())).expect("JSON") };

    let added = rejoin(&["add", &site.url, "--event", "run.ended", "--description", "Billing"]);
    assert!(
        added.contains("whsec_") && added.contains("run.ended  enabled"),
        "{added}"
    );
    let listed = json(&["list"]);
    let id = listed["items"][0]["id"].as_str().expect("an id");
    assert_eq!(listed, app.client().get(&path(&app)).await.1);
    let changed = rejoin(&["set", id, "--event", "dag.ended", "--event", "question.asked"]);
    assert!(changed.contains("dag.ended,question.asked"), "{changed}");
    assert!(rejoin(&["add", &site.url, "--event", "run.began"]).contains("run.ended, question.asked"));
    assert!(rejoin(&["rotate-secret", id, "--overlap", "0"]).contains("whsec_"));

    // A dead delivery, replayed by its id, and with all others.
    let of = |state: &str| {
        json(&["deliveries", id, "--state", state])["items"]
            .as_array()
            .expect("a page")
            .clone()
    };
    let until = async |state: &str, count: usize| {
        wait_for(state, async || (of(state).len() == count).then_some(())).await;
    };
    let tested = rejoin(&["test", id]);
    assert!(tested.contains("rejoin webhooks deliveries"), "{tested}");
    until("dead", 1).await;
    let table = rejoin(&["deliveries", id]);
    assert!(table.contains("webhook.test") && table.contains("503"), "{table}");
    let delivery = of("dead")[0]["id"].as_str().expect("an id").to_owned();
    is_broken.store(false, Ordering::SeqCst);
    assert!(rejoin(&["replay", id, &delivery]).contains("is sent again"));
    until("delivered", 1).await;
    is_broken.store(true, Ordering::SeqCst);
    rejoin(&["test", id]);
    until("dead", 1).await;
    is_broken.store(false, Ordering::SeqCst);
    assert!(rejoin(&["replay", id, "--dead"]).contains("1 deliveries are sent again"));
    until("delivered", 2).await;

    assert!(rejoin(&["disable", id]).contains("disabled (admin)"));
    assert!(rejoin(&["test", id]).contains("enable it first"));
    assert!(rejoin(&["enable", id]).contains("enabled"));
    assert!(rejoin(&["remove", id]).contains("was removed"));
    assert!(rejoin(&["deliveries", id]).contains("webhook"));
    assert_eq!(json(&["list"])["items"].as_array().map(Vec::len), Some(0));
}
