//! `rejoin graph`: import and export of the knowledge graph.
use anyhow::{Result, bail};
use clap::Subcommand;

use crate::{args::Global, exit::Exit, out::Out};

/// Move the knowledge graph in and out, as NDJSON: one object or relationship a line.
///
/// An import that is cut off can be repeated: what is there already is found by its key and left alone.
///
/// Examples:
///   rejoin graph import demo.ndjson.gz
///   rejoin graph export > backup.ndjson
///   zcat dump.gz | rejoin graph import -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Load a file, with a progress bar on a terminal. `-`: stdin. `.gz` is read as it is.
    Import {
        #[arg(value_name = "FILE.ndjson")]
        file: std::path::PathBuf,
        /// The project; needed if the key opens several.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Write the whole graph of a project to stdout.
    Export {
        /// The project; needed if the key opens several.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin graph` is not there yet")
}
