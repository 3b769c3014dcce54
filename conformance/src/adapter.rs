//! An adapter: one TOML file that describes how a server is started, asked and read. Called by `target`, `view` and `report`.
//!
//! Texts may contain `{{name}}` (`template`). The README of this folder explains each field; unknown fields are errors.
//!
//! - `requests`  how a turn is asked for and read

mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use toml::{Table, Value};

pub use self::requests::{Call, Requests, Stored};
use crate::stream_rules::StreamRules;
use crate::template::{Values, expand};

/// The file in an adapter's folder.
pub const FILE: &str = "adapter.toml";

/// Parts that an adapter adds to those of the adapter that it extends.
const FURTHER_PARTS: &str = "further_parts";
/// Tables of an adapter that are merged with those of the adapter that it extends; others replace them.
const MERGED: [&str; 5] = ["variables", "unsupported", "limits", "promises", "faults"];

/// A server under test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    pub name: String,
    pub title: String,
    /// The page that recommends this configuration.
    #[serde(default)]
    pub homepage: String,
    /// The configuration, as sentences of the report.
    #[serde(default)]
    pub configuration: Vec<String>,
    /// Why this adapter has no result yet. Absent: it was run.
    #[serde(default)]
    pub never_run: Option<String>,
    /// Installs the server; may be repeated.
    #[serde(default)]
    pub install: Vec<String>,
    /// Prints the versions, one a line.
    #[serde(default)]
    pub version: Vec<String>,
    /// Names of ports: `{{port.NAME}}`.
    #[serde(default)]
    pub ports: Vec<String>,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Connections between parts that can be disturbed.
    #[serde(default)]
    pub proxies: Vec<Proxy>,
    /// In the order in which they are started.
    pub parts: Vec<Part>,
    /// Requests after the start, once.
    #[serde(default)]
    pub prepare: Vec<Call>,
    pub requests: Requests,
    pub stream: StreamRules,
    /// Whether its agent has the tool.
    #[serde(default = "yes")]
    pub tools: bool,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub promises: Promises,
    /// Cases and families that the server can't be asked for, with the reason.
    #[serde(default)]
    pub unsupported: BTreeMap<String, String>,
    /// Builds that break a promise, by name.
    #[serde(default)]
    pub faults: BTreeMap<String, Fault>,
    /// The variable that selects such a build.
    #[serde(default)]
    pub fault_variable: Option<String>,
    /// Makes all streams `{{age_s}}` seconds older.
    #[serde(default)]
    pub age: Vec<String>,
    /// How a standby takes over from the database.
    #[serde(default)]
    pub fail_over: Option<FailOver>,
    /// How its agent lets another one work.
    #[serde(default)]
    pub delegation: Option<Delegation>,
    /// The folder of the file.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A process of the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub role: Role,
    pub command: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default)]
    pub directory: Option<String>,
    /// A URL that answers with a status below 400 once the part is ready.
    #[serde(default)]
    pub ready: Option<String>,
    /// A command that succeeds once the part is ready.
    #[serde(default)]
    pub ready_command: Vec<String>,
    /// Commands before the first start.
    #[serde(default)]
    pub before: Vec<Step>,
}

/// What a part is to the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Serves streams, and does not execute turns.
    Server,
    /// Executes turns.
    Worker,
    /// Serves and executes, in one process.
    Both,
    /// A worker that is started only while the others are paused.
    Spare,
    /// Keeps the state.
    Database,
    /// A copy of the database, which is started only for cases in which it takes over.
    Standby,
    /// Is never disturbed.
    Other,
}

impl Role {
    pub fn serves(self) -> bool {
        matches!(self, Self::Server | Self::Both)
    }

    pub fn executes(self) -> bool {
        matches!(self, Self::Worker | Self::Both)
    }
}

/// How a standby takes over, once the parts with the role `database` are killed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailOver {
    /// In the place of those of the adapter, for a server that has a standby.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Promotes the standby.
    pub command: Vec<String>,
}

/// A tool of the server by which its agent lets another agent work, and gets its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    pub tool: String,
    /// As JSON; `{{message}}` is what the other agent is asked.
    pub arguments: String,
}

impl Delegation {
    /// The arguments that pass this message on.
    ///
    /// # Errors
    /// They name something else.
    pub fn arguments(&self, message: &str) -> Result<String> {
        expand(
            &self.arguments,
            &Values::from([("message".to_owned(), message.to_owned())]),
        )
    }
}

/// A command whose output is used.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub command: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Values of its JSON output, by JSON pointers.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
}

/// A TCP proxy: `{{proxy.NAME}}` is its port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    pub name: String,
    /// The address that it forwards to.
    pub to: String,
}

fn yes() -> bool {
    true
}

/// Times that a product needs or promises.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// From the start of a part until it is ready, in seconds (as all that end in `_s`).
    pub ready_s: u64,
    /// From the last fault until the reader's end.
    pub turn_s: u64,
    /// From a cancellation until the reader's end.
    pub cancel_s: u64,
    /// From the end of a drained process until new words.
    pub drain_s: u64,
    /// How long a worker is paused: longer than its lease.
    pub pause_s: u64,
    /// How long a reader may be behind the model before a deed is done anyway: some products deliver in lumps.
    pub catch_up_ms: u64,
    /// How much the memory of the parts that serve streams may grow while readers come and go, in MiB.
    pub grow_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ready_s: 90,
            turn_s: 45,
            cancel_s: 10,
            drain_s: 30,
            pause_s: 40,
            catch_up_ms: 3_000,
            grow_mib: 128,
        }
    }
}

