//! `rejoin keys`: API keys, for operators; straight to the database.
use anyhow::{Result, bail};
use clap::Subcommand;

use crate::{args::Global, exit::Exit, out::Out};

/// Make, list and revoke API keys. Talks to the database, so that it works before the first key exists.
///
/// A key is shown once, when it is made; only its hash is stored.
///
/// Examples:
///   rejoin keys create --user ada@example.org --project 0192f0c1-… --name laptop
///   rejoin keys list
///   rejoin keys revoke 0192f0c1-…
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make a key and print it, once.
    Create {
        /// What it is for, to recognise it in the list.
        #[arg(long)]
        name: String,
        /// Whose it is: the user's handle. Made if it is not there. Default: the only user.
        #[arg(long, value_name = "HANDLE")]
        user: Option<String>,
        /// The one project that it opens; without: all projects of its user.
        #[arg(long, value_name = "ID")]
        project: Option<String>,
        /// What it may do.
        #[arg(long, value_delimiter = ',', default_value = "read,write,admin")]
        scopes: Vec<String>,
        /// Days until it expires; without: never.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        expires_in_days: Option<u16>,
    },
    /// All keys: prefix, name, user, project, scopes; never the key itself.
    List,
    /// Make a key worthless, at once.
    Revoke {
        /// Its id, or its prefix as the list shows it.
        key: String,
    },
}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin keys` is not there yet")
}
