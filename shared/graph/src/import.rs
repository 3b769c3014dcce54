//! Imports objects and relationships from NDJSON. Called by the command line and the API's import route.
//!
//! Lines are parsed one by one and staged by COPY into two temporary tables; then a handful of set-based statements
//! merge them. Invariants: one transaction, so a file is imported completely or not at all (without its bad lines,
//! where those may be skipped); importing the same file again changes nothing; of several lines about the same item,
//! the last one wins. A deleted object is not restored: its line creates a new object.
//!
//! - `lines`    reads lines of bounded length
//! - `staging`  writes parsed lines into the temporary tables
//! - `merge`    merges those tables into the graph

pub mod lines;
mod merge;
mod staging;

use serde::{Deserialize, Serialize};
use sqlx::{Executor as _, PgPool, Postgres, Transaction};
use tokio::io::AsyncBufRead;
use uuid::Uuid;

pub use self::lines::MAX_LINE_BYTES;
use self::lines::{LineRead, Lines};
use self::merge::merge;
use self::staging::Staging;
use super::ndjson::Parsed;
use super::rules::Rules;
use super::{Actor, Error, ndjson};

/// Maximum number of bad lines listed in a report; further ones are only counted.
pub const MAX_REPORTED_BAD_LINES: usize = 100;
/// Size of the COPY buffer, in bytes.
const COPY_BUFFER_BYTES: usize = 1024 * 1024;
/// Number of lines between two progress reports.
const PROGRESS_EVERY_LINES: u64 = 1000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Imports the good lines.
    Skip,
    /// Imports nothing if any line is bad.
    #[default]
    Refuse,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    pub reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub created: u64,
    /// Got a new version.
    pub updated: u64,
    /// Equal to their line.
    pub unchanged: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Number of lines read, including empty ones.
    pub lines: u64,
    pub bytes: u64,
    pub objects: Counts,
    pub relationships: Counts,
    /// False: the import was refused because of a bad line.
    pub imported: bool,
    pub bad_lines: u64,
    /// The first [`MAX_REPORTED_BAD_LINES`] of them.
    pub bad: Vec<BadLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub lines: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("read the import's lines")]
    Read(#[source] std::io::Error),
    #[error(transparent)]
    Graph(#[from] Error),
}

/// Imports all lines of `source`. Bad lines are not an error of this function: the report lists them.
pub async fn import(
    pool: &PgPool,
    workspace_id: Uuid,
    source: impl AsyncBufRead + Unpin + Send,
    on_error: OnError,
    actor: Actor,
    progress: impl FnMut(Progress) + Send,
) -> Result<Report, ImportError> {
    let tx = rejoin_db::begin(pool)
        .await
        .map_err(Error::database("begin an import"))?;
    import_in(tx, workspace_id, source, on_error, actor, progress).await
}

/// The same in a transaction that has just begun.
pub async fn import_in(
    mut tx: Transaction<'static, Postgres>,
    workspace_id: Uuid,
    source: impl AsyncBufRead + Unpin + Send,
    on_error: OnError,
    actor: Actor,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Report, ImportError> {
    tx.execute(CREATE_STAGING)
        .await
        .map_err(Error::database("create the staging tables of an import"))?;

    let rules = Rules::of(&mut tx, workspace_id).await?;
    let mut report = Report::default();
    let mut staging = Staging::default();
    let mut lines = Lines::new(source);
    while let Some((line, bytes)) = lines.next().await.map_err(ImportError::Read)? {
        report.lines += 1;
        report.bytes = bytes;
        let parsed = match line {
            LineRead::TooLong => Err(format!("longer than {MAX_LINE_BYTES} bytes")),
            LineRead::Line(line) if line.trim_ascii().is_empty() => continue,
            LineRead::Line(line) => ndjson::parse(line).and_then(|parsed| held(&rules, parsed)),
        };
        match parsed {
            Ok(parsed) => staging.push(report.lines, &parsed),
            Err(reason) => note_bad(&mut report, reason),
        }
        staging.flush(&mut tx, COPY_BUFFER_BYTES).await?;
        if report.lines.is_multiple_of(PROGRESS_EVERY_LINES) {
            progress(Progress {
                lines: report.lines,
                bytes: report.bytes,
            });
        }
    }
    staging.flush(&mut tx, 0).await?;
    progress(Progress {
        lines: report.lines,
        bytes: report.bytes,
    });

    merge(&mut tx, workspace_id, on_error, actor, &mut report).await?;
    report.imported = report.bad_lines == 0 || on_error == OnError::Skip;
    if report.imported {
        tx.commit().await.map_err(Error::database("commit an import"))?;
    } else {
        tx.rollback().await.map_err(Error::database("roll back an import"))?;
        report.objects = Counts::default();
        report.relationships = Counts::default();
    }
    // Sorted by line: missing ends are found after all lines were read.
    report.bad.sort_by_key(|bad| bad.line);
    Ok(report)
}

/// Validates a line against the rules of its type; adds the validating pack to an object.
fn held(rules: &Rules, mut parsed: Parsed) -> Result<Parsed, String> {
    if rules.is_empty() {
        return Ok(parsed);
    }
    match &mut parsed {
        Parsed::Object {
            object_type,
            properties,
            schema_version,
            ..
        } => {
            let pack = rules.object(object_type, properties)?;
            if schema_version.is_none() {
                *schema_version = pack.map(str::to_owned);
            }
        }
        Parsed::Relationship {
            relationship_type,
            source,
            target,
            properties,
            ..
        } => {
            let ends = (source.object_type(), target.object_type());
            rules.relationship(relationship_type, ends, properties)?;
        }
    }
    Ok(parsed)
}

/// Records a fault of the line that was read last.
fn note_bad(report: &mut Report, reason: String) {
    report.bad_lines += 1;
    if report.bad.len() < MAX_REPORTED_BAD_LINES {
        report.bad.push(BadLine {
            line: report.lines,
            reason,
        });
    }
}

/// The staging tables exist for the transaction only.
const CREATE_STAGING: &str = "
-- No object is marked by itself: all are, at the end.
set local rejoin.bulk = on;
create temporary table import_lines_objects (
    line bigint, id uuid, file_id uuid, type text, key text, status text, labels jsonb, properties jsonb, content_hash bytea,
    schema_version text
) on commit drop;
create temporary table import_lines_relationships (
    line bigint, id uuid, type text, source_type text, source_key text, source_ref uuid, target_type text, target_key text,
    target_ref uuid, properties jsonb, weight double precision, valid_from timestamptz, valid_to timestamptz, content_hash bytea
) on commit drop";
