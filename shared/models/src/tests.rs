//! The catalogue: its file, names, prices and retirement.

use super::*;

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

#[test]
fn the_file_is_sound() {
    let catalogue = catalogue();
    assert!(include_str!("../../../data/models.json").len() < 400_000);
    let names: Vec<&str> = catalogue.all().iter().map(|model| model.name.as_str()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "names are sorted, each once");
    for model in catalogue.all() {
        let at_home = [
            "openai",
            "anthropic",
            "gemini",
            "vertex",
            "bedrock",
            "azure",
            "openrouter",
            "ollama",
        ];
        assert!(at_home.contains(&model.provider()), "{}", model.name);
        assert!(model.later.is_sorted_by_key(|later| later.from), "{}", model.name);
        if let Some(successor) = &model.successor {
            assert!(catalogue.find(successor).is_some(), "{} -> {successor}", model.name);
        }
        for price in model.price.iter().chain(model.later.iter().map(|later| &later.price)) {
            let usd = [
                price.input_usd,
                price.cached_usd,
                price.cache_write_usd,
                price.output_usd,
            ];
            assert!(usd.iter().all(|usd| (0.0..1_000.0).contains(usd)), "{}", model.name);
            assert!(price.cached_usd <= price.input_usd, "{}", model.name);
        }
    }
}

#[test]
fn default_models_are_served_and_priced_for_a_while() {
    let catalogue = catalogue();
    for (provider, name) in CHAT_MODELS {
        let model = catalogue.find(name).expect(name);
        assert_eq!((model.provider(), model.name.as_str()), (provider, name));
        for today in [catalogue.made, today()] {
            assert!(
                !model.is_retired(today) && !model.retires_soon(today),
                "{name} on {today}"
            );
            assert!(model.price(today).is_some_and(|price| !price.is_free()), "{name}");
        }
        assert_eq!(model.can(Ability::Tools), Some(true), "{name}");
    }
}

#[test]
fn models_are_found_by_every_name_that_providers_give_them() {
    let found = |name: &str| catalogue().find(name).map(|model| model.name.as_str());
    for (name, model) in [
        ("gpt-6-luna", "openai:gpt-6-luna"),
        ("openai:gpt-6-luna-2026-09-22", "openai:gpt-6-luna"),
        ("OpenAI:gpt-6-sol", "openai:gpt-6-sol"),
        ("openai-responses:gpt-6-sol", "openai:gpt-6-sol"),
        ("claude-haiku-4-5-20251001", "anthropic:claude-haiku-4-5"),
        ("vertex:claude-opus-5-5@default", "vertex:claude-opus-5-5"),
        ("gemini-2.0-flash-001", "gemini:gemini-2.0-flash"),
        ("bedrock:in.amazon.nova-pro-v1:0", "bedrock:amazon.nova-pro-v1:0"),
        (
            "openrouter:anthropic/claude-sonnet-5.5",
            "openrouter:anthropic/claude-sonnet-5.5",
        ),
    ] {
        assert_eq!(found(name), Some(model), "{name}");
    }
    // A snapshot that differs from its model has its own entry.
    assert_eq!(found("gpt-4o-2024-05-13"), Some("openai:gpt-4o-2024-05-13"));
    for unknown in ["openai:scripted-medium", "demo:graph", "mystery", "", "openai:"] {
        assert_eq!(found(unknown), None, "{unknown}");
    }
}

#[test]
fn a_model_that_is_gone_resolves_to_one_that_is_served() {
    let today = day("2026-11-24");
    let resolved = catalogue().resolve("gemini-2.0-flash", today);
    assert_eq!(
        resolved,
        Resolved {
            name: "gemini:gemini-3.8-flash".to_owned(),
            retired: Some(Retired {
                on: day("2026-06-01"),
                successor: Some("gemini:gemini-3.8-flash".to_owned())
            })
        }
    );
    // A chain: gpt-5-chat-latest -> gpt-5.3-chat-latest, also retired -> gpt-5.5.
    assert_eq!(catalogue().resolve("gpt-5-chat-latest", today).name, "openai:gpt-5.5");
    let name = catalogue().resolve("openai-responses:gpt-5-codex", today).name;
    assert_eq!(name, "openai-responses:gpt-5.4");
    // Served until its day.
    assert_eq!(catalogue().resolve("openai:gpt-4o-mini", today).retired, None);
    let after = catalogue().resolve("openai:gpt-4o-mini", day("2027-01-14"));
    assert_eq!(after.name, "openai:gpt-6-luna");
}

#[test]
fn names_that_are_served_or_unknown_stay_as_they_are() {
    for name in ["openai:scripted", "gpt-6-luna", "ollama:llama3.2:3b", "demo:graph"] {
        let resolved = catalogue().resolve(name, day("2026-11-24"));
        assert_eq!((resolved.name.as_str(), resolved.retired), (name, None));
    }
}

#[test]
fn prices_change_on_their_day_and_local_models_are_free() {
    let usd = |name: &str, on: &str| catalogue().price(name, day(on)).map(|price| price.input_usd);
    assert_eq!(usd("gemini:gemini-4-argon", "2026-11-30"), Some(2.0));
    assert_eq!(usd("gemini:gemini-4-argon", "2026-12-01"), Some(4.0));
    assert_eq!(usd("ollama:whatever:3b", "2026-11-24"), Some(0.0));
    assert_eq!(usd("openai:scripted", "2026-11-24"), None);
}

#[test]
fn models_that_refuse_a_temperature_are_known() {
    let takes = |name: &str| catalogue().find(name).expect(name).accepts_temperature();
    for name in [
        "openai:gpt-6-luna",
        "openai:o3",
        "anthropic:claude-opus-4-7",
        "anthropic:claude-haiku-5-5",
        "gemini:gemini-3.8-flash",
    ] {
        assert!(!takes(name), "{name}");
    }
    for name in [
        "openai:gpt-4.1",
        "anthropic:claude-haiku-4-5",
        "gemini:gemini-2.5-flash",
    ] {
        assert!(takes(name), "{name}");
    }
}
