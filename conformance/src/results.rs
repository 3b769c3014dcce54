//! Results as JSON: one file for each server and run of the suite. Written by `suite`; read by `report`.
//!
//! The format is described in the README of this folder. A field is added, never changed.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// The version of the format.
const FORMAT: u32 = 1;
const DAY_S: u64 = 86_400;

/// One run of the suite over one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    pub format: u32,
    /// The version of the suite.
    pub suite: String,
    /// The day, UTC.
    pub date: String,
    pub machine: String,
    /// The command that repeats it.
    pub command: String,
    pub target: About,
    pub seeds: Vec<u64>,
    #[serde(default)]
    pub fault: Option<String>,
    /// Whether the run has come to its end. Otherwise cases may be missing.
    #[serde(default)]
    pub is_complete: bool,
    pub runs: Vec<Run>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    pub name: String,
    pub title: String,
    pub homepage: String,
    pub versions: Vec<String>,
    pub configuration: Vec<String>,
}

impl About {
    /// The versions as text.
    pub fn stated_versions(&self) -> String {
        if self.versions.is_empty() {
            return "not stated".to_owned();
        }
        self.versions.join(", ")
    }
}

/// One case with one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub case: String,
    pub family: String,
    pub seed: u64,
    pub verdict: Verdict,
    pub details: Vec<String>,
    /// From the last fault until new words, in milliseconds.
    #[serde(default)]
    pub go_on_ms: Option<u64>,
    /// What was done.
    #[serde(default)]
    pub plan: Vec<String>,
    /// The smallest plan with the same verdict.
    #[serde(default)]
    pub shrunk: Option<Vec<String>>,
    /// The file of the transcript, beside this file.
    #[serde(default)]
    pub transcript: Option<String>,
    pub took_ms: u64,
}

impl Results {
    pub fn new(target: About, seeds: Vec<u64>, command: String, fault: Option<String>) -> Self {
        Self {
            format: FORMAT,
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            date: today(),
            machine: machine(),
            command,
            target,
            seeds,
            fault,
            is_complete: false,
            runs: Vec::new(),
        }
    }

    /// # Errors
    /// The file can't be read, or has another format.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        let results: Self =
            serde_json::from_str(&text).with_context(|| format!("{} has no results of this suite", path.display()))?;
        ensure!(
            results.format == FORMAT,
            "{} has the format {}, not {FORMAT}",
            path.display(),
            results.format
        );
        Ok(results)
    }

    /// # Errors
    /// The file can't be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
    }

    pub fn is_good(&self) -> bool {
        let is_fine = |run: &Run| run.verdict.is_good() || run.verdict == Verdict::Unsupported;
        self.runs.iter().all(is_fine)
    }
}

/// Cores and memory.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or_default();
    format!(
        "{cores} cores, {} GiB, {} {}",
        kib / 1024 / 1024,
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs() / DAY_S)
}

/// The date of a day since 1970-01-01, in the Gregorian calendar.
fn date_of(days: u64) -> String {
    // By eras of 400 years that begin on the first of March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_723, "2024-01-01"),
        ] {
            assert_eq!(date_of(days), date);
        }
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let about = About {
            name: "one".to_owned(),
            title: "One".to_owned(),
            homepage: String::new(),
            versions: vec!["one 1.0".to_owned()],
            configuration: Vec::new(),
        };
        let mut results = Results::new(about, vec![1, 2], "resume-suite run".to_owned(), None);
        results.runs.push(Run {
            case: "random".to_owned(),
            family: "random".to_owned(),
            seed: 1,
            verdict: Verdict::ExactByRules,
            details: Vec::new(),
            go_on_ms: Some(20),
            plan: vec!["cancel".to_owned()],
            shrunk: None,
            transcript: None,
            took_ms: 5,
        });
        let path = std::env::temp_dir().join(format!("resume-suite-results-{}.json", std::process::id()));
        results.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let read = Results::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, results);
        assert!(
            text.contains("\"verdict\": \"exact-by-rules\"") && text.contains("\"goOnMs\": 20"),
            "{text}"
        );
        assert!(read.is_good());
    }
}
