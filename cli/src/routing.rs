//! `rejoin routing`: assignment of agents to new conversations, and its statistics; through the API.
use anyhow::{Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// Length of a message in a table, in characters.
const SHOWN_CHARS: usize = 60;
/// The value of `set` for no agent.
const NONE: &str = "none";

/// Show and set which agent gets a new conversation, with statistics.
///
/// Examples:
///   rejoin routing show
///   rejoin routing set --percent 50 --prefer postgres-analyst --control triage
///   rejoin routing stats --days 7
///   rejoin --json routing misrouted > misrouted.jsonl
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
    /// Show how new conversations are assigned to agents.
    Show,
    /// Change the settings. Omitted settings stay unchanged.
    Set {
        /// Percentage of new conversations without an agent that are routed.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
        percent: Option<u8>,
        /// Default agent, used if no signal favours another one; `none`: none.
        #[arg(long, value_name = "AGENT")]
        prefer: Option<String>,
        /// Agent used if nothing is known about the question.
        #[arg(long, value_name = "AGENT")]
        triage: Option<String>,
        /// Agent for the conversations that are not routed; `none`: no agent.
        #[arg(long, value_name = "AGENT")]
        control: Option<String>,
    },
    /// Show statistics of routing decisions and compare routed conversations with the others.
    Stats {
        /// Number of days to look back.
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u16,
    },
    /// List your first messages that were routed to the wrong specialist. With --json, one per line.
    Misrouted {
        /// Number of days to look back.
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u16,
    },
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let project = client.project(args.project).await?;
    let settings = format!("/api/admin/projects/{project}/routing");
    match args.action {
        Action::Show => show(&client.get(&settings).await?, out)?,
        Action::Set {
            percent,
            prefer,
            triage,
            control,
        } => {
            if percent.is_none() && [&prefer, &triage, &control].into_iter().all(Option::is_none) {
                bail!("nothing to change: pass --percent, --prefer, --triage or --control");
            }
            let mut body = client.get(&settings).await?;
            let agent = |name: String| if name == NONE { Value::Null } else { name.into() };
            let changes = [
                ("percent", percent.map(|percent| json!(percent))),
                ("preferredAgent", prefer.map(agent)),
                ("triageAgent", triage.map(Value::from)),
                ("controlAgent", control.map(agent)),
            ];
            for (name, value) in changes {
                if let Some(value) = value {
                    body[name] = value;
                }
            }
            show(&client.change(Method::PUT, &settings, &body).await?, out)?;
        }
        Action::Stats { days } => {
            let path = format!("/api/projects/{project}/routing/stats?days={days}");
            stats(&client.get(&path).await?, out)?;
        }
        Action::Misrouted { days } => misrouted(&client, project, days, out).await?,
    }
    Ok(Exit::Done)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.0}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

fn show(routing: &Value, out: Out) -> Result<()> {
    out.either(routing, || {
        format!(
            "{} % of new conversations are routed\npreferred: {}\ntriage: {}\nthe others: {}",
            routing["percent"],
            text(&routing["preferredAgent"]),
            text(&routing["triageAgent"]),
            text(&routing["controlAgent"]),
        )
    })
}

fn stats(stats: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(stats);
    }
    let rows = |list: &str, columns: [&str; 6]| -> Vec<[String; 6]> {
        let items = stats[list].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| columns.map(|name| text(&item[name]))).collect()
    };
    out.table(
        [
            "GROUP",
            "CONVERSATIONS",
            "HANDED OVER",
            "HELPED",
            "DID NOT HELP",
            "ANSWER MS",
        ],
        &rows(
            "arms",
            [
                "arm",
                "conversations",
                "handedOver",
                "helped",
                "didNotHelp",
                "answerMsP50",
            ],
        ),
    )?;
    out.line("")?;
    out.table(
        [
            "AGENT",
            "REASON",
            "CONVERSATIONS",
            "HANDED OVER",
            "HELPED",
            "DID NOT HELP",
        ],
        &rows(
            "items",
            ["agent", "reason", "conversations", "handedOver", "helped", "didNotHelp"],
        ),
    )
}

async fn misrouted(client: &Client, project: Uuid, days: u16, out: Out) -> Result<()> {
    let mut rows = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("days", &days.to_string());
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let page = client
            .get(&format!("/api/projects/{project}/routing/misrouted?{}", query.finish()))
            .await?;
        for item in page["items"].as_array().into_iter().flatten() {
            if out.is_json() {
                out.json(item)?;
                continue;
            }
            let message = item["message"].as_str().unwrap_or_default();
            rows.push([
                text(&item["routing"]["agent"]),
                text(&item["routing"]["reason"]),
                text(&item["handedTo"]),
                message
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .chars()
                    .take(SHOWN_CHARS)
                    .collect(),
            ]);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if out.is_json() {
        Ok(())
    } else {
        out.table(["CHOSEN", "REASON", "HANDED TO", "MESSAGE"], &rows)
    }
}