/// What the product says of itself. What it does not promise is not checked.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Promises {
    /// Two posts with one `{{turn}}` are one turn.
    pub idempotent: bool,
    /// The numbers of frames have no gaps.
    pub gapless: bool,
    /// What happens to a message while a turn is active.
    pub busy: Busy,
}

/// What happens to a message while a turn is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Busy {
    /// It waits, and is answered after the turn.
    Queue,
    /// It is refused.
    Reject,
    /// Both turns run.
    Parallel,
    #[default]
    Unknown,
}

/// A build that breaks a promise, and the cases of which at least one must notice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    #[serde(default)]
    pub cases: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The adapter beside this one that has what the cases need.
    #[serde(default)]
    pub adapter: Option<String>,
    /// Why no case of a black box can notice it.
    #[serde(default)]
    pub unseen: Option<String>,
}

impl Adapter {
    /// Reads an adapter: a folder with an `adapter.toml`, or the file.
    ///
    /// # Errors
    /// The file is missing, or is not an adapter.
    pub fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() {
            path.join(FILE)
        } else {
            path.to_owned()
        };
        let about = || format!("{} is not an adapter", file.display());
        let folder = file.parent().context("an adapter is in a folder")?;
        let folder = folder
            .canonicalize()
            .with_context(|| format!("can't find {}", folder.display()))?;
        let table = table(&file, &folder)?;
        let mut adapter: Self = toml::Value::Table(table).try_into().with_context(about)?;
        adapter.folder = folder;
        adapter.check().with_context(about)?;
        Ok(adapter)
    }

    /// All adapters below a folder, by name.
    ///
    /// # Errors
    /// One of them can't be read.
    pub fn all(folder: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
        let mut adapters = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.join(FILE).is_file() {
                adapters.push(Self::read(&path)?);
            }
        }
        adapters.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(adapters)
    }

    fn check(&self) -> Result<()> {
        anyhow::ensure!(!self.parts.is_empty(), "it has no parts");
        anyhow::ensure!(
            self.parts.iter().all(|part| !part.command.is_empty()),
            "each part needs a command"
        );
        anyhow::ensure!(
            self.requests.post_streams || self.requests.read.is_some(),
            "`requests.read` is missing, and `requests.post` does not stream"
        );
        anyhow::ensure!(
            self.fail_over.is_none() || self.has(|role| role == Role::Standby),
            "`fail_over` needs a part with the role `standby`"
        );
        if let Some(delegation) = &self.delegation {
            delegation.arguments("").context("`delegation.arguments`")?;
        }
        self.stream.check()
    }

    /// Why a case can't be run, if it can't.
    pub fn refuses(&self, case: &str, family: &str) -> Option<String> {
        self.unsupported
            .get(case)
            .or_else(|| self.unsupported.get(family))
            .cloned()
    }

    pub fn has(&self, is_wanted: impl Fn(Role) -> bool) -> bool {
        self.parts.iter().any(|part| is_wanted(part.role))
    }
}

/// The content of a file, with that of the adapter beside it which it extends.
fn table(file: &Path, folder: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let own: Table = text
        .parse()
        .with_context(|| format!("{} is not TOML", file.display()))?;
    let Some(base) = own.get("extends") else {
        return Ok(own);
    };
    let base = base.as_str().context("`extends` is the name of an adapter")?;
    let base = folder.with_file_name(base);
    let mut whole = table(&base.join(FILE), &base)?;
    whole.remove("never_run");
    for (name, value) in own {
        if name == FURTHER_PARTS {
            add_parts(&mut whole, value)?;
            continue;
        }
        match (whole.get_mut(&name), value) {
            (Some(Value::Table(old)), Value::Table(new)) if MERGED.contains(&name.as_str()) => old.extend(new),
            (_, value) => {
                whole.insert(name, value);
            }
        }
    }
    whole.remove("extends");
    Ok(whole)
}

/// Adds parts after those of the adapter that is extended.
fn add_parts(whole: &mut Table, further: Value) -> Result<()> {
    let (Some(Value::Array(parts)), Value::Array(further)) = (whole.get_mut("parts"), further) else {
        anyhow::bail!("`{FURTHER_PARTS}` is a list of parts, after those of another adapter");
    };
    parts.extend(further);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters")
    }

    #[test]
    fn all_shipped_adapters_are_read() {
        let adapters = Adapter::all(&shipped()).unwrap();
        let names: Vec<&str> = adapters.iter().map(|adapter| adapter.name.as_str()).collect();
        for name in ["plain-sse", "rejoin"] {
            assert!(names.contains(&name), "{names:?}");
        }
        for adapter in &adapters {
            assert!(
                adapter.folder.ends_with(&adapter.name),
                "{} is in another folder",
                adapter.name
            );
            assert!(adapter.has(Role::serves), "{} serves no streams", adapter.name);
        }
    }

    #[test]
    fn unknown_fields_are_errors() {
        let folder = std::env::temp_dir().join(format!("resume-suite-adapter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = std::fs::read_to_string(shipped().join("plain-sse").join(FILE)).unwrap();
        std::fs::write(folder.join(FILE), format!("colour = \"red\"\n{text}")).unwrap();
        let error = format!("{:#}", Adapter::read(&folder).unwrap_err());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("colour"), "{error}");
    }
}
