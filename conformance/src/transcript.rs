//! What happened in a case, as lines with the time: the evidence beside each verdict. Written by all that act; saved by `suite`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Maximum number of lines, and of characters of a line.
const MAX_LINES: usize = 20_000;
const MAX_CHARS: usize = 400;

/// The lines of a case.
pub struct Transcript {
    began: Instant,
    lines: Mutex<Vec<String>>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            lines: Mutex::default(),
        }
    }
}

impl Transcript {
    /// Adds a line.
    pub fn note(&self, line: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LINES {
            let line: String = line.chars().take(MAX_CHARS).collect();
            lines.push(format!("{:>8.3} {line}", self.began.elapsed().as_secs_f64()));
        }
    }

    /// Milliseconds since the beginning.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes the lines to a file.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines.join("\n") + "\n";
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
    }
}
