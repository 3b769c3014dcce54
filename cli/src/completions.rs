//! `rejoin completions`: shell completions.
use anyhow::Result;
use clap_complete::Shell;

use crate::{exit::Exit, global::Global, out::Out};

/// Print a completion script for a shell.
///
/// Examples:
///   rejoin completions bash > /etc/bash_completion.d/rejoin
///   rejoin completions zsh > ~/.zfunc/_rejoin
///   rejoin completions fish > ~/.config/fish/completions/rejoin.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    pub shell: Shell,
}

/// # Errors
/// stdout is closed.
pub async fn run(_global: &Global, args: Args, mut program: clap::Command, out: Out) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "rejoin", &mut script);
    out.piece(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
