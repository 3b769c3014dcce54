//! `rejoin audit`: who changed what, and whether that is still what was written; straight to the database.
//!
//! Invariant: a chain that is broken, or lacks what it should hold, is never exit code 0.
use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_shared::audit::{self, Entry, Hash, Report};
use rejoin_shared::digest;

use crate::{database, exit::Exit, global::Global, out::Out};

/// Characters of a hash that the list shows.
const HASH_SHOWN: usize = 12;

/// Read the audit log, and check that nothing in it was changed. Talks to the database.
///
/// Each entry holds the hash of the one before it, so an entry that was changed, or taken out of the middle, breaks the chain. Entries
/// that were cut off at its end leave a shorter chain that looks whole: note the head that `verify` prints in another place, and
/// give it to --expect later.
///
/// Examples:
///   rejoin audit list --project acme
///   rejoin audit list --limit 1000 --json | jq -r 'select(.action == "key.created") | .target'
///   rejoin audit verify
///   rejoin audit verify --expect "$(cat head-of-yesterday)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// The newest entries, the newest first.
    List {
        /// Of this project, by name or id [default: of all, and of none]
        #[arg(long, value_name = "NAME|ID")]
        project: Option<String>,
        /// At most this many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Compute every hash again; says how many entries there are, the head, and where the chain breaks if it does.
    Verify {
        /// Fail unless this hash, a head that was noted before, is in the chain.
        #[arg(long, value_name = "HASH")]
        expect: Option<Hash>,
    },
}

/// # Errors
/// The database can't be reached, there is no such project, or the chain does not hold.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    let mut connection = pool.acquire().await.context("can't connect to the database")?;
    match args.action {
        Action::List { project, limit } => {
            let limit = i64::from(limit);
            let entries = match project {
                Some(asked) => {
                    let project = database::project(&pool, Some(&asked)).await?;
                    audit::page(&mut connection, project, None, limit).await
                }
                None => audit::newest(&mut connection, limit).await,
            };
            list(&entries.context("can't read the audit log")?, out)
        }
        Action::Verify { expect } => {
            let report = audit::verify(&mut connection, expect).await;
            tell(&report.context("can't read the audit log")?, expect, out)
        }
    }
}

fn list(entries: &[Entry], out: Out) -> Result<Exit> {
    if out.is_json() {
        for entry in entries {
            out.json(entry)?;
        }
        return Ok(Exit::Done);
    }
    let rows: Vec<[String; 7]> = entries
        .iter()
        .map(|entry| {
            let who = match &entry.credential {
                Some(credential) => format!("{} ({credential})", entry.actor),
                None => entry.actor.clone(),
            };
            [
                entry.id.to_string(),
                entry.at.format("%Y-%m-%d %H:%M:%S").to_string(),
                who,
                entry.action.clone(),
                entry.target.clone(),
                entry.detail.to_string(),
                digest::hex(&entry.hash)[..HASH_SHOWN].to_owned(),
            ]
        })
        .collect();
    out.table(["ENTRY", "AT (UTC)", "WHO", "DID", "TO", "DETAIL", "HASH"], &rows)?;
    Ok(Exit::Done)
}

fn tell(report: &Report, expected: Option<Hash>, out: Out) -> Result<Exit> {
    if out.is_json() {
        out.json(report)?;
    } else {
        out.line(&format!("entries  {}", report.entries))?;
        out.line(&format!(
            "head     {}",
            report.head.map_or_else(|| "none".to_owned(), |head| head.to_string())
        ))?;
    }
    if let Some(broken) = report.broken {
        let message = format!("the audit log is broken at entry {}: {}", broken.entry, broken.how);
        return Err(Exit::Failed.because(message).into());
    }
    if let (Some(hash), Some(false)) = (expected, report.expected_found) {
        let message = format!(
            "the chain is whole, but {hash} is not in it: entries up to that one were cut off, or the whole chain was \
             written anew"
        );
        return Err(Exit::Failed.because(message).into());
    }
    if !out.is_json() {
        out.note(if expected.is_some() {
            "the chain is whole, and holds the hash that was expected"
        } else {
            "the chain is whole. Whether newer entries were cut off shows only by a head that was noted elsewhere: keep \
             this one, and give it to --expect the next time"
        });
    }
    Ok(Exit::Done)
}
