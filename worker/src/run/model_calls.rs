//! The metrics of one model call (docs/operations/metrics.md): outcome, duration, tokens, cost. Called by `spans`, which knows when a call begins and
//! ends.

use rejoin_model_client::Usage;
use rejoin_telemetry::labels;
use tokio::time::Instant;

/// Outcome of an answered call.
const OK: &str = "ok";
const MICROUSD_PER_USD: f64 = 1e6;

/// A model call that has begun.
pub(super) struct ModelCall {
    model: String,
    began: Instant,
}

impl ModelCall {
    pub(super) fn begin(model: &str) -> Self {
        Self {
            model: labels::bounded("model", model),
            began: Instant::now(),
        }
    }

    /// Its answer begins.
    pub(super) fn first_chunk(&self) {
        metrics::histogram!("rejoin_model_first_chunk_seconds", "model" => self.model.clone())
            .record(self.began.elapsed().as_secs_f64());
    }

    /// It was answered. `cost_usd`: if the model's price is known.
    pub(super) fn answered(self, used: &Usage, cost_usd: Option<f64>) {
        metrics::histogram!("rejoin_model_call_seconds", "model" => self.model.clone())
            .record(self.began.elapsed().as_secs_f64());
        for (kind, tokens) in [
            ("input", used.input_tokens),
            ("output", used.output_tokens),
            ("cache_read", used.cached_tokens),
            ("cache_write", used.cache_write_tokens),
            ("reasoning", used.reasoning_tokens),
        ] {
            if tokens > 0 {
                metrics::counter!("rejoin_model_tokens_total", "model" => self.model.clone(), "kind" => kind)
                    .increment(tokens);
            }
        }
        if let Some(cost_usd) = cost_usd {
            metrics::counter!("rejoin_model_cost_microusd_total", "model" => self.model.clone())
                .increment((cost_usd * MICROUSD_PER_USD).round() as u64);
        }
        self.ended(OK);
    }

    /// It has failed, with this kind of error.
    pub(super) fn failed(self, kind: &str) {
        self.ended(kind);
    }

    fn ended(self, outcome: &str) {
        metrics::counter!("rejoin_model_calls_total", "model" => self.model, "outcome" => outcome.to_owned())
            .increment(1);
    }
}
