//! `rejoin sources`: external databases for a project's users and agents; through the API.
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use rejoin_integrations::data_sources::{self, Kind};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    client::Client,
    dev_instance,
    exit::Exit,
    fields::{field, items},
    global::Global,
    out::Out,
};

/// Manage and query data sources: databases that a project's users and agents can query.
///
/// Examples:
///   rejoin sources add shop postgres://reader@db.example/shop --secret-file password.txt
///   rejoin sources add stock sqlite:///srv/data/stock.db
///   rejoin sources add events bigquery://my-project/events --secret-file key.json
///   rejoin sources list
///   rejoin sources query shop "select count(*) from orders"
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
    /// Add a data source, after testing the connection.
    Add {
        name: String,
        /// postgres://, mysql://, mongodb://, mongodb+srv://, sqlite:///path, or bigquery://project/dataset.
        url: String,
        /// File with the password or the service account key; `-` reads stdin. (A password in the URL is visible to all
        /// users of this machine.)
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// Allow writing to the source.
        #[arg(long)]
        writable: bool,
        /// Add the source even if it does not respond.
        #[arg(long)]
        force: bool,
    },
    /// List the project's data sources.
    List,
    /// Test a data source's connection.
    Test { source: String },
    /// Remove a data source.
    Remove { source: String },
    /// Run a read-only query.
    Query {
        source: String,
        /// One statement, in the source's query language.
        query: String,
        /// Database to query [default: the source's own]
        #[arg(long)]
        database: Option<String>,
        /// Maximum number of rows.
        #[arg(long, value_name = "N")]
        rows: Option<u32>,
    },
}

/// # Errors
/// The file can't be read, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let sources = format!("/api/projects/{}/data-sources", client.project(args.project).await?);
    match args.action {
        Action::Add {
            name,
            url,
            secret_file,
            writable,
            force,
        } => {
            let (kind, settings, password) = data_sources::from_url(&url).map_err(|fault| anyhow!(fault))?;
            let secret = match secret_file {
                Some(_) if password.is_some() => bail!(
                    "the password is given both in the URL and in a file; give \
                    only one of them"
                ),
                Some(file) => Some(read(&file, kind)?),
                None => password,
            };
            let body =
                json!({ "name": name, "kind": kind, "settings": settings, "secret": secret, "readOnly": !writable });
            let added = client.post(&format!("{sources}?force={force}"), &body).await?;
            out.either(&added, || {
                format!("the source {name} was added ({})", field(&added, "kind"))
            })?;
        }
        Action::List => {
            let listed = client.get(&sources).await?;
            if out.is_json() {
                out.json(&listed)?;
                return Ok(Exit::Done);
            }
            let row = |source: &Value| {
                let access = if source["readOnly"] == json!(false) {
                    "writable"
                } else {
                    "read-only"
                };
                [
                    field(source, "name"),
                    field(source, "kind"),
                    place(source),
                    access.to_owned(),
                    field(source, "failure"),
                ]
            };
            let rows: Vec<[String; 5]> = items(&listed).iter().map(row).collect();
            out.table(["NAME", "KIND", "WHERE", "ACCESS", "FAILURE"], &rows)?;
        }
        Action::Test { source } => {
            let found = find(&client, &sources, &source).await?;
            let tested = client
                .post(&format!("{sources}/{}/test", field(&found, "id")), &json!({}))
                .await?;
            out.either(&tested, || match tested["ok"].as_bool() {
                Some(true) => {
                    let warnings = tested["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let texts = warnings.iter().filter_map(Value::as_str);
                    texts.fold(field(&tested, "server"), |text, warning| {
                        format!("{text}\nwarning: {warning}")
                    })
                }
                Some(false) | None => format!("the source does not respond: {}", field(&tested, "failure")),
            })?;
            if tested["ok"] != json!(true) {
                return Err(anyhow!("the source {source} does not respond"));
            }
        }
        Action::Remove { source } => {
            let found = find(&client, &sources, &source).await?;
            client.delete(&format!("{sources}/{}", field(&found, "id"))).await?;
            out.either(&json!({ "removed": found["id"] }), || {
                format!("the source {} was removed", field(&found, "name"))
            })?;
        }
        Action::Query {
            source,
            query,
            database,
            rows,
        } => {
            let found = find(&client, &sources, &source).await?;
            let body = json!({ "query": query, "database": database, "maxRows": rows });
            let answer = client
                .post(&format!("{sources}/{}/query", field(&found, "id")), &body)
                .await?;
            if out.is_json() {
                out.json(&answer)?;
            } else {
                show(&answer, out)?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Reads a file, without the line end that editors append to passwords.
fn read(file: &PathBuf, kind: Kind) -> Result<String> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.with_context(|| format!("reading the secret from {} failed", file.display()))?;
    Ok(match kind {
        Kind::Bigquery => text,
        Kind::Postgresql | Kind::Mysql | Kind::Sqlite | Kind::Duckdb | Kind::Mongodb => {
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
    })
}

/// By id or by name.
async fn find(client: &Client, sources: &str, wanted: &str) -> Result<Value> {
    let listed = client.get(sources).await?;
    let is_it = |source: &&Value| source["name"] == wanted || source["id"] == wanted;
    let found = items(&listed).iter().find(is_it).cloned();
    found.ok_or_else(|| anyhow!("there is no source {wanted}; `rejoin sources list` shows all"))
}

fn show(answer: &Value, out: Out) -> Result<()> {
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let names: Vec<String> = answer["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| field(column, "name"))
        .collect();
    out.line(&names.join("\t"))?;
    for row in answer["rows"].as_array().into_iter().flatten() {
        let cells: Vec<String> = row.as_array().into_iter().flatten().map(cell).collect();
        out.line(&cells.join("\t"))?;
    }
    if answer["truncated"] == json!(true) {
        out.note("there are more rows; raise --rows or the source's own limit");
    }
    Ok(())
}

/// Returns its location in one word.
fn place(source: &Value) -> String {
    let settings = &source["settings"];
    let setting = |name: &str| settings[name].as_str().unwrap_or_default();
    match setting("path") {
        "" => format!("{}{}/{}", setting("host"), setting("cloudProject"), setting("database")),
        path => path.to_owned(),
    }
}
