//! Exit codes, for scripts.
//!
//! `main` returns them; verbs return one, or an error whose cause decides. Invariant: the numbers never change, and
//! `rejoin --help` lists them.
use std::{fmt, process::ExitCode};

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: success.
    Done,
    /// 1: failed, with the reason on stderr.
    Failed,
    /// 2: wrong command line. Reported by clap.
    Usage,
    /// 3: the API or the database is unreachable. A retry may help.
    Unreachable,
    /// 4: not found, or not yours.
    NotFound,
    /// 5: the followed run failed.
    RunFailed,
    /// 6: the followed run was cancelled.
    RunCancelled,
    /// 7: no key, or an invalid one.
    NotAuthenticated,
    /// 8: the followed run is paused, and can be resumed.
    RunPaused,
    /// 130: interrupted by Ctrl-C, as shells report it. The followed run continues.
    Interrupted,
}

/// For `rejoin --help`.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  failed; stderr says why
  2  wrong command line
  3  the API or the database cannot be reached; retry later
  4  not found, or not yours
  5  the followed run failed
  6  the followed run was cancelled
  7  no API key, or one that is not valid
  8  the followed run is paused until it is resumed
  130  ended by Ctrl-C; the followed run continues";

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::NotFound => 4,
            Exit::RunFailed => 5,
            Exit::RunCancelled => 6,
            Exit::NotAuthenticated => 7,
            Exit::RunPaused => 8,
            Exit::Interrupted => 130,
        }
    }

    /// Returns whether a retry may succeed: nothing was reached, or the database is starting, stopping or full.
    pub fn may_pass(error: &anyhow::Error) -> bool {
        Self::of(error) == Self::Unreachable
            || error
                .chain()
                .filter_map(|cause| cause.downcast_ref::<sqlx::Error>())
                .any(rejoin_db::is_transient)
    }

    /// Returns the exit code of an error: its most specific cause decides.
    pub fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return failure.exit;
            }
            if let Some(error) = cause.downcast_ref::<sqlx::Error>()
                && matches!(
                    error,
                    sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut
                )
            {
                return Exit::Unreachable;
            }
            if let Some(error) = cause.downcast_ref::<reqwest::Error>()
                && (error.is_connect() || error.is_timeout())
            {
                return Exit::Unreachable;
            }
        }
        Exit::Failed
    }

    /// Returns an error with this exit code: `return Err(Exit::NotFound.because("no such run").into())`.
    pub fn because(self, message: impl Into<String>) -> Failure {
        Failure {
            exit: self,
            message: message.into(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// An error with its exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_decides_its_exit_code_through_all_its_contexts() {
        let not_found = Err::<(), _>(Exit::NotFound.because("no run with this id"))
            .context("can't show the run")
            .unwrap_err();
        assert_eq!(Exit::of(&not_found), Exit::NotFound);
        assert_eq!(format!("{not_found:#}"), "can't show the run: no run with this id");
        let refused = anyhow::Error::from(sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(Exit::of(&refused.context("can't connect")), Exit::Unreachable);
        assert_eq!(Exit::of(&anyhow::anyhow!("anything else")), Exit::Failed);
    }

    #[test]
    fn the_help_lists_every_code() {
        let all = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Unreachable,
            Exit::NotFound,
            Exit::RunFailed,
            Exit::RunCancelled,
            Exit::NotAuthenticated,
            Exit::RunPaused,
            Exit::Interrupted,
        ];
        for exit in all {
            assert!(HELP.contains(&format!("\n  {}  ", exit.code())), "{exit:?}");
        }
    }
}
