//! `rejoin sign-in`: a one-time sign-in address for a browser, so that no address has to contain the API key. `dev`
//! prints one, too.
use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    client::Client,
    dev_instance::{self, Access},
    exit::Exit,
    global::Global,
    out::Out,
};

const PATH: &str = "/api/sign-in-codes";

/// Print a URL that signs a browser in as the user of your API key.
///
/// The URL works once, within ten minutes. If the browser is signed in as another user, the page asks for confirmation.
///
/// Examples:
///   rejoin sign-in
///   xdg-open "$(rejoin sign-in)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, _args: Args, out: Out) -> Result<Exit> {
    let url = address(dev_instance::access(global)?).await?;
    if out.is_json() {
        out.json(&json!({ "url": url }))?;
    } else {
        out.line(&url)?;
    }
    Ok(Exit::Done)
}

/// Returns an address of the page, below the API's, with a new code.
///
/// # Errors
/// The API is unreachable or refuses.
pub async fn address(access: Access) -> Result<String> {
    let base = access.url.trim_end_matches('/').to_owned();
    let made = Client::new(access)?.post(PATH, &json!({})).await?;
    let code = made["code"].as_str().context("the API's response has no code")?;
    Ok(format!("{base}/#code={code}"))
}
