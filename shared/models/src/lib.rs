//! The catalogue of models: prices, limits, abilities and retirement. `data/models.json`, written by `make models`, is
//! part of the binary and parsed once.
//!
//! - `answering` predicts which model will answer, from the environment
//! - `names`  names of models
//! - `price`  prices of tokens
//! - `reads`  file types that a model accepts
//! - `choice` the model that an agent definition asks for
//! - `tokens` counts the tokens of a text
//! - `search` filters the catalogue
//!
//! Used by budgets, the defaults, `GET /api/models`, `rejoin models` and `rejoin doctor`; the worker adapts its
//! requests to the model. Invariant: what the catalogue does not state is unknown, never "no".

pub mod answering;
pub mod choice;
pub mod names;
pub mod price;
pub mod reads;
pub mod search;
pub mod tokens;

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::NaiveDate;
use serde::Deserialize;

pub use price::{LongPrompt, Price, Tokens};

/// The default model of each provider for plain conversations, in order of preference among providers with a key. A
/// test checks that each is in the catalogue with a price and without a near retirement date.
pub const CHAT_MODELS: [(&str, &str); 3] = [
    ("gemini", "gemini:gemini-3.8-flash"),
    ("openai", "openai:gpt-6-luna"),
    ("anthropic", "anthropic:claude-haiku-5-5"),
];
/// Stands for the model of plain conversations in a definition.
pub const DEFAULT_MODEL: &str = "default";
/// Time before a model's retirement from which a warning is shown, in days.
pub const RETIRES_SOON_DAYS: u64 = 60;
/// Providers whose models run locally, without a price per token.
const LOCAL: [&str; 1] = ["ollama"];
/// Maximum length of a chain of successors; the file's script refuses cycles.
const SUCCESSORS_MAX: usize = 10;

rejoin_types::text_enum! {
    /// An ability of a model. Its text is its name in the API and the CLI.
    pub enum Ability {
        Tools = "tools",
        /// Several tool calls in one answer.
        ParallelTools = "parallelTools",
        /// Image input.
        Images = "images",
        /// PDF input.
        Pdf = "pdf",
        /// Audio input.
        Audio = "audio",
        /// Answers constrained by a JSON Schema.
        StructuredOutput = "structuredOutput",
        /// Reasoning before the answer.
        Reasoning = "reasoning",
        /// Prompt caching at a lower price.
        Caching = "caching",
    }
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// `provider:model`.
    pub name: String,
    /// Aliases, with their provider.
    #[serde(default)]
    pub aliases: Vec<String>,
    #[serde(default)]
    price: Option<Price>,
    /// Prices effective from a known day, in order.
    #[serde(default)]
    later: Vec<PriceFrom>,
    /// Maximum prompt length, in tokens.
    #[serde(default)]
    pub context: Option<u64>,
    /// Maximum answer length, in tokens.
    #[serde(default)]
    pub max_output: Option<u64>,
    #[serde(default)]
    can: Option<Vec<Ability>>,
    #[serde(default)]
    temperature: Option<bool>,
    /// Supported reasoning efforts, such as `none` or `high`; empty if unknown.
    #[serde(default)]
    pub efforts: Vec<String>,
    /// Served by OpenAI's Responses API only.
    #[serde(default)]
    pub responses_only: bool,
    /// Minimum length of cached prompts, in tokens.
    #[serde(default)]
    pub cache_min_tokens: Option<u64>,
    /// The day from which it is no longer served.
    #[serde(default)]
    pub retires_on: Option<NaiveDate>,
    /// The replacement named by its provider.
    #[serde(default)]
    pub successor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct PriceFrom {
    from: NaiveDate,
    #[serde(flatten)]
    price: Price,
}

impl Model {
    /// The part before the colon.
    pub fn provider(&self) -> &str {
        names::split(&self.name).map_or("", |(provider, _)| provider)
    }

    /// Returns its price on a day. None: unknown.
    pub fn price(&self, today: NaiveDate) -> Option<Price> {
        let later = self.later.iter().rev().find(|later| later.from <= today);
        later.map(|later| later.price).or(self.price)
    }

    /// Returns whether it has an ability. None: unknown.
    pub fn can(&self, ability: Ability) -> Option<bool> {
        self.can.as_ref().map(|can| can.contains(&ability))
    }

    /// Returns its known abilities. None: unknown.
    pub fn abilities(&self) -> Option<&[Ability]> {
        self.can.as_deref()
    }

    /// Returns whether it accepts a temperature; by default it does.
    pub fn accepts_temperature(&self) -> bool {
        self.temperature.unwrap_or(true)
    }

    pub fn is_retired(&self, today: NaiveDate) -> bool {
        self.retires_on.is_some_and(|day| day <= today)
    }

    /// Returns whether it is served now, but retires within [`RETIRES_SOON_DAYS`].
    pub fn retires_soon(&self, today: NaiveDate) -> bool {
        !self.is_retired(today) && self.is_retired(today + chrono::Days::new(RETIRES_SOON_DAYS))
    }
}

/// A model's name, resolved for today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub name: String,
    /// Set if the requested model is retired.
    pub retired: Option<Retired>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    pub on: NaiveDate,
    /// A model that is served today. None: unknown.
    pub successor: Option<String>,
}

