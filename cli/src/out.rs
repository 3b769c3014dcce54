//! Output: data to stdout, everything else to stderr. Every verb gets an [`Out`].
//!
//! Invariant: with `--json`, stdout holds nothing but JSON, one value per line.
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;

#[derive(Debug, Clone, Copy)]
pub struct Out {
    json: bool,
    terminal: bool,
}

impl Out {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Returns whether a program reads our stdout.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Returns whether a user reads our stdout: colours and progress bars are allowed.
    pub fn is_terminal(self) -> bool {
        self.terminal && !self.json
    }

    /// Prints a line for users.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn line(self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Prints a part of a line immediately.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn piece(self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Prints a value for programs, on one line.
    ///
    /// # Errors
    /// stdout is closed, or the value has no JSON form.
    pub fn json(self, value: &impl Serialize) -> Result<()> {
        self.line(&serde_json::to_string(value)?)
    }

    /// Prints a value for programs or, for users, its text from `words`.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn either(self, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<()> {
        if self.json {
            self.json(value)
        } else {
            self.line(&words())
        }
    }

    /// Prints progress or advice for users.
    pub fn note(self, text: &str) {
        // A closed stderr is no failure.
        let _closed = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints columns, as wide as their widest cell.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn table<const N: usize>(self, head: [&str; N], rows: &[[String; N]]) -> Result<()> {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let line = |cells: [&str; N]| {
            let padded: Vec<String> = cells
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            padded.join("  ").trim_end().to_owned()
        };
        self.line(&line(head))?;
        for row in rows {
            self.line(&line(std::array::from_fn(|column| row[column].as_str())))?;
        }
        Ok(())
    }
}
