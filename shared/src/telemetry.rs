//! Logs of a process: human-readable or JSON lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::{EnvFilter, fmt};

/// Installs the subscriber. Later calls change nothing (tests run many processes' worth in one).
pub fn init(json: bool) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn,hyper=warn,genai=off"));
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(true);
    let _ = if json {
        builder.json().try_init()
    } else {
        builder.with_ansi(false).compact().try_init()
    };
}