/// All models.
#[derive(Debug)]
pub struct Catalogue {
    /// The day on which it was generated.
    pub made: NaiveDate,
    models: Vec<Model>,
    by_name: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct File {
    made: NaiveDate,
    models: Vec<Model>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let file: File = serde_json::from_str(include_str!("../../../data/models.json"))
        .expect("data/models.json is part of the binary, and a test reads it");
    Catalogue::new(file)
});

/// Returns the catalogue built into this binary.
pub fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

/// The day for prices and retirements.
#[expect(
    clippy::disallowed_methods,
    reason = "a day of a list that is shipped, not a time that machines compare with each other"
)]
pub fn today() -> NaiveDate {
    chrono::Utc::now().date_naive()
}

impl Catalogue {
    fn new(file: File) -> Self {
        let mut by_name = HashMap::with_capacity(file.models.len() * 2);
        for (at, model) in file.models.iter().enumerate() {
            by_name.insert(model.name.clone(), at);
        }
        for (at, model) in file.models.iter().enumerate() {
            for alias in &model.aliases {
                by_name.entry(alias.clone()).or_insert(at);
            }
        }
        Self {
            made: file.made,
            models: file.models,
            by_name,
        }
    }

    /// All models, by name.
    pub fn all(&self) -> &[Model] {
        &self.models
    }

    /// Finds a model by its name, an alias, a dated snapshot, or a regional copy. A name without a provider is accepted
    /// if it is known to belong to one.
    pub fn find(&self, name: &str) -> Option<&Model> {
        let full = names::full(name)?;
        let known = |name: &str| names::shorter(name).find_map(|name| self.by_name.get(name));
        let at = known(&full).or_else(|| known(&names::without_region(&full)?))?;
        self.models.get(*at)
    }

    /// Returns the model to request for this name: the name, or the successor of a retired model.
    pub fn resolve(&self, name: &str, today: NaiveDate) -> Resolved {
        let as_is = |retired| Resolved {
            name: name.trim().to_owned(),
            retired,
        };
        let Some(wanted) = self.find(name) else {
            return as_is(None);
        };
        let Some(on) = wanted.retires_on.filter(|_| wanted.is_retired(today)) else {
            return as_is(None);
        };
        let live = std::iter::successors(Some(wanted), |model| self.find(model.successor.as_deref()?))
            .take(SUCCESSORS_MAX)
            .find(|model| !model.is_retired(today));
        let Some(live) = live else {
            return as_is(Some(Retired { on, successor: None }));
        };
        // An explicit choice of OpenAI's other API is kept.
        let name = match names::split(name.trim()) {
            Some((provider, _)) if provider.eq_ignore_ascii_case("openai-responses") => {
                live.name.replacen("openai:", "openai-responses:", 1)
            }
            Some(_) | None => live.name.clone(),
        };
        Resolved {
            retired: Some(Retired {
                on,
                successor: Some(name.clone()),
            }),
            name,
        }
    }

    /// Returns a model's price on a day; local models are free. None: unknown.
    pub fn price(&self, name: &str, today: NaiveDate) -> Option<Price> {
        let known = self.find(name).and_then(|model| model.price(today));
        known.or_else(|| {
            let (provider, _) = names::split(name.trim())?;
            let is_local = LOCAL.iter().any(|local| provider.eq_ignore_ascii_case(local));
            is_local.then(|| Price::flat(0.0, 0.0))
        })
    }

    /// Returns a provider's model of plain conversations.
    pub fn chat_model(&self, provider: &str) -> Option<&'static str> {
        CHAT_MODELS
            .into_iter()
            .find_map(|(of, name)| (of == provider).then_some(name))
    }
}

#[cfg(test)]
mod tests {
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
}
