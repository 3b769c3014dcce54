//! Costs of a run at each provider: lower with its prompt cache, and never above its budget by more than a step.

use std::fmt::Write;

use rejoin_models::{Tokens, catalogue};
use rejoin_provider_stand_in::{Outcome, Providers, Turn};
use rejoin_tests::client::{json_of, of_kind, text};
use serde_json::json;

use super::{PROTOCOLS, app, choice, recordings};

/// Number of recorded calls of a long run: one that fills the cache, and one that reads from it.
const RECORDED_CALLS: usize = 2;
/// Tokens of an answer that exhausts a budget.
const DEAR_TOKENS: u64 = 200_000;

/// Tokens and cost in dollars of 20 steps with 50 tools.
pub(super) async fn cost(model: &str, with_cache: bool, recorded: bool) -> (Tokens, f64) {
    let providers = Providers::start().await.expect("a stand-in");
    if !with_cache {
        providers.forget_caches();
    }
    let app = app(&providers, 50).await;
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, Some("low")));
            // A typical agent prompt.
            content.system_prompt = "You look after a fleet of machines. Look before you answer. ".repeat(300);
            content.max_steps = Some(30);
        })
        .await;
    let turns = (0..20).map(|step| Turn::call("look_7", json!({"n": step})).reasoning("One more."));
    providers.script("look twenty times", turns.chain([Turn::text("Done.")]));
    let frames = app.client().ask(Some(agent), "look twenty times").await;
    assert_eq!(providers.refusals(), [], "{model}");
    assert_eq!((text(&frames).as_str(), providers.left()), ("Done.", 0), "{model}");
    if with_cache && recorded {
        recordings::check("prompt-cache", &providers.recorded()[..RECORDED_CALLS]);
    }
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
        let recorded = PROTOCOLS.iter().any(|(name, _)| *name == model);
        let (_, without) = cost(model, false, recorded).await;
        let (tokens, with) = cost(model, true, recorded).await;
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
    // For docs/guide/models.md: cargo test … -- --nocapture.
    eprintln!("{table}");
    assert_eq!(dear, Vec::<&str>::new(), "{table}");
}

/// The first step exceeds the run's budget: it concludes, and pauses.
#[tokio::test]
async fn a_run_of_each_provider_stops_at_its_budget_in_dollars() {
    for (model, _) in PROTOCOLS {
        stops_at_its_budget(model).await;
    }
}

pub(super) async fn stops_at_its_budget(model: &str) {
    let providers = Providers::start().await.expect("a stand-in");
    let app = app(&providers, 1).await;
    let price = catalogue()
        .price(&model.replace("openai-responses:", "openai:"), rejoin_models::today())
        .expect("a price");
    let step = price.of(&Tokens::new(0, DEAR_TOKENS));
    let agent = app
        .agent_with("worker", &["look_*"], |content| {
            content.model = Some(choice(model, None));
            content.config = json!({"limits": {"costUsd": step * 0.9}});
        })
        .await;
    providers.script(
        "spend",
        [
            Turn::call("look_0", json!({"n": 1})).output_tokens(DEAR_TOKENS),
            Turn::text("Summed up."),
        ],
    );
    let frames = app.client().ask(Some(agent), "spend").await;
    let events = json_of(&frames);
    assert_eq!((providers.refusals(), providers.left()), (Vec::new(), 0), "{model}");
    let limits = of_kind(&events, "limit");
    assert_eq!(limits.len(), 1, "{model}: {events:?}");
    assert_eq!(limits[0]["limit"], "cost_budget", "{model}");
    let done = events.last().expect("an end");
    assert_eq!(
        (&done["status"], &done["usage"]["steps"]),
        (&json!("paused"), &json!(2)),
        "{model}"
    );
    // What the provider counted, at the catalogue's prices.
    let cost = done["usage"]["costUsd"].as_f64().expect("a cost");
    let counted = providers.cost_usd();
    assert!(
        (cost - counted).abs() < 1e-9 && cost > step,
        "{model}: {cost} and not {counted}"
    );
    let answered = |call: &rejoin_provider_stand_in::Recorded| matches!(call.outcome, Outcome::Answered { .. });
    assert!(providers.recorded().iter().all(answered), "{model}");
    recordings::check("budget", &providers.recorded());
}
