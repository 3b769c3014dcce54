//! Azure, OpenRouter, Vertex AI, Bedrock and Ollama, each against its strict fake; none was tested against the real service.

use rejoin_models::catalogue;
use rejoin_provider_stand_in::{AZURE_DEPLOYMENT, Protocol, Providers, Service, Turn};
use rejoin_tests::client::{json_of, of_kind, text};
use serde_json::json;

use super::answers::answers_by_the_schema;
use super::costs::{cost, stops_at_its_budget};
use super::fallbacks::is_replaced;
use super::media::{is_sent_a_sound, is_sent_an_image};
use super::{app, choice, reasons_through_five_steps, recordings, shows_tools_later};

const AZURE: &str = "azure:gpt-5.2";
/// It does not reason, and is called by Chat Completions.
const AZURE_CHAT: &str = "azure:gpt-4.1-mini";
const OPENROUTER: &str = "openrouter:anthropic/claude-haiku-5.5";
const VERTEX: &str = "vertex:gemini-3.8-flash";
const VERTEX_CLAUDE: &str = "vertex:claude-haiku-5-5";
const BEDROCK: &str = "bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0";
const OLLAMA: &str = "ollama:qwen3-vl:8b";

#[tokio::test]
async fn five_tool_steps_at_azure() {
    reasons_through_five_steps(&[AZURE, "azure:gpt-6-luna"]).await;
    reasons_through_five_steps(&[AZURE_CHAT]).await;
}

#[tokio::test]
async fn five_tool_steps_at_openrouter() {
    reasons_through_five_steps(&[
        OPENROUTER,
        "openrouter:openai/gpt-6-luna",
        "openrouter:google/gemini-3.8-flash",
    ])
    .await;
}

#[tokio::test]
async fn five_tool_steps_at_vertex() {
    reasons_through_five_steps(&[VERTEX, "vertex:gemini-3.1-pro-preview"]).await;
}

#[tokio::test]
async fn five_tool_steps_by_claude_at_vertex() {
    reasons_through_five_steps(&[VERTEX_CLAUDE, "vertex:claude-opus-5-5"]).await;
}

#[tokio::test]
async fn five_tool_steps_at_bedrock() {
    reasons_through_five_steps(&[
        BEDROCK,
        "bedrock:us.anthropic.claude-opus-5-5",
        "bedrock:us.amazon.nova-2-lite-v1:0",
    ])
    .await;
}

#[tokio::test]
async fn five_tool_steps_at_ollama() {
    reasons_through_five_steps(&["ollama:qwen3:8b", "ollama:llama3.1"]).await;
}

#[tokio::test]
async fn tools_that_are_shown_later_break_no_step_at_other_services() {
    for model in [AZURE, AZURE_CHAT, OPENROUTER, VERTEX, VERTEX_CLAUDE, BEDROCK, OLLAMA] {
        shows_tools_later(model).await;
    }
}

#[tokio::test]
async fn answers_as_data_at_other_services() {
    for (model, field) in [
        (AZURE, Some("text")),
        (AZURE_CHAT, Some("response_format")),
        (OPENROUTER, None),
        (VERTEX, Some("generationConfig")),
        (VERTEX_CLAUDE, None),
        (BEDROCK, None),
        (OLLAMA, None),
    ] {
        answers_by_the_schema(model, field).await;
    }
}

#[tokio::test]
async fn images_and_pdf_at_other_services() {
    for model in [AZURE, OPENROUTER, VERTEX, VERTEX_CLAUDE, BEDROCK] {
        is_sent_an_image(model, true).await;
    }
    for model in [AZURE_CHAT, OLLAMA] {
        is_sent_an_image(model, false).await;
    }
}

#[tokio::test]
async fn audio_at_other_services() {
    for (model, takes) in [
        (AZURE, false),
        ("openrouter:google/gemini-3.8-flash", true),
        (VERTEX, true),
        (VERTEX_CLAUDE, false),
        (BEDROCK, false),
        (OLLAMA, false),
    ] {
        is_sent_a_sound(model, takes).await;
    }
}

