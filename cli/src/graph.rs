//! `rejoin graph`: import and export of the knowledge graph, directly in the database.
//!
//! Invariants: an import is complete or has no effect; stdout of an export holds nothing but its lines.
use std::{
    fs::File,
    io::{self, BufReader, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use flate2::read::MultiGzDecoder;
use futures::stream;
use indicatif::{ProgressBar, ProgressStyle};
use rejoin_graph::export::{self, Writer};
use rejoin_graph::import::{self, OnError, Report};
use rejoin_graph::{Actor, ActorKind};
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;
use uuid::Uuid;

use crate::{database, exit::Exit, global::Global, out::Out};

/// Size of a chunk from the reading thread, and the maximum number of waiting chunks.
const CHUNK_BYTES: usize = 256 * 1024;
const CHUNKS_WAITING: usize = 4;
/// The magic number of gzip files.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Import and export the knowledge graph as NDJSON: one object or relationship per line. Talks to the database.
///
/// {"kind":"object","type":"Package","key":"curl","name":"curl","properties":{"version":"7.88.1"}}
/// {"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"}}
///
/// Importing the same file again changes nothing; a line about an existing object or relationship updates it.
///
/// Examples:
///   rejoin graph import packages.ndjson
///   rejoin graph import packages.ndjson.gz --on-error skip
///   curl -s https://example.org/graph.ndjson | rejoin graph import -
///   rejoin graph export backup.ndjson
///   rejoin graph export | gzip > backup.ndjson.gz
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Import objects and relationships from a file, gzipped or not.
    Import {
        /// NDJSON file; `-` reads stdin.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What to do about invalid lines.
        #[arg(long, value_enum, default_value_t = OnErrorArg::Refuse)]
        on_error: OnErrorArg,
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
    },
    /// Export all objects, then all relationships, as a consistent snapshot.
    Export {
        /// File to write [default: stdout]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorArg {
    /// Import the valid lines, and report the others.
    Skip,
    /// Import nothing if any line is invalid.
    Refuse,
}

/// # Errors
/// The file or the database is unusable.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    match args.action {
        Action::Import {
            file,
            on_error,
            project,
        } => {
            let project = database::project(&pool, project.as_deref()).await?;
            let on_error = match on_error {
                OnErrorArg::Skip => OnError::Skip,
                OnErrorArg::Refuse => OnError::Refuse,
            };
            let report = import_file(&pool, project, &file, on_error).await?;
            show(&report, &file, out)
        }
        Action::Export { file, project } => {
            let project = database::project(&pool, project.as_deref()).await?;
            export_to(&pool, project, file.as_deref(), out).await
        }
    }
}

async fn import_file(pool: &PgPool, project: Uuid, path: &Path, on_error: OnError) -> Result<Report> {
    let attempt = || format!("importing {} failed", path.display());
    let (source, length): (Box<dyn Read + Send>, Option<u64>) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).with_context(attempt)?;
        let length = file.metadata().with_context(attempt)?.len();
        (Box::new(file), Some(length))
    };
    let bar = progress_bar(length);
    let report = import_from(pool, project, bar.wrap_read(source), on_error, |lines| {
        bar.set_message(format!("{lines} lines"));
    })
    .await;
    bar.finish_and_clear();
    report.with_context(attempt)
}

