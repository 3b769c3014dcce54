//! Evidence of a run outside the database, as JSON lines in one directory: clients' responses (`posts`), readers'
//! events (`readers`), tools' effects (`ledger`), results of programs and of their steps
//! (`results`, `steps`), and injected faults with times (`faults`).
//!
//! Written during the run; the checker reads nothing but these and the database.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Microseconds since 1970, by this machine's clock (and the database's, if it is local).
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A client's message, and the response.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Post {
    /// Which load it belongs to.
    pub load: String,
    pub user: usize,
    /// Its Idempotency-Key.
    pub key: String,
    pub plan: String,
    pub expected: Expected,
    /// None: never acknowledged.
    pub told: Option<Response>,
    /// Different responses to the same key: there must be none.
    pub contradictions: Vec<Response>,
    pub tries: u32,
    /// When the cancellation of its run was confirmed.
    pub cancelled_at_us: Option<i64>,
}

/// The expected final state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    /// The whole reply.
    Whole,
    /// The reply, or a prefix of it if stopped.
    Stopped,
    /// Nothing: it was refused.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub status: u16,
    pub code: Option<String>,
    pub run_id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
}

/// One connection of a reader, from its request to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    pub reader: String,
    pub user: usize,
    /// The followed log: a conversation's or a run's.
    pub target: Target,
    pub after: Option<i64>,
    pub from_snapshot: bool,
    pub api: usize,
    pub status: u16,
    pub opened_us: i64,
    pub heard: Vec<Heard>,
    /// The snapshot's number, and the text of the active turn.
    pub snapshot: Option<Snapshot>,
    /// The reader was notified that the log was taken back, or is gone: it discards what it has.
    #[serde(default)]
    pub taken_back: bool,
    /// It pauses between pieces.
    pub slow: bool,
    /// Its last connection, which stayed to the end.
    pub faithful_end: bool,
}

impl Session {
    /// Returns whether the reader reads without delay.
    pub fn is_prompt(&self) -> bool {
        !self.slow
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    Conversation(Uuid),
    Run(Uuid),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Heard {
    pub seq: i64,
    pub data: String,
    pub at_us: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    pub through: i64,
    pub text: Option<String>,
}

/// An injected fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Injected {
    pub fault: String,
    /// Its numbers in the table of faults.
    pub number: String,
    pub from_us: i64,
    pub until_us: i64,
    pub detail: String,
    /// The worker that died or stopped, if any.
    pub worker: Option<Uuid>,
    /// The only project that it concerns; None: all.
    #[serde(default)]
    pub workspace_id: Option<Uuid>,
}

/// A result of a user's program: written before it is sent, and again when the API has accepted it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SentResult {
    pub run_id: Uuid,
    pub call_id: String,
    pub attempt: i64,
    pub is_accepted: bool,
}

/// A result of a durable function's step that the API has recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedStep {
    pub run_id: Uuid,
    pub call_id: String,
    pub number: i64,
    pub output: Value,
}

/// Further observations of the runner.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Notes {
    pub lease_ms: u64,
    /// Whether commits that were acknowledged may be gone after a fault.
    #[serde(default)]
    pub may_lose_commits: bool,
    /// Time from the end of the last fault until nothing was pending; None: something was.
    pub rest_after_ms: Option<u64>,
    pub left_open: i64,
    /// Peak memory of processes, in bytes, by name, and the limit.
    pub memory_bytes: Vec<(String, u64)>,
    pub memory_bound_bytes: u64,
    /// What a strict model provider would have rejected.
    pub model_refusals: Vec<String>,
    /// Processes that ended by themselves, and panics in their output.
    pub ended: Vec<String>,
}

/// The evidence directory.
pub struct Evidence {
    pub directory: PathBuf,
    posts: Lines,
    readers: Lines,
    results: Lines,
    steps: Lines,
    faults: Lines,
    notes: Lines,
}

type Lines = Mutex<BufWriter<File>>;

impl Evidence {
    /// Creates the directory if missing.
    pub fn create(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("can't make {}", directory.display()))?;
        let lines = |name: &str| -> Result<Lines> {
            let path = directory.join(name);
            let file = File::create(&path).with_context(|| format!("can't write {}", path.display()))?;
            Ok(Mutex::new(BufWriter::new(file)))
        };
        Ok(Self {
            posts: lines("posts")?,
            readers: lines("readers")?,
            results: lines("results")?,
            steps: lines("steps")?,
            faults: lines("faults")?,
            notes: lines("notes")?,
            directory: directory.to_owned(),
        })
    }

    pub fn ledger(&self) -> PathBuf {
        self.directory.join("ledger")
    }

    /// The ledger of the MCP server.
    pub fn outside(&self) -> PathBuf {
        self.directory.join("outside")
    }

    pub fn post(&self, post: &Post) {
        write(&self.posts, post);
    }

    pub fn session(&self, session: &Session) {
        write(&self.readers, session);
    }

    pub fn result(&self, result: &SentResult) {
        write(&self.results, result);
    }

    pub fn step(&self, step: &RecordedStep) {
        write(&self.steps, step);
    }

    pub fn fault(&self, fault: &Injected) {
        write(&self.faults, fault);
    }

    /// Writes the runner's observations, once, at the end.
    pub fn notes(&self, notes: &Notes) {
        write(&self.notes, notes);
    }

    /// Flushes all files.
    pub fn flush(&self) -> Result<()> {
        for lines in [
            &self.posts,
            &self.readers,
            &self.results,
            &self.steps,
            &self.faults,
            &self.notes,
        ] {
            lines.lock().expect("no panic while it is held").flush()?;
        }
        Ok(())
    }
}

fn write(lines: &Lines, value: &impl Serialize) {
    let line = serde_json::to_string(value).expect("evidence is plain data");
    let mut lines = lines.lock().expect("no panic while it is held");
    writeln!(lines, "{line}").expect("the evidence can be written");
}

/// Reads an evidence file; empty if missing.
pub fn read<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<Vec<T>> {
    let path = directory.join(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = File::open(&path).with_context(|| format!("can't read {}", path.display()))?;
    BufReader::new(file)
        .lines()
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_str(&line?).with_context(|| format!("{}, line {}", path.display(), number + 1))
        })
        .collect()
}
