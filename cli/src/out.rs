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

    /// Machines read our stdout.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// A person reads our stdout: colours and progress bars are welcome.
    pub fn is_terminal(self) -> bool {
        self.terminal && !self.json
    }

    /// A line of data for a person.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn line(self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// A piece of a line, shown at once.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn piece(self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// A value for a machine, on a line of its own.
    ///
    /// # Errors
    /// stdout is closed, or the value has no JSON form.
    pub fn json(self, value: &impl Serialize) -> Result<()> {
        self.line(&serde_json::to_string(value)?)
    }

    /// A value for a machine; for a person, what `words` makes of it.
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

    /// Progress, advice: for the person beside the machine.
    pub fn note(self, text: &str) {
        // Nobody there to read it is no failure.
        let _closed = writeln!(io::stderr().lock(), "{text}");
    }

    /// Columns of text, as wide as their widest cell.
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
