//! Retries a model call that failed before its first chunk.
//!
//! The executor calls [`stream_with_retry`] for each step. A call is retried only while nothing was received: after the
//! first chunk a reader may have seen it, so errors pass through and the executor decides.

use std::time::Duration;

use backoff::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;

use crate::{ModelError, ModelRequest, ModelStream, Provider};

/// The number of attempts and the delays between them.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub max_attempts: usize,
    /// Delay before the first retry; doubled with each one.
    pub min_delay: Duration,
    /// Maximum delay before a retry, unless the provider asks for more.
    pub max_delay: Duration,
    /// Maximum `Retry-After` that is honoured.
    pub retry_after_cap: Duration,
    /// Spreads the retries of many runs; disabled in tests.
    pub jitter: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(20),
            retry_after_cap: Duration::from_secs(60),
            jitter: true,
        }
    }
}

impl RetryPolicy {
    /// Returns the delays between the attempts: one fewer than attempts.
    fn delays(&self) -> impl Iterator<Item = Duration> + Send {
        let builder = ExponentialBuilder::new()
            .with_min_delay(self.min_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(self.max_attempts.saturating_sub(1));
        if self.jitter { builder.with_jitter() } else { builder }.build()
    }
}

/// An imminent retry.
#[derive(Debug, Clone)]
pub struct Retry {
    /// The failed attempt, from 1.
    pub attempt: usize,
    /// Why it failed.
    pub error: ModelError,
    /// Delay until the next attempt.
    pub delay: Duration,
}

/// Starts a call and waits for its first chunk, retrying it by `policy`; `on_retry` is called before each delay.
/// Dropping the future stops everything.
pub async fn stream_with_retry(
    provider: &dyn Provider,
    request: ModelRequest,
    policy: &RetryPolicy,
    mut on_retry: impl FnMut(&Retry) + Send,
) -> Result<ModelStream, ModelError> {
    let mut delays = policy.delays();
    let mut attempt = 1;
    loop {
        let error = match first_chunk(provider, request.clone()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        if !error.retryable {
            return Err(error);
        }
        let Some(backoff) = delays.next() else {
            return Err(error);
        };
        let wished = error.retry_after.unwrap_or_default().min(policy.retry_after_cap);
        let retry = Retry {
            attempt,
            error,
            delay: backoff.max(wished),
        };
        on_retry(&retry);
        tokio::time::sleep(retry.delay).await;
        attempt += 1;
    }
}

async fn first_chunk(provider: &dyn Provider, request: ModelRequest) -> Result<ModelStream, ModelError> {
    let mut stream = provider.stream(request).await?;
    match stream.next().await {
        Some(Ok(first)) => Ok(futures::stream::iter([Ok(first)]).chain(stream).boxed()),
        Some(Err(error)) => Err(error),
        None => Err(ModelError {
            code: "model_stream_cut",
            message: "the model's response ended before its first content".to_owned(),
            retryable: true,
            retry_after: None,
        }),
    }
}
