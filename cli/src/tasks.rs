//! `rejoin tasks`: DAGs of tasks done by agents; through the API.
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, fields::field, global::Global, out::Out};

/// Run tasks that depend on each other: a DAG in a YAML or JSON file.
///
/// Examples:
///   rejoin tasks apply research.yaml
///   rejoin tasks apply research.yaml --dry-run
///   rejoin tasks show 0192f0c1-… --diagram mermaid
///   rejoin tasks cancel 0192f0c1-…
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
    /// Create and start a DAG from a file.
    Apply {
        /// File with name, tasks (id, title, description, after, agent, priority …), maxConcurrency, rules.
        file: PathBuf,
        /// Store nothing; only validate the file.
        #[arg(long)]
        dry_run: bool,
    },
    /// List the newest DAGs.
    List {
        /// Maximum number of DAGs.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
    },
    /// Show a DAG with its tasks, or a diagram of it.
    Show {
        dag: Uuid,
        /// Print a diagram in this format.
        #[arg(long, value_enum)]
        diagram: Option<Diagram>,
    },
    /// Pause a DAG: no more tasks are started; running tasks continue.
    Pause { dag: Uuid },
    /// Resume a paused DAG.
    Resume { dag: Uuid },
    /// Retry a failed task; tasks that were skipped because of it may start as well.
    Retry {
        dag: Uuid,
        /// The task's id in the DAG.
        task: String,
    },
    /// Cancel a DAG: its runs are cancelled, pending tasks are skipped.
    Cancel { dag: Uuid },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Diagram {
    Mermaid,
    Text,
}

/// # Errors
/// The file can't be read, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    if let Action::Apply { file, dry_run: true } = &args.action {
        let spec: rejoin_scheduling::tasks::spec::DagSpec =
            serde_json::from_value(read(file)?).context("the file is not a valid task DAG")?;
        spec.check().map_err(anyhow::Error::msg)?;
        out.either(&json!({"tasks": spec.tasks.len()}), || {
            format!("{} tasks, in order of execution; nothing was stored", spec.tasks.len())
        })?;
        return Ok(Exit::Done);
    }
    let client = Client::new(dev_instance::access(global)?)?;
    let dags = format!("/api/projects/{}/task-dags", client.project(args.project).await?);
    match args.action {
        Action::Apply { file, .. } => show(&client.post(&dags, &read(&file)?).await?, out)?,
        Action::List { limit } => {
            let page = client.get(&format!("{dags}?limit={limit}")).await?;
            if out.is_json() {
                out.json(&page)?;
            } else {
                let rows: Vec<[String; 4]> = items(&page["items"])
                    .iter()
                    .map(|dag| [field(dag, "id"), field(dag, "state"), counted(dag), field(dag, "name")])
                    .collect();
                out.table(["DAG", "STATE", "TASKS", "NAME"], &rows)?;
            }
        }
        Action::Show { dag, diagram: None } => show(&client.get(&format!("{dags}/{dag}")).await?, out)?,
        Action::Show {
            dag,
            diagram: Some(diagram),
        } => {
            let format = match diagram {
                Diagram::Mermaid => "mermaid",
                Diagram::Text => "text",
            };
            let drawn = client.text(&format!("{dags}/{dag}/diagram?format={format}")).await?;
            out.either(&json!({ "diagram": drawn }), || drawn.trim_end().to_owned())?;
        }
        Action::Pause { dag } => show(&client.post(&format!("{dags}/{dag}/pause"), &json!({})).await?, out)?,
        Action::Resume { dag } => show(&client.post(&format!("{dags}/{dag}/resume"), &json!({})).await?, out)?,
        Action::Retry { dag, task } => {
            let task: String = url::form_urlencoded::byte_serialize(task.as_bytes()).collect();
            // In a path, a plus is not a space.
            let path = format!("{dags}/{dag}/tasks/{}/retry", task.replace('+', "%20"));
            show(&client.post(&path, &json!({})).await?, out)?;
        }
        Action::Cancel { dag } => show(&client.post(&format!("{dags}/{dag}/cancel"), &json!({})).await?, out)?,
    }
    Ok(Exit::Done)
}

/// YAML, a superset of JSON.
pub fn read(file: &PathBuf) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {} failed", file.display()))?;
    serde_norway::from_str(&text).with_context(|| format!("{} is neither valid YAML nor valid JSON", file.display()))
}

fn show(dag: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(dag);
    }
    out.line(&format!(
        "{} {}: {}, {}",
        field(dag, "id"),
        field(dag, "name"),
        field(dag, "state"),
        counted(dag)
    ))?;
    let rows: Vec<[String; 5]> = items(&dag["tasks"])
        .iter()
        .map(|task| {
            let after: Vec<&str> = items(&task["after"]).iter().filter_map(Value::as_str).collect();
            [
                field(task, "id"),
                field(task, "state"),
                field(task, "agent"),
                after.join(", "),
                field(task, "title"),
            ]
        })
        .collect();
    out.table(["TASK", "STATE", "AGENT", "AFTER", "TITLE"], &rows)
}

/// `3 completed, 1 pending`.
fn counted(dag: &Value) -> String {
    let counts = dag["counts"].as_object().into_iter().flatten();
    let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
    counts.join(", ")
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}
