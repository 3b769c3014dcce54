//! `GET /api/models`: the catalogue of models: prices, accepted input, abilities.

use axum::Json;
use axum::extract::State;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Params;
use rejoin_http::problem::{Problem, Refused};
use rejoin_models::search::{Search, providers_with_key};
use rejoin_models::{Ability, Model, Price};
use rejoin_tools::registry::Patterns;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list))
}

/// Filter of models; all given conditions must match
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ModelFilter {
    /// The provider: the part of a name before the colon
    pub provider: Option<String>,
    /// A part of the name
    pub q: Option<String>,
    /// Required capabilities, separated by commas: `tools`, `parallelTools`, `images`, `pdf`, `audio`,
    /// `structuredOutput`, `reasoning`, `caching`
    pub can: Option<String>,
    /// Include retired models
    #[serde(default)]
    pub retired: bool,
}

/// Dollars per million tokens
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPriceBody {
    pub input_usd: f64,
    /// Tokens read from the provider's cache
    pub cached_usd: f64,
    /// Tokens written to the provider's cache
    pub cache_write_usd: f64,
    pub output_usd: f64,
    /// Price of all tokens of a call with a long prompt
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPromptBody>,
}

/// Dollars per million tokens of calls with a long prompt
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LongPromptBody {
    /// Number of tokens above which a prompt is long
    pub above_tokens: u64,
    pub input_usd: f64,
    pub cached_usd: f64,
    pub cache_write_usd: f64,
    pub output_usd: f64,
}

impl From<Price> for ModelPriceBody {
    fn from(price: Price) -> Self {
        Self {
            input_usd: price.input_usd,
            cached_usd: price.cached_usd,
            cache_write_usd: price.cache_write_usd,
            output_usd: price.output_usd,
            long_prompt: price.long.map(|long| LongPromptBody {
                above_tokens: long.above_tokens,
                input_usd: long.input_usd,
                cached_usd: long.cached_usd,
                cache_write_usd: long.cache_write_usd,
                output_usd: long.output_usd,
            }),
        }
    }
}

/// A model of a provider. Unknown values are omitted
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelBody {
    /// `provider:model`, as used in a definition's `model.name`
    pub name: String,
    /// Its aliases
    pub aliases: Vec<String>,
    pub provider: String,
    /// True: this server has an API key of its provider, so its workers probably have one as well. Absent: it has none,
    /// but workers may have one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_key: Option<bool>,
    /// Whether conversations without an agent use it if its provider is the first one with an API key
    pub is_default: bool,
    /// Whether users may choose it for a message
    pub may_choose: bool,
    /// Current list price
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPriceBody>,
    /// Maximum number of input tokens
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Maximum number of output tokens
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Its capabilities
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can: Option<Vec<&'static str>>,
    /// Whether it supports a temperature
    pub takes_temperature: bool,
    /// Supported levels of reasoning effort
    pub efforts: Vec<String>,
    /// The day on which its provider retires it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retires_on: Option<String>,
    /// Whether that day has passed
    pub is_retired: bool,
    /// The model that replaces it from then on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelList {
    /// The date of the catalogue
    pub made: String,
    /// By name
    pub items: Vec<ModelBody>,
}

fn body(model: &Model, with_key: &[&str], choosable: &Patterns) -> ModelBody {
    let today = rejoin_models::today();
    ModelBody {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        provider: model.provider().to_owned(),
        has_key: with_key.contains(&model.provider()).then_some(true),
        is_default: rejoin_models::CHAT_MODELS.iter().any(|(_, name)| *name == model.name),
        may_choose: choosable.is_match(&model.name),
        price: model.price(today).map(ModelPriceBody::from),
        context_tokens: model.context,
        max_output_tokens: model.max_output,
        can: model
            .abilities()
            .map(|can| can.iter().map(|ability| ability.as_str()).collect()),
        takes_temperature: model.accepts_temperature(),
        efforts: model.efforts.clone(),
        retires_on: model.retires_on.map(|day| day.to_string()),
        is_retired: model.is_retired(today),
        successor: model.successor.clone(),
    }
}

fn abilities(can: &str) -> Result<Vec<Ability>, Problem> {
    let words = can.split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = words.map(|word| {
        word.parse()
            .map_err(|error| Problem::bad_request("invalid_query", format!("can: {error}")))
    });
    read.collect()
}

/// List the known models
///
/// Prices, limits and capabilities come from a catalogue that is part of this version. Models that are not in it can be
/// used as well.
#[utoipa::path(get, path = "/api/models", tag = "models", params(ModelFilter),
    responses((status = 200, description = "The matching models", body = ModelList), Refused))]
async fn list(
    State(state): State<AppState>,
    _: Caller<Read>,
    Params(filter): Params<ModelFilter>,
) -> Result<Json<ModelList>, Problem> {
    let search = Search {
        provider: filter.provider,
        text: filter.q,
        can: abilities(filter.can.as_deref().unwrap_or_default())?,
        retired: filter.retired,
    };
    let with_key = providers_with_key(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let choosable = Patterns::new(&state.settings.user_models);
    let catalogue = rejoin_models::catalogue();
    let fits = catalogue
        .all()
        .iter()
        .filter(|model| search.fits(model, rejoin_models::today()));
    Ok(Json(ModelList {
        made: catalogue.made.to_string(),
        items: fits.map(|model| body(model, &with_key, &choosable)).collect(),
    }))
}
