//! Structured output: each provider receives the schema in its own format.

use rejoin_provider_stand_in::{Providers, Turn};
use rejoin_tests::client::{json_of, of_kind};
use serde_json::json;

use super::{PROTOCOLS, app, choice, recordings};

#[tokio::test]
async fn each_provider_is_given_the_schema_of_an_answer_beside_tools() {
    for (model, field) in PROTOCOLS {
        answers_by_the_schema(model, Some(field)).await;
    }
}

/// `field`: where the provider takes a schema. None: the answer is a call of a tool.
pub(super) async fn answers_by_the_schema(model: &str, field: Option<&str>) {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
        "required": ["city"],
    });
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 1).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, None))
        })
        .await;
    let answer = match field {
        Some(_) => Turn::text(r#"{"city": "Bonn"}"#),
        None => Turn::call("final_answer", json!({"city": "Bonn"})),
    };
    providers.script("which city", [Turn::call("look_0", json!({"n": 1})), answer]);
    let body = json!({"message": "which city", "agentDefinitionId": agent, "outputSchema": schema});
    let events = json_of(&app.client().chat(body).await);
    assert_eq!(providers.refusals(), [], "{model}");
    assert_eq!(
        of_kind(&events, "output")[0]["output"],
        json!({"city": "Bonn"}),
        "{model}"
    );
    recordings::check("output", &providers.recorded());
    for sent in providers.recorded() {
        let (told, word) = match field {
            Some(field) => (sent.body[field].to_string(), "\"city\""),
            None => (sent.body.to_string(), "\"final_answer\""),
        };
        assert!(told.contains(word), "{model}: {}", sent.body);
    }
}
