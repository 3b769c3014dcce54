//! Commands of the program that refuse to work.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::app::binary;
use crate::support::LIMIT;

/// The program with these words, on this database.
pub fn rejoin(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(words)
        .env("DATABASE_URL", url)
        .env("REJOIN_EMBEDDINGS", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the output of a process that refuses to work; None: it did not end within the limit.
async fn refusal(url: &str, words: &[&str]) -> Option<Output> {
    let mut child = rejoin(url, words).spawn().unwrap();
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if child.try_wait().unwrap().is_some() {
            return Some(child.wait_with_output().unwrap());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// A command fails, with these words.
pub async fn refuses(url: &str, command: &[&str], words: &[&str]) {
    let output = refusal(url, command)
        .await
        .unwrap_or_else(|| panic!("rejoin {command:?} works on"));
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    assert!(!output.status.success(), "{command:?}: {printed}");
    for word in words {
        assert!(
            printed.contains(word),
            "rejoin {command:?} says nothing of {word:?}: {printed}"
        );
    }
}
