//! The models of a run: the definition's own, then its fallbacks.
//!
//! The worker calls the current model, and the next one if it can't answer now: it is overloaded, rate-limits us,
//! its account is exhausted, or it fails before its first word. A run that has changed models stays with the new one;
//! otherwise every step would wait for the old one.

use std::sync::Arc;

use rejoin_models::Price;

use crate::registry::Resolved;
use crate::retry::RetryPolicy;
use crate::{ModelError, Provider};

/// Maximum number of calls of a model with a remaining fallback.
const ATTEMPTS_BEFORE_FALLBACK: usize = 2;
/// Errors after which another model may answer.
const PASSES: [&str; 4] = [
    "model_overloaded",
    "model_rate_limited",
    "model_quota_exhausted",
    "model_unavailable",
];

/// A model that may answer, and its price.
#[derive(Clone)]
pub struct Candidate {
    /// The model.
    pub model: Resolved,
    /// None: the price is unknown.
    pub price: Option<Price>,
}

/// The current model of a run, and the fallbacks that remain.
#[derive(Clone)]
pub struct Candidates {
    first: Candidate,
    /// Remaining fallbacks, the next one last.
    left: Vec<Candidate>,
}

/// A change to another model.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The model that failed, `provider:model`.
    pub from: String,
    /// The model that takes over.
    pub to: String,
}

impl Candidates {
    /// Keeps each name once, in this order.
    pub fn new(first: Candidate, fallbacks: impl IntoIterator<Item = Candidate>) -> Self {
        let mut left: Vec<Candidate> = Vec::new();
        for candidate in fallbacks {
            let is_new = |other: &Candidate| other.model.name != candidate.model.name;
            if is_new(&first) && left.iter().all(is_new) {
                left.push(candidate);
            }
        }
        left.reverse();
        Self { first, left }
    }

    /// Returns `provider:model` of the current one.
    pub fn name(&self) -> &str {
        &self.first.model.name
    }

    /// Returns the price of the current one.
    pub fn price(&self) -> Option<Price> {
        self.first.price
    }

    /// Returns the provider of the current one.
    pub fn current(&self) -> Arc<dyn Provider> {
        self.first.model.provider.clone()
    }

    /// Returns the retry policy: shorter if there is a fallback.
    pub fn policy(&self, usual: &RetryPolicy) -> RetryPolicy {
        RetryPolicy {
            max_attempts: if self.left.is_empty() {
                usual.max_attempts
            } else {
                usual.max_attempts.min(ATTEMPTS_BEFORE_FALLBACK)
            },
            ..usual.clone()
        }
    }

    /// Switches to the next model, if there is one and the error allows it.
    pub fn fall_back(&mut self, error: &ModelError) -> Option<Change> {
        if !PASSES.contains(&error.code) {
            return None;
        }
        let next = self.left.pop()?;
        let change = Change {
            from: std::mem::replace(&mut self.first, next).model.name,
            to: self.first.model.name.clone(),
        };
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelRequest, ModelStream};

    struct NeverAsked;

    #[async_trait::async_trait]
    impl Provider for NeverAsked {
        async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
            Err(error("model_unavailable"))
        }
    }

    fn error(code: &'static str) -> ModelError {
        ModelError {
            code,
            message: String::new(),
            retryable: true,
            retry_after: None,
        }
    }

    fn candidate(name: &str) -> Candidate {
        Candidate {
            model: Resolved {
                name: name.to_owned(),
                provider: Arc::new(NeverAsked),
                replaced: None,
            },
            price: None,
        }
    }

    #[test]
    fn they_are_asked_in_their_order_each_once() {
        let mut models = Candidates::new(candidate("a"), ["b", "a", "c", "b"].map(candidate));
        let usual = RetryPolicy::default();
        assert_eq!(models.policy(&usual).max_attempts, ATTEMPTS_BEFORE_FALLBACK);
        let change = |from: &str, to: &str| {
            Some(Change {
                from: from.to_owned(),
                to: to.to_owned(),
            })
        };
        assert_eq!(models.fall_back(&error("model_overloaded")), change("a", "b"));
        assert_eq!(models.fall_back(&error("model_rate_limited")), change("b", "c"));
        assert_eq!(models.policy(&usual).max_attempts, usual.max_attempts);
        assert_eq!(models.fall_back(&error("model_unavailable")), None);
    }

    #[test]
    fn what_another_model_would_refuse_as_well_is_an_error() {
        let mut models = Candidates::new(candidate("a"), [candidate("b")]);
        for code in [
            "model_refused",
            "model_context_overflow",
            "model_rejected",
            "model_key_rejected",
        ] {
            assert_eq!(models.fall_back(&error(code)), None, "{code}");
        }
    }
}
