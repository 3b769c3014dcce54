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

pub use price::{LongPrompt, Price, Tokens};

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::NaiveDate;
use serde::Deserialize;

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
mod tests;
