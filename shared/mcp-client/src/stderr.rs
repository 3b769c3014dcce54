//! Logs the standard error of an MCP server's process, line by line, up to a limit per minute, with the count of
//! omitted lines.
//!
//! Invariant: everything is read, whatever is logged, so that the process never blocks on us.

use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tracing::{info, warn};

use crate::redact::Redactor;

/// Maximum length of a line, in bytes; longer ones are logged in parts.
const LINE_BYTES: u64 = 2_000;
/// Maximum number of a process's lines per window: enough for a server that logs each request, too few for a loop of
/// errors to fill a disk.
const LINES: usize = 200;
const WINDOW: Duration = Duration::from_secs(60);

/// The numbers of logged and omitted lines of this window.
struct Allowance {
    since: Instant,
    logged: usize,
    dropped: usize,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            logged: 0,
            dropped: 0,
        }
    }

    /// Returns whether to log a line, and how many were omitted in the window that it ended.
    fn admit(&mut self, now: Instant) -> (bool, Option<usize>) {
        let mut ended = None;
        if now.duration_since(self.since) >= WINDOW {
            ended = Some(self.dropped).filter(|lines| *lines > 0);
            *self = Self::new(now);
        }
        let logs = self.logged < LINES;
        if logs {
            self.logged += 1;
        } else {
            self.dropped += 1;
        }
        (logs, ended)
    }
}

/// Reads until the process closes it.
pub(crate) async fn log_lines(stderr: impl AsyncRead + Unpin, server: String, redactor: Redactor) {
    let mut lines = BufReader::new(stderr);
    let mut allowance = Allowance::new(Instant::now());
    let warn_dropped = |lines: usize| {
        warn!(
            server,
            lines, "an MCP server's process writes more than {LINES} lines a minute; the rest is dropped"
        );
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let (logs, ended) = allowance.admit(Instant::now());
        if let Some(lines) = ended {
            warn_dropped(lines);
        }
        if logs {
            let line = redactor.text(String::from_utf8_lossy(&line).trim_end().to_owned());
            info!(server, line, "stderr of an MCP server's process");
        }
    }
    if allowance.dropped > 0 {
        warn_dropped(allowance.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_minute_are_logged_and_the_others_counted() {
        let begin = Instant::now();
        let mut allowance = Allowance::new(begin);
        for _ in 0..LINES {
            assert_eq!(allowance.admit(begin), (true, None));
        }
        for _ in 0..7 {
            assert_eq!(allowance.admit(begin + WINDOW / 2), (false, None));
        }
        assert_eq!(allowance.admit(begin + WINDOW), (true, Some(7)), "the next minute");
        assert_eq!(allowance.admit(begin + WINDOW), (true, None));
        assert_eq!(allowance.admit(begin + 2 * WINDOW), (true, None), "nothing was dropped");
    }
}
