//! Runs with tools and reasoning against the strict stand-in of each provider: nothing is refused, and no reasoning is lost on the way.

use std::collections::HashMap;
use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_shared::agents::ModelChoice;
use rejoin_shared::models::Tokens;
use rejoin_shared::tools::registry::Registry;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::providers::{ANTHROPIC_KEY, GEMINI_KEY, OPENAI_KEY, Providers, Turn};
use rejoin_tests::tools::Meeting;
use rejoin_worker::models::name::ModelSettings;
use serde_json::{Value, json};

use crate::files;

/// Settings that reach the stand-in by every provider's variables.
fn settings(providers: &Providers) -> ModelSettings {
    ModelSettings::from_map(&HashMap::from([
        ("OPENAI_API_KEY".to_owned(), OPENAI_KEY.to_owned()),
        ("OPENAI_BASE_URL".to_owned(), providers.openai_url()),
        ("ANTHROPIC_API_KEY".to_owned(), ANTHROPIC_KEY.to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), providers.anthropic_url()),
        ("GEMINI_API_KEY".to_owned(), GEMINI_KEY.to_owned()),
        ("GEMINI_BASE_URL".to_owned(), providers.gemini_url()),
    ]))
}

async fn app(providers: &Providers, tools: usize) -> TestApp {
    let tools = (0..tools).map(|number| Meeting::shared(&format!("look_{number}"), true, 1).0);
    TestApp::with(AppOptions {
        tools: Registry::new(tools),
        models: Some(settings(providers)),
        ..AppOptions::default()
    })
    .await
}

fn choice(model: &str, effort: Option<&str>) -> ModelChoice {
    let mut choice = json!({"name": model, "temperature": 0.1});
    if let Some(effort) = effort {
        choice["reasoningEffort"] = json!(effort);
    }
    serde_json::from_value(choice).expect("a model of a definition")
}

/// A run of five steps with tools, one of them with two calls, and an answer. Returns what the run told.
async fn five_steps(providers: &Providers, model: &str, effort: Option<&str>) -> Vec<Value> {
    let app = app(providers, 2).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, effort))
        })
        .await;
    let turns = (0..5).map(|step| {
        let turn = Turn::call("look_0", json!({"n": step})).reasoning(&format!("Step {step} needs a look."));
        if step == 2 {
            turn.then_call("look_1", json!({"n": step}))
        } else {
            turn
        }
    });
    providers.script(
        "look five times",
        turns.chain([Turn::text("Five looks were enough.").reasoning("That is all.")]),
    );
    let frames = app.client().ask(Some(agent), "look five times").await;
    let events = json_of(&frames);
    assert_eq!(providers.refusals(), [], "{model} with effort {effort:?}");
    assert_eq!(text(&frames), "Five looks were enough.", "{events:?}");
    events
}

/// Nothing is refused and nothing lost, with the effort of the definition and with the model's own.
async fn reasons_through_five_steps(models: &[&str]) {
    for model in models {
        for effort in [Some("low"), Some("none"), None] {
            let providers = Providers::start().await.expect("a stand-in");
            let events = five_steps(&providers, model, effort).await;
            assert_eq!(
                providers.losses(),
                Vec::<String>::new(),
                "{model} with effort {effort:?}"
            );
            assert_eq!(providers.left(), 0);
            assert_eq!(of_kind(&events, "error"), Vec::<&Value>::new());
        }
    }
}

#[tokio::test]
async fn five_tool_steps_by_chat_completions() {
    reasons_through_five_steps(&["openai:gpt-5.2"]).await;
}

#[tokio::test]
async fn five_tool_steps_by_responses() {
    reasons_through_five_steps(&["openai-responses:gpt-6-luna", "openai-responses:gpt-5.4-pro"]).await;
}

#[tokio::test]
async fn five_tool_steps_by_messages() {
    reasons_through_five_steps(&[
        "anthropic:claude-haiku-5-5",
        "anthropic:claude-opus-5-5",
        "anthropic:claude-opus-4-7",
        "anthropic:claude-haiku-4-5",
    ])
    .await;
}

