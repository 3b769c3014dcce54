//! Generates a graph of any size as lines of an import. Deterministic by size.

use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::Result;
use tokio::io::{AsyncBufRead, AsyncWriteExt as _, BufReader};

use crate::scenarios::search::PACKAGES;

/// Types of objects, with their cumulative share in ‰.
const TYPES: [(&str, u64); 8] = [
    ("Note", 500),
    ("Person", 700),
    ("Document", 850),
    ("Task", 930),
    ("Project", 970),
    ("Company", 990),
    ("Topic", 999),
    ("Milestone", 1_000),
];
const RELATIONSHIPS: [&str; 6] = [
    "MENTIONS",
    "RELATES_TO",
    "PART_OF",
    "WRITTEN_BY",
    "DEPENDS_ON",
    "ASSIGNED_TO",
];
const LABELS: [&str; 6] = ["draft", "done", "urgent", "archived", "internal", "public"];
const STATES: [&str; 3] = ["open", "active", "closed"];
/// Relationships per object.
const EDGES_EACH: usize = 3;
/// Skew of ends: an end is the object at this power of a uniform number between 0 and 1.
const SKEW: i32 = 2;
/// Size of the pipe between generator and import.
const PIPE_BYTES: usize = 1024 * 1024;

/// A deterministic random number generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// All words of the demonstration graph's summaries, with their frequency.
pub fn words() -> Result<Vec<String>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(PACKAGES).read_to_string(&mut text)?;
    let mut words = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        let summary = line["properties"]["summary"].as_str().unwrap_or_default();
        words.extend(
            summary
                .split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| word.len() > 1)
                .map(str::to_lowercase),
        );
    }
    Ok(words)
}

/// The lines of a graph with this many objects.
pub fn source(objects: usize) -> Result<impl AsyncBufRead + Send + Unpin> {
    let words = words()?;
    let (reader, mut writer) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move {
        let mut dice = Dice::new(7);
        let mut chunk = String::new();
        for number in 0..objects {
            object(&mut chunk, number, &words, &mut dice);
            if chunk.len() > PIPE_BYTES / 4 && writer.write_all(std::mem::take(&mut chunk).as_bytes()).await.is_err() {
                return;
            }
        }
        for _ in 0..objects * EDGES_EACH {
            relationship(&mut chunk, objects, &mut dice);
            if chunk.len() > PIPE_BYTES / 4 && writer.write_all(std::mem::take(&mut chunk).as_bytes()).await.is_err() {
                return;
            }
        }
        // The reader may have stopped: it reports why.
        let _ = writer.write_all(chunk.as_bytes()).await;
    });
    Ok(BufReader::with_capacity(PIPE_BYTES, reader))
}

/// Derived from the number alone, so that a relationship can name its ends' types.
fn type_of(number: usize) -> &'static str {
    let permille = Dice::new(number as u64).next() % 1_000;
    TYPES
        .iter()
        .find(|(_, up_to)| permille < *up_to)
        .map_or("Note", |(name, _)| name)
}

fn object(out: &mut String, number: usize, words: &[String], dice: &mut Dice) {
    let some = |count: usize, dice: &mut Dice| -> String {
        let drawn: Vec<&str> = (0..count).map(|_| words[dice.below(words.len())].as_str()).collect();
        drawn.join(" ")
    };
    let length = 2 + dice.below(2);
    let name = some(length, dice);
    let length = 8 + dice.below(12);
    let text = some(length, dice);
    // Writing to a String can't fail.
    let _ = writeln!(
        out,
        r#"{{"kind":"object","type":"{}","key":"k{number}","name":"{name} {number}","status":"{}","labels":["{}"],"properties":{{"text":"{text}","size":{},"code":"c-{}"}}}}"#,
        type_of(number),
        STATES[dice.below(STATES.len())],
        LABELS[dice.below(LABELS.len())],
        dice.below(100_000),
        dice.below(1_000),
    );
}

fn relationship(out: &mut String, objects: usize, dice: &mut Dice) {
    let end = |dice: &mut Dice, skew: i32| {
        let place = (dice.share().powi(skew) * objects as f64) as usize;
        // Spread over the numbers, and so over the types.
        (place.wrapping_mul(7_919)) % objects
    };
    // Few objects are the source of many relationships, fewer are the target of very many.
    let (source, target) = (end(dice, SKEW), end(dice, SKEW + 1));
    let _ = writeln!(
        out,
        r#"{{"kind":"relationship","type":"{}","source":{{"type":"{}","key":"k{source}"}},"target":{{"type":"{}","key":"k{target}"}},"properties":{{"since":{}}}}}"#,
        RELATIONSHIPS[dice.below(RELATIONSHIPS.len())],
        type_of(source),
        type_of(target),
        1990 + dice.below(36),
    );
}
