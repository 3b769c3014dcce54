//! Runs with tools and reasoning against the strict stand-in of each provider: nothing is refused, and no reasoning is lost on the way. Each cell
//! of the table "Test coverage of each provider" of docs/guide/models.md is a test here.
//!
//! - `recordings` requests and responses, compared with files
//! - `answers`    structured output
//! - `media`      images, PDF and audio
//! - `costs`      prompt caches and budgets
//! - `fallbacks`  a model that can't answer now
//! - `services`   the same at Azure, OpenRouter, Vertex AI, Bedrock and Ollama

mod answers;
mod costs;
mod fallbacks;
mod media;
mod recordings;
mod services;

use std::collections::HashMap;

use rejoin_model_client::name::ModelSettings;
use rejoin_models::choice::ModelChoice;
use rejoin_provider_stand_in::{
    ANTHROPIC_KEY, AZURE_KEY, BEDROCK_KEY, GEMINI_KEY, OPENAI_KEY, OPENROUTER_KEY, Providers, Turn, VERTEX_KEY,
};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::tools::Meeting;
use rejoin_tools::registry::Registry;
use serde_json::{Value, json};

/// Settings that point every provider's variables to the fake.
fn settings(providers: &Providers) -> ModelSettings {
    ModelSettings::from_map(&HashMap::from([
        ("OPENAI_API_KEY".to_owned(), OPENAI_KEY.to_owned()),
        ("OPENAI_BASE_URL".to_owned(), providers.openai_url()),
        ("ANTHROPIC_API_KEY".to_owned(), ANTHROPIC_KEY.to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), providers.anthropic_url()),
        ("GEMINI_API_KEY".to_owned(), GEMINI_KEY.to_owned()),
        ("GEMINI_BASE_URL".to_owned(), providers.gemini_url()),
        ("AZURE_OPENAI_API_KEY".to_owned(), AZURE_KEY.to_owned()),
        ("AZURE_OPENAI_ENDPOINT".to_owned(), providers.url()),
        ("OPENROUTER_API_KEY".to_owned(), OPENROUTER_KEY.to_owned()),
        ("OPENROUTER_BASE_URL".to_owned(), providers.openrouter_url()),
        ("VERTEX_API_KEY".to_owned(), VERTEX_KEY.to_owned()),
        ("VERTEX_BASE_URL".to_owned(), providers.vertex_url()),
        ("AWS_BEARER_TOKEN_BEDROCK".to_owned(), BEDROCK_KEY.to_owned()),
        ("BEDROCK_BASE_URL".to_owned(), providers.url()),
        ("OLLAMA_HOST".to_owned(), providers.url()),
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

/// A run of five steps with tools, one of them with two calls, and an answer. Returns the run's events.
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

/// Nothing is rejected and nothing lost, with the definition's effort and with the model's own. The first model's run
/// is recorded.
async fn reasons_through_five_steps(models: &[&str]) {
    for (number, model) in models.iter().enumerate() {
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
            if number == 0 && effort == Some("low") {
                recordings::check("five-tool-steps", &providers.recorded());
            }
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

/// One model per protocol, and the field for its provider's schema.
const PROTOCOLS: [(&str, &str); 4] = [
    ("openai:gpt-5.2", "response_format"),
    ("openai-responses:gpt-6-luna", "text"),
    ("anthropic:claude-haiku-5-5", "output_config"),
    ("gemini:gemini-3.8-flash", "generationConfig"),
];

/// Calling a hidden tool shows it from then on: earlier reasoning, which is tied to the tools, is dropped.
#[tokio::test]
async fn tools_that_are_shown_later_break_no_step() {
    for (model, _) in PROTOCOLS {
        shows_tools_later(model).await;
    }
}

async fn shows_tools_later(model: &str) {
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 2).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, Some("low")));
            content.config = json!({"toolSelection": "context"});
        })
        .await;
    let client = app.client();
    let settings = format!("/api/admin/projects/{}/contexts/brain_dump", app.db.workspace_id);
    let shown = json!({"prompt": "Listen.", "tools": ["look_0"]});
    assert_eq!(client.put(&settings, shown).await.0, 200);
    let turns = ["look_0", "look_1", "look_0"];
    let turns = turns.map(|tool| Turn::call(tool, json!({"n": 1})).reasoning("A look."));
    providers.script("look around", turns.into_iter().chain([Turn::text("Seen.")]));
    let body = json!({"message": "look around", "agentDefinitionId": agent, "contextType": "brain_dump"});
    let frames = client.chat(body).await;
    assert_eq!(providers.refusals(), [], "{model}");
    assert_eq!((text(&frames).as_str(), providers.left()), ("Seen.", 0), "{model}");
    let tools: Vec<usize> = providers
        .recorded()
        .iter()
        .map(|call| {
            let config = [&call.body["tools"], &call.body["toolConfig"]];
            config
                .map(|tools| tools.to_string().matches("look_").count())
                .iter()
                .sum()
        })
        .collect();
    assert_eq!(tools, [1, 1, 2, 2], "{model}");
}