/// Imports `source`, optionally gzipped; `progress` is called with the number of lines read so far.
pub(crate) async fn import_from(
    pool: &PgPool,
    project: Uuid,
    source: impl Read + Send + 'static,
    on_error: OnError,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Report> {
    let (chunks, received) = mpsc::channel(CHUNKS_WAITING);
    // Files and decompression block; the database's connection must not wait for them.
    let reading = tokio::task::spawn_blocking(move || read_chunks(source, &chunks));
    let lines = stream::unfold(received, |mut received| async {
        let chunk: io::Result<bytes::Bytes> = received.recv().await?;
        Some((chunk, received))
    });
    let lines = StreamReader::new(Box::pin(lines));
    let actor = Actor {
        kind: ActorKind::Import,
        id: None,
    };
    let report = import::import(pool, project, lines, on_error, actor, |at| progress(at.lines)).await?;
    reading.await.context("reading the file ended early")?;
    Ok(report)
}

fn read_chunks(source: impl Read, chunks: &mpsc::Sender<io::Result<bytes::Bytes>>) {
    let mut source = BufReader::with_capacity(CHUNK_BYTES, source);
    let mut start = Vec::with_capacity(GZIP_MAGIC.len());
    let peeked = source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start);
    if let Err(error) = peeked {
        // The receiver is gone, and with it any interest in the error.
        let _gone = chunks.blocking_send(Err(error));
        return;
    }
    let zipped = start == GZIP_MAGIC;
    let whole = io::Cursor::new(start).chain(source);
    let mut text: Box<dyn Read> = if zipped {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    };
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = text.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        let message = match read {
            Ok(0) => return,
            Ok(_) => Ok(bytes::Bytes::from(chunk)),
            Err(error) => Err(error),
        };
        let failed = message.is_err();
        if chunks.blocking_send(message).is_err() || failed {
            return;
        }
    }
}

fn show(report: &Report, path: &Path, out: Out) -> Result<Exit> {
    for bad in &report.bad {
        out.note(&format!("line {}: {}", bad.line, bad.reason));
    }
    let more = report.bad_lines.saturating_sub(report.bad.len() as u64);
    if more > 0 {
        out.note(&format!("and {more} more invalid lines"));
    }
    if out.is_json() {
        out.json(report)?;
    } else if report.imported {
        out.line(&format!(
            "{} lines: {} objects new, {} changed, {} unchanged; {} relationships new, {} changed, {} unchanged; {} \
            invalid lines",
            report.lines,
            report.objects.created,
            report.objects.updated,
            report.objects.unchanged,
            report.relationships.created,
            report.relationships.updated,
            report.relationships.unchanged,
            report.bad_lines
        ))?;
    }
    if !report.imported {
        let message = format!(
            "nothing was imported from {}: {} of its {} lines are invalid (--on-error skip imports the others)",
            path.display(),
            report.bad_lines,
            report.lines
        );
        return Err(Exit::Failed.because(message).into());
    }
    Ok(Exit::Done)
}

async fn export_to(pool: &PgPool, project: Uuid, path: Option<&Path>, out: Out) -> Result<Exit> {
    let spinner = progress_bar(None);
    spinner.set_message("exporting");
    let exported = match path {
        Some(path) => {
            let file = tokio::fs::File::create(path).await;
            let file = file.with_context(|| format!("writing {} failed", path.display()))?;
            export::export(pool, project, &mut Writer(file)).await
        }
        None => export::export(pool, project, &mut Writer(tokio::io::stdout())).await,
    };
    spinner.finish_and_clear();
    let exported = exported.context("exporting the graph failed")?;
    let words = format!("{} objects, {} relationships", exported.objects, exported.relationships);
    match (path, out.is_json()) {
        (Some(_), true) => out.json(&exported)?,
        (Some(path), false) => out.line(&format!("{words} in {}", path.display()))?,
        // stdout holds the lines.
        (None, _) => out.note(&words),
    }
    Ok(Exit::Done)
}

/// A progress bar on stderr if it is a terminal; otherwise nothing.
fn progress_bar(length: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{bar:30} {bytes}/{total_bytes} {msg} {elapsed}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    async fn read_back(bytes: Vec<u8>) -> Vec<u8> {
        let (chunks, mut received) = mpsc::channel(CHUNKS_WAITING);
        let reading = tokio::task::spawn_blocking(move || read_chunks(io::Cursor::new(bytes), &chunks));
        let mut all = Vec::new();
        while let Some(chunk) = received.recv().await {
            all.extend_from_slice(&chunk.unwrap());
        }
        reading.await.unwrap();
        all
    }

    #[tokio::test]
    async fn a_file_is_read_as_it_is_and_a_zipped_one_unzipped() {
        let text = b"{\"kind\":\"object\"}\n".repeat(40_000);
        assert_eq!(read_back(text.clone()).await, text);
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zip.write_all(&text).unwrap();
        assert_eq!(read_back(zip.finish().unwrap()).await, text);
        assert_eq!(read_back(b"x".to_vec()).await, b"x");
        assert_eq!(read_back(Vec::new()).await, b"");
    }
}
