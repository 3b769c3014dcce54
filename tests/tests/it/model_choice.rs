//! Which model answers: a definition's, the one that replaces all, or whoever stands in under `rejoin dev`.

use rejoin_worker::models::name::ModelSettings;
use rejoin_worker::models::registry::Models;

#[tokio::test]
async fn under_dev_a_provider_with_a_key_stands_in_before_the_demo_does() {
    let settings = ModelSettings {
        demo_fallback: true,
        ..ModelSettings::openai_compatible("http://127.0.0.1:9/v1")
    };
    let resolved = |settings: ModelSettings| {
        Models::new(settings)
            .expect("the models")
            .resolve(Some("gemini-2.0-flash"))
    };
    assert_eq!(resolved(settings.clone()).expect("a stand-in").0, "openai:gpt-4o-mini");
    // Whoever chose one model for all gets that one, or the demo.
    let chosen = ModelSettings {
        model_override: Some("anthropic:claude-x".to_owned()),
        ..settings
    };
    assert_eq!(resolved(chosen).expect("a stand-in").0, "demo:graph");
}

#[tokio::test]
async fn the_override_replaces_every_definitions_model() {
    let settings = ModelSettings {
        model_override: Some("demo:graph".to_owned()),
        ..ModelSettings::default()
    };
    let models = Models::new(settings).expect("the models");
    assert_eq!(models.resolve(Some("openai:gpt-4o")).expect("the demo").0, "demo:graph");
    assert_eq!(models.resolve(None).expect("the demo").0, "demo:graph");
}
