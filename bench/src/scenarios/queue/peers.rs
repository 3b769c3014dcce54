//! The queues under test, from bench/peers/queue/peers.toml, and ours, from bench/queue-driver.toml.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::results::Size;

/// Ours.
pub const OURS: &str = "rejoin";
const OUR_FILE: &str = "bench/queue-driver.toml";
const PEERS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/peers/queue/peers.toml"));
/// Measures only these; separated by commas.
const ONLY: &str = "BENCH_QUEUES";

/// A queue under test. The fields are described in peers.toml.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    #[serde(skip)]
    pub name: String,
    #[serde(default)]
    pub version: String,
    pub cmd: String,
    pub n: u64,
    pub done: String,
    pub queued: Option<Fill>,
    pub finished: Option<Fill>,
    #[serde(default)]
    pub env: BTreeMap<String, BTreeMap<String, Setting>>,
    #[serde(default)]
    pub bare: bool,
    #[serde(default)]
    pub large: bool,
    #[serde(default)]
    pub differs: String,
}

/// How a table is filled.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Fill {
    By(Way),
    /// Tables whose first row is copied, with the differing columns.
    Copies(Vec<(String, BTreeMap<String, String>)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The driver's own bulk enqueue.
    Bulk,
    /// The same, and then the driver's own worker.
    Worked,
}

/// A value in a driver's environment.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Fraction(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl Spec {
    /// Returns the driver's environment in a phase.
    pub fn settings(&self, phase: &str) -> BTreeMap<String, String> {
        // A drain among many rows is a drain.
        let of = |phase: &str| self.env.get(phase);
        let settings = of(phase).or_else(|| matches!(phase, "backlog" | "finished").then(|| of("work")).flatten());
        settings
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect()
    }

    /// Returns the database of its measurements, also the prefix of its templates.
    pub fn database(&self) -> String {
        format!("queue_{}", self.name.replace('-', "_n_"))
    }
}

/// The checkout that this was built from.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_owned)
}

/// All peers, in the order of the file.
pub fn peers() -> Vec<Spec> {
    parse(PEERS).expect("peers.toml is part of the program")
}

/// Ours; none if its driver is missing.
pub fn ours() -> Result<Option<Spec>> {
    let path = root().join(OUR_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let specs = parse(&text).with_context(|| format!("{} names no queue", path.display()))?;
    Ok(specs.into_iter().find(|spec| spec.name == OURS))
}

fn parse(text: &str) -> Result<Vec<Spec>> {
    let table: toml::Table = text.parse()?;
    let spec = |(name, value): (String, toml::Value)| {
        let spec: Spec = value.try_into().with_context(|| name.clone())?;
        Ok(Spec { name, ..spec })
    };
    table.into_iter().map(spec).collect()
}

/// Returns the queues measured at this size, or named by BENCH_QUEUES.
pub fn selected(size: Size, with_peers: bool) -> Result<Vec<Spec>> {
    let peers = if with_peers { peers() } else { Vec::new() };
    let mut specs: Vec<Spec> = ours()?.into_iter().chain(peers).collect();
    match std::env::var(ONLY) {
        Ok(names) => specs.retain(|spec| names.split(',').any(|name| name.trim() == spec.name)),
        Err(_) => specs.retain(|spec| match size {
            Size::Smoke => spec.name == OURS,
            Size::Full => !spec.large,
            Size::Large => true,
        }),
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_are_read_in_their_order_with_their_settings() {
        let peers = peers();
        let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "pgmq",
                "graphile_worker",
                "graphile-worker",
                "pg-boss",
                "apalis",
                "pgqueuer",
                "procrastinate"
            ]
        );
        assert_eq!(peers[0].settings("backlog"), peers[0].settings("work"));
        assert_eq!(peers[0].settings("latency")["NOTIFY"], "1");
        assert!(peers[0].settings("bulk").is_empty());
        assert_ne!(peers[1].database(), peers[2].database());
    }

    #[test]
    fn a_queue_is_filled_by_copy_by_bulk_call_or_by_its_worker() {
        let spec = |fill: &str| {
            let text = format!("[q]\ncmd = 'x'\nn = 1\ndone = 'select 0'\nqueued = {fill}\nunknown = 1");
            parse(&text)
                .expect("a queue")
                .remove(0)
                .queued
                .expect("a way to fill it")
        };
        assert!(matches!(spec("'bulk'"), Fill::By(Way::Bulk)));
        assert!(matches!(spec("'worked'"), Fill::By(Way::Worked)));
        let Fill::Copies(copies) = spec("[['a.b', {id = 'g'}], ['c', {}]]") else {
            panic!("copies")
        };
        assert_eq!(copies[0].1["id"], "g");
        assert_eq!(copies[1].0, "c");
    }
}