#[tokio::test]
async fn five_tool_steps_by_gemini() {
    reasons_through_five_steps(&[
        "gemini:gemini-3.8-flash",
        "gemini:gemini-4-argon",
        "gemini:gemini-flash-latest",
    ])
    .await;
}

/// One model for each protocol, and the field by which its provider takes a schema.
const PROTOCOLS: [(&str, &str); 4] = [
    ("openai:gpt-5.2", "response_format"),
    ("openai-responses:gpt-6-luna", "text"),
    ("anthropic:claude-haiku-5-5", "output_config"),
    ("gemini:gemini-3.8-flash", "generationConfig"),
];

#[tokio::test]
async fn each_provider_is_given_the_schema_of_an_answer_beside_tools() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": false,
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
        for sent in providers.recorded() {
            assert!(
                sent.body[field].to_string().contains("\"city\""),
                "{model}: {}",
                sent.body
            );
        }
    }
}

#[tokio::test]
async fn each_provider_is_sent_an_image_and_a_pdf() {
    for (model, _) in PROTOCOLS {
        let providers = Providers::start().await.expect("a stand-in");
        let app = app(&providers, 0).await;
        let agent = app
            .agent_with("worker", &[], |content| content.model = Some(choice(model, None)))
            .await;
        providers.script("what is this", [Turn::text("A pixel, and a page.")]);
        let client = app.client();
        let (image, page) = (files::png(), files::pdf());
        let attachments = [
            json!({"fileId": files::stored(&client, "pixel.png", image.clone()).await}),
            json!({"fileId": files::stored(&client, "page.pdf", page.clone()).await}),
        ];
        let body = json!({"message": "what is this", "agentDefinitionId": agent, "attachments": attachments});
        let frames = client.chat(body).await;
        assert_eq!(providers.refusals(), [], "{model}");
        assert_eq!(text(&frames), "A pixel, and a page.", "{model}");
        let sent = providers.recorded()[0].body.to_string();
        for bytes in [image, page] {
            assert!(sent.contains(&STANDARD.encode(bytes)), "{model}: {sent}");
        }
    }
}

/// Tokens and dollars of 20 steps with 50 tools.
async fn cost(model: &str, with_cache: bool) -> (Tokens, f64) {
    let providers = Providers::start().await.expect("a stand-in");
    if !with_cache {
        providers.forget_caches();
    }
    let app = app(&providers, 50).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, Some("low")));
            // What an agent with a job of its own is told.
            content.system_prompt = "You look after a fleet of machines. Look before you answer. ".repeat(300);
            content.max_steps = Some(30);
        })
        .await;
    let turns = (0..20).map(|step| Turn::call("look_7", json!({"n": step})).reasoning("One more."));
    providers.script("look twenty times", turns.chain([Turn::text("Done.")]));
    let frames = app.client().ask(Some(agent), "look twenty times").await;
    assert_eq!(providers.refusals(), [], "{model}");
    assert_eq!((text(&frames).as_str(), providers.left()), ("Done.", 0), "{model}");
    (providers.tokens(), providers.cost_usd())
}

#[tokio::test]
async fn twenty_steps_with_fifty_tools_cost_a_third_with_a_cache() {
    let mut table = String::from(
        "\n| model | prompt tokens | of them cached | written | without a cache [USD] | with it [USD] | cheaper |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut dear = Vec::new();
    for model in [
        "anthropic:claude-haiku-5-5",
        "anthropic:claude-opus-5-5",
        "openai-responses:gpt-6-luna",
        "openai:gpt-5.2",
        "gemini:gemini-3.8-flash",
    ] {
        let (_, without) = cost(model, false).await;
        let (tokens, with) = cost(model, true).await;
        let times = without / with;
        let _ = writeln!(
            table,
            "| {model} | {} | {} | {} | {without:.4} | {with:.4} | {times:.1} times |",
            tokens.input, tokens.cached, tokens.cache_write
        );
        if times < 3.0 {
            dear.push(model);
        }
    }
    // For docs/MODELS.md: cargo test … -- --nocapture.
    eprintln!("{table}");
    assert_eq!(dear, Vec::<&str>::new(), "{table}");
}
