//! Logs a repeated failure once with its causes, and its recovery once.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Maximum number of causes printed for one error.
const MAX_CAUSES: usize = 10;

/// An error with all its causes: `a statement failed: db error: FATAL: the database system is starting up`.
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'a));

impl Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut written = self.0.to_string();
        f.write_str(&written)?;
        let mut cause = self.0.source();
        for _ in 0..MAX_CAUSES {
            let Some(error) = cause else { break };
            let text = error.to_string();
            // Many errors print their cause themselves.
            if !written.contains(&text) {
                write!(f, ": {text}")?;
                written = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

/// Repeated work, and what was logged about its failures.
pub struct FailureLog {
    what: &'static str,
    since: Option<Instant>,
}

impl FailureLog {
    /// `what` begins the log lines: "claiming".
    pub const fn of(what: &'static str) -> Self {
        Self { what, since: None }
    }

    /// Records a failure. Only the first consecutive one is a warning.
    pub fn failed(&mut self, cause: impl Display) {
        let what = self.what;
        if self.since.is_some() {
            debug!(error = %cause, "{what} failed again");
            return;
        }
        self.since = Some(Instant::now());
        warn!(error = %cause, "{what} failed; retrying until it succeeds");
    }

    /// Records a success.
    pub fn over(&mut self) {
        if let Some(since) = self.since.take() {
            let what = self.what;
            info!(after_s = since.elapsed().as_secs_f64(), "{what} works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        source: Option<Box<Failed>>,
    }

    fn failed(text: &'static str, source: Option<Failed>) -> Failed {
        let source = source.map(Box::new);
        Failed { text, source }
    }

    #[test]
    fn an_error_is_printed_with_its_causes_and_none_of_them_twice() {
        let root = failed("connection refused", None);
        let middle = failed("connecting failed: connection refused", Some(root));
        let error = failed("a statement failed", Some(middle));
        assert_eq!(
            ErrorChain(&error).to_string(),
            "a statement failed: connecting failed: connection refused"
        );
    }
}
