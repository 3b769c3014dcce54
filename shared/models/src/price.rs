//! Prices of a model's tokens.

use serde::Deserialize;

/// Token counts of one model call, as reported by its provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All tokens of the prompt, including those below that were read from or written to a cache.
    pub input: u64,
    /// Read from the provider's cache.
    pub cached: u64,
    /// Written to the provider's cache.
    pub cache_write: u64,
    /// Tokens of the answer, including its reasoning.
    pub output: u64,
}

impl Tokens {
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            ..Self::default()
        }
    }
}

/// Prices in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", from = "Written")]
pub struct Price {
    pub input_usd: f64,
    /// Price of tokens read from a cache; equals `input_usd` unless the provider states another.
    pub cached_usd: f64,
    /// Price of tokens written to a short-lived cache; equals `input_usd` unless the provider states another.
    pub cache_write_usd: f64,
    pub output_usd: f64,
    /// Price of tokens written to a one-hour cache, if it differs.
    pub cache_write_hour_usd: Option<f64>,
    /// Prices of calls with a long prompt, if they differ.
    pub long: Option<LongPrompt>,
}

/// The prices of all tokens of a call with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongPrompt {
    /// A prompt with more tokens than this is long.
    pub above_tokens: u64,
    pub input_usd: f64,
    pub cached_usd: f64,
    pub cache_write_usd: f64,
    pub output_usd: f64,
}

impl Price {
    /// Prices without caching.
    pub fn flat(input_usd: f64, output_usd: f64) -> Self {
        Self {
            input_usd,
            cached_usd: input_usd,
            cache_write_usd: input_usd,
            output_usd,
            cache_write_hour_usd: None,
            long: None,
        }
    }

    pub fn is_free(&self) -> bool {
        self.input_usd == 0.0 && self.output_usd == 0.0
    }

    /// Returns what one call costs, in dollars. Sums of several calls must be made of dollars, not of tokens: a long prompt costs more for
    /// each of its tokens.
    pub fn of(&self, tokens: &Tokens) -> f64 {
        let (input, cached, cache_write, output) = match self.long {
            Some(long) if tokens.input > long.above_tokens => {
                (long.input_usd, long.cached_usd, long.cache_write_usd, long.output_usd)
            }
            Some(_) | None => (self.input_usd, self.cached_usd, self.cache_write_usd, self.output_usd),
        };
        let of_cache = tokens.cached.saturating_add(tokens.cache_write);
        let plain = tokens.input.saturating_sub(of_cache);
        (plain as f64 * input
            + tokens.cached as f64 * cached
            + tokens.cache_write as f64 * cache_write
            + tokens.output as f64 * output)
            / 1e6
    }
}

/// The format of the catalogue's file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    input: f64,
    cached: Option<f64>,
    cache_write: Option<f64>,
    cache_write_hour: Option<f64>,
    output: f64,
    above: Option<WrittenAbove>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenAbove {
    tokens: u64,
    input: f64,
    cached: Option<f64>,
    cache_write: Option<f64>,
    output: f64,
}

impl From<Written> for Price {
    fn from(written: Written) -> Self {
        Self {
            input_usd: written.input,
            cached_usd: written.cached.unwrap_or(written.input),
            cache_write_usd: written.cache_write.unwrap_or(written.input),
            output_usd: written.output,
            cache_write_hour_usd: written.cache_write_hour,
            long: written.above.map(|above| LongPrompt {
                above_tokens: above.tokens,
                input_usd: above.input,
                cached_usd: above.cached.unwrap_or(above.input),
                cache_write_usd: above.cache_write.unwrap_or(above.input),
                output_usd: above.output,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price() -> Price {
        serde_json::from_str(
            r#"{"input":2,"cached":0.2,"cacheWrite":2.5,"output":10,
                "above":{"tokens":272000,"input":4,"cached":0.4,"cacheWrite":5,"output":15}}"#,
        )
        .unwrap()
    }

    fn usd(price: &Price, input: u64, cached: u64, cache_write: u64, output: u64) -> f64 {
        price.of(&Tokens {
            input,
            cached,
            cache_write,
            output,
        })
    }

    #[test]
    fn tokens_cost_by_the_million() {
        assert_eq!(Price::flat(2.5, 10.0).of(&Tokens::new(1_000_000, 100_000)), 3.5);
    }

    #[test]
    fn cached_and_written_tokens_of_the_input_have_own_prices() {
        // 20,000 plain, 70,000 read, 10,000 written, 5,000 out.
        let cost = usd(&price(), 100_000, 70_000, 10_000, 5_000);
        assert!((cost - (0.04 + 0.014 + 0.025 + 0.05)).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn a_long_prompt_costs_more_for_all_of_its_tokens() {
        assert!((usd(&price(), 272_000, 0, 0, 0) - 0.544).abs() < 1e-12);
        assert!((usd(&price(), 300_000, 100_000, 0, 1_000) - (0.8 + 0.04 + 0.015)).abs() < 1e-12);
    }

    #[test]
    fn more_cached_tokens_than_input_cost_no_negative_amount() {
        assert!((usd(&price(), 10, 1_000_000, 0, 0) - 0.2).abs() < 1e-12);
    }
}
