//! Structured output: each provider receives the schema in its own format.

use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::providers::{Providers, Turn};
use serde_json::json;

use super::{PROTOCOLS, app, choice, recordings};

#[tokio::test]
async fn each_provider_is_given_the_schema_of_an_answer_beside_tools() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
        "required": ["city"],
    });
    for (model, field) in PROTOCOLS {
        let providers = Providers::start().await.expect("a stand-in");
        let app = app(&providers, 1).await;
        let agent = app
            .agent_with("worker", &["look_*"], |content| {
                content.model = Some(choice(model, None))
            })
            .await;
        providers.script(
            "which city",
            [Turn::call("look_0", json!({"n": 1})), Turn::text(r#"{"city": "Bonn"}"#)],
        );
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
            assert!(
                sent.body[field].to_string().contains("\"city\""),
                "{model}: {}",
                sent.body
            );
        }
    }
}
