//! What models cost: a list that is built in, and a project's own prices, which go before it. They serve budgets and the `costUsd` of
//! `usage`; a model that neither names costs nothing that we know of.

use globset::Glob;
use sqlx::PgExecutor;
use uuid::Uuid;

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input_usd: f64,
    pub output_usd: f64,
}

impl Price {
    pub fn of(self, input_tokens: u64, output_tokens: u64) -> f64 {
        (input_tokens as f64 * self.input_usd + output_tokens as f64 * self.output_usd) / 1e6
    }
}

/// A price and the models that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPrice {
    /// `provider:model`, or a glob.
    pub model: String,
    pub input_usd: f64,
    pub output_usd: f64,
}

/// Prices of one project's own.
pub const MAX_PRICES: usize = 500;
/// Of a model's name or glob [bytes].
const MODEL_MAX_BYTES: usize = 200;
/// Dearer than this is a mistake [dollars for a million tokens].
const MAX_USD: f64 = 1_000_000.0;

impl ModelPrice {
    /// Err: what is wrong, for whoever wrote it.
    pub fn check(&self) -> Result<(), String> {
        let model = &self.model;
        if model.trim().is_empty() || model.len() > MODEL_MAX_BYTES || model.contains('\0') {
            return Err(format!("model must have 1 to {MODEL_MAX_BYTES} bytes"));
        }
        Glob::new(model).map_err(|error| format!("model is no glob: {error}"))?;
        for (name, usd) in [("inputUsd", self.input_usd), ("outputUsd", self.output_usd)] {
            if !(0.0..=MAX_USD).contains(&usd) {
                return Err(format!(
                    "{name} must be between 0 and {MAX_USD} dollars for a million tokens"
                ));
            }
        }
        Ok(())
    }
}

/// List prices of well-known models as their makers publish them; they change, which is what a project's own are for.
const BUILT_IN: [(&str, f64, f64); 9] = [
    ("openai:gpt-4o-mini*", 0.15, 0.60),
    ("openai:gpt-4o*", 2.50, 10.0),
    ("openai:gpt-4.1-mini*", 0.40, 1.60),
    ("openai:gpt-4.1*", 2.0, 8.0),
    ("anthropic:claude-3-5-haiku*", 0.80, 4.0),
    ("anthropic:claude-*-sonnet*", 3.0, 15.0),
    ("gemini:gemini-2.0-flash*", 0.10, 0.40),
    ("gemini:gemini-2.5-pro*", 1.25, 10.0),
    ("ollama:*", 0.0, 0.0),
];

/// What a model costs in a project. Of several patterns that fit, the longest counts.
pub async fn find(db: impl PgExecutor<'_>, project_id: Uuid, model: &str) -> Result<Option<Price>, sqlx::Error> {
    let own = list(db, project_id).await?;
    Ok(pick(&own, model).or_else(|| pick(&built_in(), model)))
}

/// Those that come with Rejoin.
pub fn built_in() -> Vec<ModelPrice> {
    BUILT_IN
        .map(|(model, input_usd, output_usd)| ModelPrice {
            model: model.to_owned(),
            input_usd,
            output_usd,
        })
        .into()
}

fn pick(prices: &[ModelPrice], model: &str) -> Option<Price> {
    let fits = |price: &&ModelPrice| Glob::new(&price.model).is_ok_and(|glob| glob.compile_matcher().is_match(model));
    let best = prices.iter().filter(fits).max_by_key(|price| price.model.len())?;
    Some(Price {
        input_usd: best.input_usd,
        output_usd: best.output_usd,
    })
}

/// A project's own prices, by model.
pub async fn list(db: impl PgExecutor<'_>, project_id: Uuid) -> Result<Vec<ModelPrice>, sqlx::Error> {
    sqlx::query_as!(
        ModelPrice,
        "select model, input_usd, output_usd from kb.model_prices where project_id = $1 order by model",
        project_id
    )
    .fetch_all(db)
    .await
}

/// Sets a price.
pub async fn put(db: impl PgExecutor<'_>, project_id: Uuid, price: &ModelPrice) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.model_prices (project_id, model, input_usd, output_usd) values ($1, $2, $3, $4)
         on conflict (project_id, model) do update set input_usd = $3, output_usd = $4, updated_at = now()",
        project_id,
        price.model,
        price.input_usd,
        price.output_usd
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes a price; false where there is none.
pub async fn remove(db: impl PgExecutor<'_>, project_id: Uuid, model: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "delete from kb.model_prices where project_id = $1 and model = $2",
        project_id,
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
    fn the_longest_pattern_that_fits_counts() {
        let price = |model: &str, input_usd| ModelPrice {
            model: model.to_owned(),
            input_usd,
            output_usd: 1.0,
        };
        let prices = [price("openai:*", 1.0), price("openai:gpt-4o", 2.0)];
        assert_eq!(pick(&prices, "openai:gpt-4o").map(|price| price.input_usd), Some(2.0));
        assert_eq!(pick(&prices, "openai:other").map(|price| price.input_usd), Some(1.0));
        assert_eq!(pick(&prices, "gemini:x"), None);
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

    #[test]
    fn tokens_cost_by_the_million() {
        let price = Price {
            input_usd: 2.5,
            output_usd: 10.0,
        };
        assert!((price.of(1_000_000, 100_000) - 3.5).abs() < 1e-9);
    }
}
