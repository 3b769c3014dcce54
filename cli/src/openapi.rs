//! `rejoin openapi`: the HTTP API, described.
use anyhow::{Result, bail};

use crate::{args::Global, exit::Exit, out::Out};

/// Print the OpenAPI document of the HTTP API. Needs neither an API nor a database.
///
/// Examples:
///   rejoin openapi > openapi.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// # Errors
/// As the message says.
pub async fn run(_global: &Global, _args: Args, _out: Out) -> Result<Exit> {
    bail!("`rejoin openapi` is not there yet")
}
