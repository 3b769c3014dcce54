//! Builds that break a promise each, by the `faults` of an adapter: at least one case must notice. Called by the command line.
//!
//! A fault may name another adapter that has what its cases need, such as a program that executes tools. One that no case can notice states why.

use anyhow::{Context as _, Result, bail};

use crate::adapter::{Adapter, Fault};
use crate::suite::{self, Options};
use crate::verdict::Verdict;

/// Some show only at the right moment: seeds to try.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// Runs each broken build, or those with these names.
///
/// # Errors
/// A name is unknown, a build was not noticed, or the suite itself fails.
pub async fn run(adapter: &Adapter, names: &[String], options: &Options, say: &dyn Fn(&str)) -> Result<()> {
    for name in names {
        if !adapter.faults.contains_key(name) {
            let known: Vec<&str> = adapter.faults.keys().map(String::as_str).collect();
            bail!("{} has no fault {name}; it has: {}", adapter.name, known.join(", "));
        }
    }
    let mut missed = Vec::new();
    for (name, fault) in adapter
        .faults
        .iter()
        .filter(|(name, _)| names.is_empty() || names.contains(name))
    {
        if let Some(why) = &fault.unseen {
            say(&format!("unseen  {name:<22} {why}"));
            continue;
        }
        match noticed(adapter, name, fault, options).await? {
            Some(how) => say(&format!("caught  {name:<22} {how}")),
            None => {
                say(&format!("MISSED  {name:<22} by {}", fault.cases.join(", ")));
                missed.push(name.as_str());
            }
        }
    }
    if !missed.is_empty() {
        bail!("no case noticed: {}", missed.join(", "));
    }
    Ok(())
}

/// How a broken build was noticed, if it was.
async fn noticed(adapter: &Adapter, name: &str, fault: &Fault, options: &Options) -> Result<Option<String>> {
    let other;
    let adapter = match &fault.adapter {
        Some(beside) => {
            other =
                Adapter::read(&adapter.folder.with_file_name(beside)).with_context(|| format!("the fault {name}"))?;
            &other
        }
        None => adapter,
    };
    for seed in SEEDS {
        let options = Options {
            seeds: vec![seed],
            families: Vec::new(),
            cases: fault.cases.clone(),
            fault: Some(name.to_owned()),
            out: options.out.join(format!("broken-{name}-{seed}")),
            shrinks: false,
            ..options.clone()
        };
        let found = suite::run(adapter, &options, &|_: &str| {}).await?;
        let bad = found
            .runs
            .iter()
            .find(|run| !run.verdict.is_good() && run.verdict != Verdict::Unsupported);
        if let Some(run) = bad {
            let detail = run.details.first().map(String::as_str).unwrap_or_default();
            return Ok(Some(format!("{} by {}: {detail}", run.verdict.label(), run.case)));
        }
    }
    Ok(None)
}
