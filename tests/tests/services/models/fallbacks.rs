//! Model fallback: a model that can't answer is replaced by the definition's next one, and readers are notified.

use rejoin_models::choice::ModelChoice;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use serde_json::json;

/// Runs an agent whose model is overloaded, with these fallbacks.
async fn ask(app: &TestApp, fallbacks: &[&str], status: u16) -> Vec<rejoin_tests::client::Frame> {
    let refusals = [
        Reply::status(status),
        Reply::status(status),
        Reply::status(status),
        Reply::status(status),
    ];
    app.model.on_request(|request| request["model"] == "first", refusals);
    app.model
        .on_request(|request| request["model"] == "second", [Reply::text("Here I am.")]);
    let fallbacks: Vec<String> = fallbacks.iter().map(|name| (*name).to_owned()).collect();
    let agent = app
        .agent_with("busy", &[], |content| {
            content.model = Some(ModelChoice {
                fallback_models: fallbacks,
                ..ModelChoice::named("openai:first")
            });
        })
        .await;
    app.client().ask(Some(agent), "hello").await
}

#[tokio::test]
async fn an_overloaded_model_is_replaced_after_two_tries() {
    let app = TestApp::start().await;
    // One without a key is skipped.
    let frames = ask(&app, &["anthropic:claude-haiku-5-5", "openai:second"], 529).await;
    assert_eq!(text(&frames), "Here I am.");
    let events = json_of(&frames);
    let published = of_kind(&events, "telemetry");
    assert_eq!(published.len(), 1, "{published:?}");
    assert_eq!(published[0]["name"], "model_fallback");
    let data = &published[0]["data"];
    assert_eq!(
        (&data["from"], &data["to"], &data["code"]),
        (
            &json!("openai:first"),
            &json!("openai:second"),
            &json!("model_overloaded")
        )
    );
    let asked: Vec<_> = app
        .model
        .requests()
        .iter()
        .map(|request| request["model"].clone())
        .collect();
    assert_eq!(asked, ["first", "first", "second"]);
}

#[tokio::test]
async fn without_a_fallback_the_error_says_what_to_do() {
    let app = TestApp::start().await;
    let frames = ask(&app, &[], 529).await;
    let events = json_of(&frames);
    let error = of_kind(&events, "error")[0];
    assert_eq!(error["code"], "model_overloaded");
    assert!(error["error"].as_str().unwrap().contains("fallbackModels"), "{error}");
}

#[tokio::test]
async fn what_another_model_would_refuse_as_well_is_not_asked_of_it() {
    let app = TestApp::start().await;
    let frames = ask(&app, &["openai:second"], 400).await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "error")[0]["code"], "model_rejected");
    assert_eq!(app.model.requests().len(), 1);
}
