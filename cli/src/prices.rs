//! `rejoin prices`: prices of models in a project; through the API.
use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// Show and set the prices of models, which runs' budgets are based on.
///
/// Examples:
///   rejoin prices list
///   rejoin prices set 'openai:gpt-6*' --input 2 --output 10
///   rejoin prices remove 'openai:gpt-6*'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, global = true, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the project's own prices. All other models use the catalogue's prices, which `rejoin models` shows.
    List {
        /// Include the catalogue's prices.
        #[arg(long)]
        all: bool,
    },
    /// Set a price for this project.
    Set {
        /// provider:model, or a glob.
        model: String,
        /// Dollars per million input tokens.
        #[arg(long, value_name = "USD")]
        input: f64,
        /// Dollars per million output tokens.
        #[arg(long, value_name = "USD")]
        output: f64,
    },
    /// Remove a price of this project.
    Remove { model: String },
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let prices = format!(
        "/api/admin/projects/{}/model-prices",
        client.project(args.project).await?
    );
    match args.action {
        Action::List { all } => list(&client.get(&prices).await?, all, out)?,
        Action::Set { model, input, output } => {
            let body = json!({ "model": model, "inputUsd": input, "outputUsd": output });
            let set = client.change(Method::PUT, &prices, &body).await?;
            out.either(&set, || {
                format!("{model} costs {input} dollars per million input tokens and {output} per million output tokens")
            })?;
        }
        Action::Remove { model } => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("model", &model);
            client.delete(&format!("{prices}?{}", query.finish())).await?;
            out.either(&json!({ "removed": model }), || {
                format!("the price of {model} was removed")
            })?;
        }
    }
    Ok(Exit::Done)
}

fn list(prices: &Value, all: bool, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(prices);
    }
    let items = prices["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 4]> = items
        .iter()
        .filter(|price| all || price["builtIn"] != true)
        .map(|price| {
            let origin = if price["builtIn"] == true {
                "the catalogue"
            } else {
                "the project's own"
            };
            [
                price["model"].as_str().unwrap_or_default().to_owned(),
                price["inputUsd"].to_string(),
                price["outputUsd"].to_string(),
                origin.to_owned(),
            ]
        })
        .collect();
    out.table(["MODEL", "INPUT $/M", "OUTPUT $/M", "FROM"], &rows)
}
