//! `rejoin audit`: reads and verifies the audit log; directly in the database.
//!
//! Invariant: a broken or incomplete chain is never exit code 0.
use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_identity::audit::{self, Entry, Hash, Report};
use rejoin_types::digest;

use crate::{database, exit::Exit, global::Global, out::Out};

/// Length of a hash in the list, in characters.
const HASH_SHOWN: usize = 12;

/// Read and verify the audit log. Talks to the database.
///
/// Each entry contains the hash of the previous entry, so changing or removing an entry breaks the chain. Truncation
/// leaves a valid but shorter chain: store the head that `verify` prints in another place, and pass it to --expect
/// later.
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
    /// List the newest entries, newest first.
    List {
        /// Project, by name or id [default: entries of all projects and of none]
        #[arg(long, value_name = "NAME|ID")]
        project: Option<String>,
        /// Maximum number of entries.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Verify the hash chain. Prints the number of entries, the head, and where the chain is broken, if it is.
    Verify {
        /// Fail unless the chain contains this hash, a head that was noted earlier.
        #[arg(long, value_name = "HASH")]
        expect: Option<Hash>,
    },
}

/// # Errors
/// The database can't be reached, the project does not exist, or the chain is broken.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    let mut connection = pool.acquire().await.context("connecting to the database failed")?;
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
            list(&entries.context("reading the audit log failed")?, out)
        }
        Action::Verify { expect } => {
            let report = audit::verify(&mut connection, expect).await;
            tell(&report.context("reading the audit log failed")?, expect, out)
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
            "the chain is intact but does not contain {hash}: entries up to that one were removed, or the whole chain \
            was rewritten"
        );
        return Err(Exit::Failed.because(message).into());
    }
    if !out.is_json() {
        out.note(if expected.is_some() {
            "the chain is intact and contains the expected hash"
        } else {
            "the chain is intact. Truncation can be detected only with a head that was stored elsewhere: store this \
            one, and pass it to --expect next time"
        });
    }
    Ok(Exit::Done)
}
