//! Logs of a process: human-readable or JSON lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::{EnvFilter, fmt};

/// What is logged where nobody says.
const DEFAULT: &str = "info,sqlx=warn,hyper=warn,genai=off";
/// The MCP library logs what servers say, word for word, and with it secrets that a server repeats. Our own log of it has none.
const QUIET: &str = "rmcp=warn";

/// OpenAI's last chunk of each turn tells its tokens and has no choices (`choices: []`), as documented; the model library warns of it.
/// What fails there is an error of the run, and told by us.
const QUIET_STREAMS: &str = "genai::adapter::adapters::openai::streamer=error";

/// The wanted filter; these libraries are quiet unless they are named.
fn filter(wanted: Option<String>) -> EnvFilter {
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let wanted = wanted.unwrap_or_else(|| DEFAULT.to_owned());
    let quiet =
        [("rmcp", QUIET), ("genai", QUIET_STREAMS)].map(|(name, quiet)| (!wanted.contains(name)).then_some(quiet));
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    quiet.into_iter().flatten().fold(filter, |filter, quiet| {
        filter.add_directive(quiet.parse().expect("a directive"))
    })
}

/// Installs the subscriber. Later calls change nothing (tests run many processes' worth in one).
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
        let said = |wanted: Option<&str>| filter(wanted.map(str::to_owned)).to_string();
        for wanted in [None, Some(""), Some("trace"), Some("no=such=filter")] {
            assert!(said(wanted).contains("rmcp=warn"), "{wanted:?}: {}", said(wanted));
        }
        assert!(said(Some("info,rmcp=debug")).contains("rmcp=debug"));
    }

    #[test]
    fn a_turns_ordinary_last_chunk_is_no_warning() {
        let said = |wanted: Option<&str>| filter(wanted.map(str::to_owned)).to_string();
        assert!(
            said(Some("warn")).contains(QUIET_STREAMS),
            "as `rejoin dev` starts its children"
        );
        assert!(said(None).contains("genai=off"));
        assert!(!said(Some("warn,genai=debug")).contains(QUIET_STREAMS));
    }
}
