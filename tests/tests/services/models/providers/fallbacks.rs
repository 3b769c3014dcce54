//! Fallback from each overloaded provider, with its own error, to a model of the next one, in the middle of a run with
//! tools and reasoning.

use rejoin_provider_stand_in::{Protocol, Providers, Service, Turn};
use rejoin_tests::client::{json_of, of_kind, text};
use serde_json::json;

use super::{PROTOCOLS, app, choice, recordings};

#[tokio::test]
async fn an_overloaded_provider_is_replaced_in_the_middle_of_a_run() {
    for (number, (model, _)) in PROTOCOLS.into_iter().enumerate() {
        let (next, _) = PROTOCOLS[(number + 1) % PROTOCOLS.len()];
        // Each provider's first overload error.
        let overloaded = match model {
            _ if model.starts_with("anthropic:") => 529,
            _ => 503,
        };
        is_replaced(model, next, overloaded, "model_overloaded").await;
    }
}

/// By the next model, after this status, which is reported by this code.
pub(super) async fn is_replaced(model: &str, next: &str, overloaded: u16, code: &str) {
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 1).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            let mut choice = choice(model, Some("low"));
            choice.fallback_models = vec![next.to_owned()];
            content.model = Some(choice);
        })
        .await;
    providers.script(
        "look and go on",
        [
            Turn::call("look_0", json!({"n": 1})).reasoning("A look first."),
            Turn::status(overloaded),
            Turn::status(overloaded),
            Turn::call("look_0", json!({"n": 2})).reasoning("Another look."),
            Turn::text("Gone on."),
        ],
    );
    let frames = app.client().ask(Some(agent), "look and go on").await;
    let events = json_of(&frames);
    assert_eq!(providers.refusals(), [], "{model} to {next}");
    assert_eq!(
        (text(&frames).as_str(), providers.left()),
        ("Gone on.", 0),
        "{model} to {next}"
    );
    let published = of_kind(&events, "telemetry");
    assert_eq!(published.len(), 1, "{model}: {published:?}");
    let data = &published[0]["data"];
    assert_eq!(
        (&published[0]["name"], &data["from"], &data["to"], &data["code"]),
        (&json!("model_fallback"), &json!(model), &json!(next), &json!(code))
    );
    let recorded = providers.recorded();
    let asked: Vec<(Service, Protocol)> = recorded.iter().map(|call| (call.service, call.protocol)).collect();
    assert_eq!(asked.len(), 5, "{model}");
    assert!(asked[..3].iter().all(|place| *place == asked[0]), "{asked:?}");
    assert!(asked[3..].iter().all(|place| *place != asked[0]), "{asked:?}");
    recordings::check("fallback", &providers.recorded());
}
