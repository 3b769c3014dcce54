//! `rejoin tail`: follow a run or a conversation.
use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

/// Follow the events of a run (until its end) or of a conversation (until Ctrl-C), from the beginning or from a point.
///
/// Following changes nothing. Any number of readers see the same events with the same numbers.
///
/// Examples:
///   rejoin tail 0192f0c1-…
///   rejoin tail 0192f0c1-… --after 120
///   rejoin tail 0192f0c1-… --json | jq .type
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The id of a run or of a conversation.
    #[arg(value_name = "RUN|CONVERSATION")]
    pub target: String,
    /// Only events with a higher number; `now`: only what is new.
    #[arg(long, value_name = "N")]
    pub after: Option<String>,
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin tail` is not there yet")
}
