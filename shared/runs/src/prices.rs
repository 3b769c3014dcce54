//! Prices of models in a workspace: its own, with the catalogue's as default. Used by budgets and the `costUsd` of
//! `usage`. A model without a price costs nothing in budgets.

use chrono::NaiveDate;
use globset::Glob;
use serde::Deserialize;
use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_models::Price;

/// A price, and the models to which it applies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelPrice {
    /// `provider:model`, or a glob.
    pub model: String,
    pub input_usd: f64,
    pub output_usd: f64,
}

/// Maximum number of a workspace's own prices.
pub const MAX_PRICES: usize = 500;
/// Maximum length of a model's name or glob, in bytes.
const MODEL_MAX_BYTES: usize = 200;
/// Maximum plausible price, in dollars per million tokens.
const MAX_USD: f64 = 1_000_000.0;

impl ModelPrice {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        let model = &self.model;
        if model.trim().is_empty() || model.len() > MODEL_MAX_BYTES || model.contains('\0') {
            return Err(format!("model must have 1 to {MODEL_MAX_BYTES} bytes"));
        }
        Glob::new(model).map_err(|error| format!("model is not a valid glob: {error}"))?;
        for (name, usd) in [("inputUsd", self.input_usd), ("outputUsd", self.output_usd)] {
            if !(0.0..=MAX_USD).contains(&usd) {
                return Err(format!(
                    "{name} must be between 0 and {MAX_USD} dollars per million tokens"
                ));
            }
        }
        Ok(())
    }
}

/// Returns a model's price on a day: by the workspace's longest matching pattern, else by the catalogue.
pub fn of(own: &[ModelPrice], model: &str, today: NaiveDate) -> Option<Price> {
    let fits = |price: &&ModelPrice| Glob::new(&price.model).is_ok_and(|glob| glob.compile_matcher().is_match(model));
    match own.iter().filter(fits).max_by_key(|price| price.model.len()) {
        // It has no price of cached tokens: they cost the same as all prompt tokens.
        Some(own) => Some(Price::flat(own.input_usd, own.output_usd)),
        None => rejoin_models::catalogue().price(model, today),
    }
}

/// Returns a workspace's own prices, by model.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<ModelPrice>, sqlx::Error> {
    sqlx::query_as!(
        ModelPrice,
        "select model, input_usd, output_usd from kb.model_prices where project_id = $1 order by model",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Sets a price.
pub async fn put(db: impl PgExecutor<'_>, workspace_id: Uuid, price: &ModelPrice) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.model_prices (project_id, model, input_usd, output_usd) values ($1, $2, $3, $4)
         on conflict (project_id, model) do update set input_usd = $3, output_usd = $4, updated_at = now()",
        workspace_id,
        price.model,
        price.input_usd,
        price.output_usd
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes a price; false if it does not exist.
pub async fn remove(db: impl PgExecutor<'_>, workspace_id: Uuid, model: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "delete from kb.model_prices where project_id = $1 and model = $2",
        workspace_id,
        model
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_fitting_pattern_goes_before_the_catalogue() {
        let price = |model: &str, input_usd| ModelPrice {
            model: model.to_owned(),
            input_usd,
            output_usd: 1.0,
        };
        let own = [price("openai:*", 1.0), price("openai:gpt-6*", 3.0)];
        let today = rejoin_models::catalogue().made;
        let usd = |own: &[ModelPrice], model: &str| of(own, model, today).map(|price| price.input_usd);
        assert_eq!(usd(&own, "openai:gpt-6-luna"), Some(3.0));
        assert_eq!(usd(&own, "openai:other"), Some(1.0));
        assert_eq!(usd(&own, "gemini:x"), None);
        let listed = rejoin_models::catalogue().price("openai:gpt-6-luna", today);
        assert!(listed.is_some_and(|price| price.cached_usd < price.input_usd));
        assert_eq!(of(&[], "openai:gpt-6-luna", today), listed);
        assert_eq!(usd(&[], "ollama:whatever"), Some(0.0));
    }

    #[test]
    fn a_price_that_makes_no_sense_is_refused() {
        let price = |model: &str, input_usd, output_usd| ModelPrice {
            model: model.to_owned(),
            input_usd,
            output_usd,
        };
        assert_eq!(price("openai:*", 0.0, 10.0).check(), Ok(()));
        for (wrong, word) in [
            (price(" ", 1.0, 1.0), "model"),
            (price("openai:[", 1.0, 1.0), "glob"),
            (price("a", -1.0, 1.0), "inputUsd"),
            (price("a", 1.0, f64::NAN), "outputUsd"),
        ] {
            assert!(wrong.check().unwrap_err().contains(word), "{wrong:?}");
        }
    }
}
