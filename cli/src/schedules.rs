//! `rejoin schedules`: agents and DAGs of tasks started by the clock; through the API.
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    client::Client,
    dev_instance,
    exit::Exit,
    fields::{field, items},
    global::Global,
    out::Out,
};

/// Run agents, or task DAGs, on a schedule.
///
/// Examples:
///   rejoin schedules add nightly --cron "0 3 * * *" --time-zone Europe/Berlin --agent tidier --input "Tidy up."
///   rejoin schedules add launch --at 2027-01-01T09:00:00Z --tasks launch.yaml
///   rejoin schedules list
///   rejoin schedules disable nightly
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
    /// Create a schedule.
    Add {
        name: String,
        #[command(flatten)]
        when: When,
        /// Time zone of --cron.
        #[arg(long, default_value = "UTC", value_name = "NAME")]
        time_zone: String,
        #[command(flatten)]
        what: What,
        /// What to do about firings that were missed while no worker was running.
        #[arg(long, default_value = "once", value_parser = ["skip", "once", "all"])]
        missed: String,
        /// Create it disabled.
        #[arg(long)]
        disabled: bool,
    },
    /// List the project's schedules.
    List {
        /// Maximum number of schedules.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
        /// Continue after the previous page (`nextCursor`).
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show one schedule, by name or id.
    Show { schedule: String },
    /// Enable a schedule: it fires from now on.
    Enable { schedule: String },
    /// Disable a schedule.
    Disable { schedule: String },
    /// Remove a schedule. Runs that it has started continue.
    Remove { schedule: String },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct When {
    /// Cron expression with five fields: minute hour day month weekday.
    #[arg(long, value_name = "FIELDS")]
    cron: Option<String>,
    /// Fire once, at this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct What {
    /// Agent to run, by name.
    #[arg(
        long,
        value_name = "NAME",
        requires = "input",
        conflicts_with = "tasks",
        required_unless_present = "tasks"
    )]
    agent: Option<String>,
    /// Message to the agent.
    #[arg(long, value_name = "TEXT", requires = "agent")]
    input: Option<String>,
    /// Instead of an agent: a file with a task DAG, as for `rejoin tasks apply`.
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
}

/// # Errors
/// The file can't be read, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let schedules = format!("/api/projects/{}/schedules", client.project(args.project).await?);
    match args.action {
        Action::Add {
            name,
            when,
            time_zone,
            what,
            missed,
            disabled,
        } => {
            let mut body = Map::from_iter([
                ("name".to_owned(), json!(name)),
                ("timeZone".to_owned(), json!(time_zone)),
                ("missed".to_owned(), json!(missed)),
                ("enabled".to_owned(), json!(!disabled)),
            ]);
            let tasks = what.tasks.as_ref().map(crate::tasks::read).transpose()?;
            for (field, value) in [
                ("cron", when.cron.map(Value::from)),
                ("at", when.at.map(Value::from)),
                ("agent", what.agent.map(Value::from)),
                ("input", what.input.map(Value::from)),
                ("tasks", tasks),
            ] {
                if let Some(value) = value {
                    body.insert(field.to_owned(), value);
                }
            }
            show(&client.post(&schedules, &Value::Object(body)).await?, out)?;
        }
        Action::List { limit, cursor } => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &limit.to_string());
            if let Some(cursor) = cursor {
                query.append_pair("cursor", &cursor);
            }
            list(&client.get(&format!("{schedules}?{}", query.finish())).await?, out)?;
        }
        Action::Show { schedule } => show(&find(&client, &schedules, &schedule).await?, out)?,
        Action::Enable { schedule } => switch(&client, &schedules, &schedule, true, out).await?,
        Action::Disable { schedule } => switch(&client, &schedules, &schedule, false, out).await?,
        Action::Remove { schedule } => {
            let found = find(&client, &schedules, &schedule).await?;
            client.delete(&format!("{schedules}/{}", field(&found, "id"))).await?;
            out.either(&json!({ "removed": found["id"] }), || {
                format!("the schedule {} was removed", field(&found, "name"))
            })?;
        }
    }
    Ok(Exit::Done)
}

async fn switch(client: &Client, schedules: &str, schedule: &str, enabled: bool, out: Out) -> Result<()> {
    let found = find(client, schedules, schedule).await?;
    let path = format!("{schedules}/{}", field(&found, "id"));
    show(
        &client
            .change(Method::PATCH, &path, &json!({ "enabled": enabled }))
            .await?,
        out,
    )
}

/// By id or, failing that, by name.
async fn find(client: &Client, schedules: &str, wanted: &str) -> Result<Value> {
    if wanted.parse::<Uuid>().is_ok() {
        return client.get(&format!("{schedules}/{wanted}")).await;
    }
    let mut cursor = None;
    loop {
        let after = cursor
            .map(|cursor: String| format!("&cursor={cursor}"))
            .unwrap_or_default();
        let page = client.get(&format!("{schedules}?limit=100{after}")).await?;
        let found = items(&page).iter().find(|schedule| schedule["name"] == wanted);
        if let Some(found) = found {
            return Ok(found.clone());
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Err(anyhow!(
                "there is no schedule {wanted}; `rejoin schedules list` shows all"
            ))
            .context("looking up the schedule");
        }
    }
}

fn list(page: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(page);
    }
    let rows: Vec<[String; 6]> = items(page)
        .iter()
        .map(|schedule| {
            [
                field(schedule, "name"),
                when(schedule),
                what(schedule),
                field(schedule, "nextAt"),
                field(schedule, "lastAt"),
                field(schedule, "lastError"),
            ]
        })
        .collect();
    out.table(["NAME", "WHEN", "STARTS", "NEXT", "LAST", "ERROR"], &rows)?;
    if let Some(cursor) = page["nextCursor"].as_str() {
        out.note(&format!("there are more: --cursor {cursor}"));
    }
    Ok(())
}

fn show(schedule: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(schedule);
    }
    let state = match schedule["enabled"].as_bool() {
        Some(true) => "on",
        Some(false) | None => "off",
    };
    for (name, value) in [
        ("schedule", field(schedule, "id")),
        ("name", field(schedule, "name")),
        ("is", state.to_owned()),
        ("when", when(schedule)),
        ("starts", what(schedule)),
        ("input", field(schedule, "input")),
        ("missed", field(schedule, "missed")),
        ("next", field(schedule, "nextAt")),
        ("last", field(schedule, "lastAt")),
        ("last run", field(schedule, "lastRunId")),
        ("last tasks", field(schedule, "lastTaskDagId")),
        ("error", field(schedule, "lastError")),
    ] {
        if !value.is_empty() {
            out.line(&format!("{name:10} {value}"))?;
        }
    }
    Ok(())
}

fn when(schedule: &Value) -> String {
    match schedule["cron"].as_str() {
        Some(cron) => format!("{cron} {}", field(schedule, "timeZone")),
        None => field(schedule, "at"),
    }
}

fn what(schedule: &Value) -> String {
    match schedule["agent"].as_str() {
        Some(agent) => agent.to_owned(),
        None => format!("tasks {}", field(&schedule["tasks"], "name")),
    }
}
