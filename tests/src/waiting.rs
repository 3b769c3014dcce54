//! Waiting for conditions.

use std::time::{Duration, Instant};

/// Timeout of any condition that a test waits for.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Polls until `condition` returns something; panics with `what` after [`LIMIT`].
pub async fn wait_for<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(
            began.elapsed() < LIMIT,
            "waited {} s in vain for: {what}",
            LIMIT.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
