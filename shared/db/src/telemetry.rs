//! Logs of a process: human-readable or JSON lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::{EnvFilter, fmt};

/// The default log filter.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,genai=off";
/// The MCP library logs servers' messages verbatim, including secrets that a server repeats. Our own log of them is
/// redacted.
const QUIET: &str = "rmcp=warn";

/// The NATS client logs each attempt to connect. The bus logs an outage once.
const QUIET_NATS: &str = "async_nats=off";

/// OpenAI's last chunk of each turn contains its token counts and no choices (`choices: []`), as documented; the model
/// library warns about it. Real failures are errors of the run, which we log.
const QUIET_STREAMS: &str = "genai::adapter::adapters::openai::streamer=error";

/// The requested filter; these libraries are quiet unless named.
fn filter(wanted: Option<String>) -> EnvFilter {
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let wanted = wanted.unwrap_or_else(|| DEFAULT.to_owned());
    let quiet = [("rmcp", QUIET), ("async_nats", QUIET_NATS), ("genai", QUIET_STREAMS)]
        .map(|(name, quiet)| (!wanted.contains(name)).then_some(quiet));
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    quiet.into_iter().flatten().fold(filter, |filter, quiet| {
        filter.add_directive(quiet.parse().expect("a directive"))
    })
}

/// Installs the subscriber. Later calls have no effect (tests run many processes' code in one).
pub fn init(json: bool) {
    let builder = fmt()
        .with_env_filter(filter(std::env::var(EnvFilter::DEFAULT_ENV).ok()))
        .with_writer(std::io::stderr)
        .with_target(true);
    let _ = if json {
        builder.json().try_init()
    } else {
        builder.with_ansi(false).compact().try_init()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mcp_library_is_quiet_unless_it_is_named() {
        let filtered = |wanted: Option<&str>| filter(wanted.map(str::to_owned)).to_string();
        for wanted in [None, Some(""), Some("trace"), Some("no=such=filter")] {
            assert!(
                filtered(wanted).contains("rmcp=warn"),
                "{wanted:?}: {}",
                filtered(wanted)
            );
        }
        assert!(filtered(Some("info,rmcp=debug")).contains("rmcp=debug"));
    }

    #[test]
    fn the_nats_client_is_silent_unless_it_is_named() {
        let filtered = |wanted: Option<&str>| filter(wanted.map(str::to_owned)).to_string();
        assert!(filtered(None).contains(QUIET_NATS));
        assert!(!filtered(Some("info,async_nats=debug")).contains(QUIET_NATS));
    }

    #[test]
    fn a_turns_ordinary_last_chunk_is_no_warning() {
        let filtered = |wanted: Option<&str>| filter(wanted.map(str::to_owned)).to_string();
        assert!(
            filtered(Some("warn")).contains(QUIET_STREAMS),
            "as `rejoin dev` starts its children"
        );
        assert!(filtered(None).contains("genai=off"));
        assert!(!filtered(Some("warn,genai=debug")).contains(QUIET_STREAMS));
    }
}
