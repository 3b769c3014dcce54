//! How full a model's context window is, as sent in `context_usage`: an estimate at the start of a turn, the provider's
//! count at its end.

use serde_json::{Value, json};

use rejoin_models::catalogue;

/// Recommended maximum size of a turn's context, in tokens (the source of the figure: such chat pages).
pub const TOKEN_BUDGET: u64 = 2_500;
/// Percentage of the budget above which the context counts as nearly full.
const NEAR_LIMIT_PERCENT: u64 = 85;
/// Maximum percentage reported.
const PERCENT_MAX: u64 = 999;

/// The usage of a context of this many tokens.
pub fn usage(tokens: u64, compressed: Option<&Value>) -> Value {
    let percent = (tokens * 100).div_ceil(TOKEN_BUDGET).min(PERCENT_MAX);
    let status = match percent {
        ..NEAR_LIMIT_PERCENT => "ok",
        NEAR_LIMIT_PERCENT..=100 => "near_limit",
        _ => "over_budget",
    };
    json!({
        "estimatedTokens": tokens,
        "tokenBudget": TOKEN_BUDGET,
        "usagePercent": percent,
        "tokensRemaining": TOKEN_BUDGET.saturating_sub(tokens),
        "status": status,
        "lastCompressedAt": compressed.map(|compressed| &compressed["at"]),
        "lastCompression": compressed,
    })
}

/// Adds the model's context window, if the catalogue knows it.
pub fn with_window(mut usage: Value, model: Option<&str>) -> Value {
    let known = model
        .and_then(|model| catalogue().find(model))
        .and_then(|model| model.context);
    if let Some(tokens) = known {
        usage["modelContextTokens"] = tokens.into();
    }
    usage
}
