//! `rejoin chat`: talk from the terminal.
use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

/// Talk to an agent. Without a message: a conversation until Ctrl-D.
///
/// Survives a restart of anything: API, worker, database. It reconnects with its cursor and goes on in mid-word.
/// Ctrl-C leaves; the run goes on, and `rejoin tail` rejoins it.
///
/// Examples:
///   rejoin chat
///   rejoin chat "Which services use PostgreSQL?"
///   rejoin chat "And who owns them?" --conversation 0192f0c1-…
///   rejoin chat --json "hello"      the events, one a line
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// What to say.
    pub message: Option<String>,
    /// The agent, by its name; only for a new conversation.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Go on with this conversation.
    #[arg(long, value_name = "ID")]
    pub conversation: Option<String>,
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin chat` is not there yet")
}
