//! `rejoin openapi`: prints the OpenAPI document.
use anyhow::{Context, Result};

use crate::{exit::Exit, global::Global, out::Out};

/// Print the OpenAPI document of the HTTP API. Needs neither an API nor a database.
///
/// Examples:
///   rejoin openapi > openapi.json
///   rejoin openapi --json | jq '.paths | keys'      in one line
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// # Errors
/// stdout is closed.
pub async fn run(_global: &Global, _args: Args, out: Out) -> Result<Exit> {
    let document = rejoin_api::routes::document();
    let text = if out.is_json() {
        document.to_json()
    } else {
        document.to_pretty_json()
    };
    out.line(&text.context("writing the OpenAPI document failed")?)?;
    Ok(Exit::Done)
}
