//! `rejoin web`: web access of a project's agents; through the API.
use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// Show and set what agents may do on the web. By default they have no access. Needs a key with the scope admin.
///
/// Examples:
///   rejoin secrets set TAVILY_KEY < key.txt
///   rejoin web set --provider tavily --key-secret TAVILY_KEY --visit --block ads.example
///   rejoin web set --provider searxng --base-url http://search.example:8080
///   rejoin web test
///   rejoin web show
///   rejoin web remove
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
    /// Show the current settings.
    Show,
    /// Replace all settings; whatever is omitted is off.
    #[group(multiple = true, required = true, id = "what", args = ["provider", "visit"])]
    Set {
        /// Search provider; without it, there is no `web_search`.
        #[arg(long, value_enum)]
        provider: Option<Provider>,
        /// URL of the provider; required for SearXNG.
        #[arg(long, value_name = "URL", requires = "provider")]
        base_url: Option<String>,
        /// Name of the secret with the provider's key, set with `rejoin secrets set`.
        #[arg(long, value_name = "NAME", requires = "provider")]
        key_secret: Option<String>,
        /// Allow agents to read pages (`web_visit`).
        #[arg(long)]
        visit: bool,
        /// Allow only this domain and its subdomains; can be repeated [default: all domains]
        #[arg(long = "allow", value_name = "DOMAIN")]
        allowed: Vec<String>,
        /// Block this domain and its subdomains, even if allowed.
        #[arg(long = "block", value_name = "DOMAIN")]
        blocked: Vec<String>,
    },
    /// Test the search provider: a worker runs one harmless search.
    Test,
    /// Turn off web access.
    Remove,
}

rejoin_types::text_enum! {
    /// Services that search the web.
    #[derive(ValueEnum)]
    pub enum Provider {
        Tavily = "tavily",
        Brave = "brave",
        Searxng = "searxng",
    }
}

/// # Errors
/// The API is unreachable or refuses; the tested provider does not respond.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let web = format!("/api/admin/projects/{}/web", client.project(args.project).await?);
    match args.action {
        Action::Show => {
            let settings = client.get(&web).await?;
            out.either(&settings, || shown(&settings))?;
        }
        Action::Set {
            provider,
            base_url,
            key_secret,
            visit,
            allowed,
            blocked,
        } => {
            let body = json!({
                "provider": provider.map(Provider::as_str),
                "baseUrl": base_url,
                "keySecret": key_secret,
                "visit": visit,
                "allowedDomains": allowed,
                "blockedDomains": blocked,
            });
            let set = client.change(Method::PUT, &web, &body).await?;
            out.either(&set, || shown(&set))?;
        }
        Action::Test => {
            let tested = client.post(&format!("{web}/test"), &json!({})).await?;
            let provider = tested["provider"].as_str().unwrap_or_default().to_owned();
            out.either(&tested, || match tested["ok"].as_bool() {
                Some(true) => format!(
                    "{provider} responds: {} pages in {} ms",
                    tested["found"], tested["tookMs"]
                ),
                Some(false) | None => tested["failure"].as_str().unwrap_or_default().to_owned(),
            })?;
            if tested["ok"] != json!(true) {
                bail!("{provider} does not respond");
            }
        }
        Action::Remove => {
            client.delete(&web).await?;
            out.either(&json!({ "removed": true }), || {
                "agents can no longer use the web".to_owned()
            })?;
        }
    }
    Ok(Exit::Done)
}

/// Formats the settings, one per line.
fn shown(settings: &Value) -> String {
    let text = |name: &str| settings[name].as_str();
    let domains = |name: &str| {
        let named: Vec<&str> = settings[name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        named.join(", ")
    };
    let mut lines = vec![
        match text("provider") {
            Some(provider) => format!("web_search  by {provider}"),
            None => "web_search  off".to_owned(),
        },
        format!(
            "web_visit   {}",
            if settings["visit"] == json!(true) { "on" } else { "off" }
        ),
    ];
    let settings_shown = [
        ("asked at", text("baseUrl").unwrap_or_default().to_owned()),
        ("key", text("keySecret").unwrap_or_default().to_owned()),
        ("allowed", domains("allowedDomains")),
        ("blocked", domains("blockedDomains")),
    ];
    for (name, value) in settings_shown.into_iter().filter(|(_, value)| !value.is_empty()) {
        lines.push(format!("{name:<11} {value}"));
    }
    lines.join("\n")
}
