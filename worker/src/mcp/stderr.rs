//! What the process of an MCP server writes to its standard error goes to our log, line by line: so many a minute, and the count of the others.
//!
//! Invariant: all of it is read, whatever is logged, so that no process waits for us.

use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tracing::{info, warn};

use super::secrets::Hider;

/// Of one line; a longer one is told in pieces [bytes].
const LINE_BYTES: u64 = 2_000;
/// Lines of a process in a window. A server that tells of each request stays below; a loop of errors does not fill a disk.
const LINES: usize = 200;
const WINDOW: Duration = Duration::from_secs(60);

/// How many lines are still told, and how many were not.
struct Allowance {
    since: Instant,
    told: usize,
    left_out: usize,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            told: 0,
            left_out: 0,
        }
    }

    /// Whether a line is told, and how many were left out in the window that has ended with it.
    fn admit(&mut self, now: Instant) -> (bool, Option<usize>) {
        let mut ended = None;
        if now.duration_since(self.since) >= WINDOW {
            ended = Some(self.left_out).filter(|lines| *lines > 0);
            *self = Self::new(now);
        }
        let tells = self.told < LINES;
        match tells {
            true => self.told += 1,
            false => self.left_out += 1,
        }
        (tells, ended)
    }
}

/// Reads until the process closes it.
pub(super) async fn tell(stderr: impl AsyncRead + Unpin, server: String, hider: Hider) {
    let mut lines = BufReader::new(stderr);
    let mut allowance = Allowance::new(Instant::now());
    let left_out = |lines: usize| {
        warn!(
            server,
            lines, "an MCP server's process says more than {LINES} lines a minute; the rest is left out"
        );
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let (tells, ended) = allowance.admit(Instant::now());
        if let Some(lines) = ended {
            left_out(lines);
        }
        if tells {
            let said = hider.text(String::from_utf8_lossy(&line).trim_end().to_owned());
            info!(server, said, "an MCP server's process says");
        }
    }
    if allowance.left_out > 0 {
        left_out(allowance.left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_minute_are_told_and_the_others_counted() {
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
        assert_eq!(
            allowance.admit(begin + 2 * WINDOW),
            (true, None),
            "nothing was left out"
        );
    }
}
