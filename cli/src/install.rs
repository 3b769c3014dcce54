//! `rejoin install`, `rejoin uninstall`: products, by their manifests; through the API.
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rejoin_products::manifest::{MAX_BYTES, SCHEMA};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// Install a product from its manifest: graph types, agents, MCP servers, prompts and jobs. Installing it again, in any
/// version, brings the project to the state that the manifest describes. Needs a key with the scope admin.
///
/// Examples:
///   rejoin install manifest.json --dry-run
///   rejoin install manifest.json
///   rejoin install --list
///   rejoin install --schema > manifest.schema.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The manifest, a JSON file.
    #[arg(required_unless_present_any = ["schema", "list"])]
    pub manifest: Option<PathBuf>,
    /// Change nothing; only report what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Take over items of the same names that were created by others.
    #[arg(long)]
    pub adopt: bool,
    /// Print the JSON Schema of manifests. Needs neither an API nor a database.
    #[arg(long, conflicts_with = "manifest")]
    pub schema: bool,
    /// List installed products.
    #[arg(long, conflicts_with_all = ["manifest", "schema"])]
    pub list: bool,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

/// Uninstall a product. Objects, runs and conversations are kept, with everything they depend on.
///
/// Examples:
///   rejoin uninstall errands --dry-run
///   rejoin uninstall errands
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct UninstallArgs {
    /// The product's name.
    pub name: String,
    /// Change nothing; only report what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

/// # Errors
/// The manifest can't be read, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    if args.schema {
        out.line(SCHEMA.trim_end())?;
        return Ok(Exit::Done);
    }
    let client = Client::new(dev_instance::access(global)?)?;
    let products = format!("/api/admin/projects/{}/products", client.project(args.project).await?);
    let Some(path) = args.manifest else {
        let listed = client.get(&products).await?;
        out.either(&listed["items"], || {
            let lines: Vec<String> = items(&listed["items"])
                .iter()
                .map(|product| format!("{} {}", words(product, "name"), words(product, "version")))
                .collect();
            if lines.is_empty() {
                "nothing is installed".to_owned()
            } else {
                lines.join("\n")
            }
        })?;
        return Ok(Exit::Done);
    };
    let text = std::fs::read(&path).with_context(|| format!("reading {} failed", path.display()))?;
    ensure!(
        text.len() <= MAX_BYTES,
        "{} has more than {MAX_BYTES} bytes",
        path.display()
    );
    let manifest: Value = serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let request = json!({"manifest": manifest, "dryRun": args.dry_run, "adopt": args.adopt});
    let done = client.post(&products, &request).await?;
    out.either(&done, || diff_lines(&done))?;
    let conflicts = items(&done["changes"])
        .iter()
        .any(|change| change["action"] == "conflict");
    Ok(if conflicts { Exit::Failed } else { Exit::Done })
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn uninstall(global: &Global, args: UninstallArgs, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let project = client.project(args.project).await?;
    let path = format!(
        "/api/admin/projects/{project}/products/{}?dryRun={}",
        args.name, args.dry_run
    );
    let done = client.change(Method::DELETE, &path, &json!({})).await?;
    out.either(&done, || diff_lines(&done))?;
    Ok(Exit::Done)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Formats the changes as a diff.
fn diff_lines(done: &Value) -> String {
    let mut lines: Vec<String> = items(&done["changes"])
        .iter()
        .map(|change| {
            let mark = match words(change, "action") {
                "create" => '+',
                "update" => '~',
                "remove" => '-',
                "conflict" => '!',
                "release" => '?',
                _ => ' ',
            };
            let detail: Vec<&str> = items(&change["detail"]).iter().filter_map(Value::as_str).collect();
            let detail = if detail.is_empty() {
                String::new()
            } else {
                format!(": {}", detail.join(", "))
            };
            format!(
                "{mark} {:13} {} ({}{detail})",
                words(change, "kind"),
                words(change, "name"),
                words(change, "action")
            )
        })
        .collect();
    let (name, version, previous) = (
        words(done, "name"),
        words(done, "version"),
        words(done, "previousVersion"),
    );
    let would = if done["dryRun"] == json!(true) { "would be " } else { "" };
    lines.push(match (version, previous) {
        ("", previous) => format!("{name} {previous} {would}uninstalled"),
        (version, "") => format!("{name} {version} {would}installed"),
        (version, previous) if version == previous => format!("{name} {version} {would}unchanged"),
        (version, previous) => format!("{name} {version} {would}installed, replacing {previous}"),
    });
    lines.join("\n")
}