#[tokio::test]
async fn a_cache_makes_twenty_steps_cost_a_third_at_other_services() {
    for model in [AZURE, OPENROUTER, VERTEX, VERTEX_CLAUDE, BEDROCK] {
        let (_, without) = cost(model, false, true).await;
        let (tokens, with) = cost(model, true, true).await;
        assert!(
            with * 3.0 < without,
            "{model}: {with} and {without} dollars, {tokens:?}"
        );
    }
}

#[tokio::test]
async fn a_budget_in_dollars_at_other_services() {
    for model in [AZURE, AZURE_CHAT, OPENROUTER, VERTEX, VERTEX_CLAUDE, BEDROCK] {
        stops_at_its_budget(model).await;
    }
    assert!(catalogue().find(OLLAMA).is_none(), "nothing to pay");
}

/// By each service's overload error, or its unavailability error if it has none.
#[tokio::test]
async fn a_fallback_from_each_other_service() {
    for (model, status, code) in [
        (AZURE, 503, "model_overloaded"),
        (AZURE_CHAT, 503, "model_overloaded"),
        (OPENROUTER, 503, "model_unavailable"),
        (VERTEX, 503, "model_overloaded"),
        (VERTEX_CLAUDE, 529, "model_overloaded"),
        (BEDROCK, 503, "model_unavailable"),
        (OLLAMA, 503, "model_overloaded"),
    ] {
        is_replaced(model, "openai:gpt-5.2", status, code).await;
    }
}

/// A stream that ends early is not an answer.
#[tokio::test]
async fn an_answer_that_is_cut_off_is_an_error_at_each_service() {
    for model in [AZURE, OPENROUTER, VERTEX, VERTEX_CLAUDE, BEDROCK, OLLAMA] {
        for turn in [
            Turn::text("One two three four.").cut(),
            Turn::text("One two three four.").breaks_off(),
        ] {
            let providers = Providers::start().await.expect("a stand-in");
            let app = app(&providers, 0).await;
            let agent = app
                .agent_with("worker", &[], |content| content.model = Some(choice(model, None)))
                .await;
            // Enough for all retries.
            providers.script("count", std::iter::repeat_n(turn, 10));
            let events = json_of(&app.client().ask(Some(agent), "count").await);
            assert_eq!(of_kind(&events, "error").len(), 1, "{model}: {events:?}");
        }
    }
}

/// The model behind a deployment with another name is unknown: what it rejects is learned from its rejections.
#[tokio::test]
async fn five_tool_steps_at_azure_by_a_deployment_of_another_name() {
    let model = format!("azure:{AZURE_DEPLOYMENT}");
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 1).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            let mut choice = choice(&model, Some("low"));
            choice.max_tokens = Some(2_000);
            content.model = Some(choice);
        })
        .await;
    let turns = (0..5).map(|step| Turn::call("look_0", json!({"n": step})).reasoning("A look."));
    providers.script("look", turns.chain([Turn::text("Seen.")]));
    let frames = app.client().ask(Some(agent), "look").await;
    let refused = providers.refusals();
    assert_eq!(
        (text(&frames).as_str(), providers.left()),
        ("Seen.", 0),
        "{refused:?} {frames:?}"
    );
    let statuses: Vec<u16> = refused.iter().map(|(status, _)| *status).collect();
    assert_eq!(
        statuses,
        [400, 400],
        "the temperature and the older name of a limit: {refused:?}"
    );
    recordings::check("own-deployment", &providers.recorded());
    let last = providers.recorded().pop().expect("a call");
    assert_eq!((last.service, last.protocol), (Service::Azure, Protocol::Chat));
    assert_eq!(
        (&last.body["max_completion_tokens"], &last.body["reasoning_effort"]),
        (&json!(2_000), &json!("low"))
    );
}
