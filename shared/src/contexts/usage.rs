//! How full a model's context window is, as sent in `context_usage`: an estimate at the start of a turn, the provider's
//! count at its end.

use serde_json::{Value, json};

use crate::models::catalogue;

/// Tokens that a turn's context may have before it is said to be too full (the source of the figure: chat pages of this kind).
pub const TOKEN_BUDGET: u64 = 2_500;
/// From this share of the budget on it is nearly full [percent].
const NEAR_LIMIT_PERCENT: u64 = 85;
/// A share is told up to this.
const PERCENT_MAX: u64 = 999;

/// How full a context of this many tokens is.
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

/// The same, with how much the model takes in all, where the catalogue knows it.
pub fn with_window(mut usage: Value, model: Option<&str>) -> Value {
    let known = model
        .and_then(|model| catalogue().find(model))
        .and_then(|model| model.context);
    if let Some(tokens) = known {
        usage["modelContextTokens"] = tokens.into();
    }
    usage
}
